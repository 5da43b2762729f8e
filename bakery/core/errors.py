"""All failures of Bakery: one class for each, with its exit code.

Libraries raise them; only ``bakery.cli`` prints them and exits. An error says what is wrong (``message``), what to do
(``hint``) and, if it helps, shows lines of a log or a file (``details``).
"""

from __future__ import annotations

from collections.abc import Sequence

from bakery.core.text import printable


class BakeryError(Exception):
    """Any other failure.

    The base class of all failures.

    Attributes:
        message: what is wrong: one sentence, lower case, no full stop. It begins with the subject, if there is one.
        reason: the message without the subject.
        hint: what to do; may be empty.
        details: lines below the message, such as the end of a log or a diff.
    """

    exit_code: int = 1
    title: str = "error"

    def __init__(self, reason: str, *, subject: str = "", hint: str = "", details: Sequence[str] = ()) -> None:
        message = f"{subject}: {reason}" if subject else reason
        super().__init__(message)
        # Text of a recipe or of a step may have control characters.
        self.message, self.reason, self.hint, *lines = (
            printable(text, keep="\n\t") for text in (message, reason, hint, *details)
        )
        self.details = tuple(lines)


class UsageError(BakeryError):
    """The command line or an environment variable cannot be understood."""

    exit_code = 2
    title = "usage"


class RecipeError(BakeryError):
    """A recipe is malformed.

    ``details`` holds every problem of the file at once.
    """

    exit_code = 3
    title = "recipe"


class PlanError(BakeryError):
    """The recipe is well formed, but no plan can satisfy it."""

    exit_code = 4
    title = "plan"


class DriftError(BakeryError):
    """A generated file differs from what its recipe says.

    ``details`` is a unified diff.
    """

    exit_code = 5
    title = "drift"


class EngineError(BakeryError):
    """There is no usable engine (docker daemon, buildx), and none can be installed."""

    exit_code = 6
    title = "engine"


class BakeError(BakeryError):
    """A build step failed.

    ``details`` is the tail of its log.
    """

    exit_code = 7
    title = "bake"


class AuditError(BakeryError):
    """A wheel is not what it promises, and was kept out of the output folder."""

    exit_code = 8
    title = "audit"


class UnavailableError(BakeryError):
    """A version, package or image that was asked for cannot be had from where this machine looks."""

    exit_code = 9
    title = "not available"


class OutputError(BakeryError):
    """A file or folder cannot be read or written (permissions, space, links)."""

    exit_code = 10
    title = "files"


class SomeFailed(BakeError):
    """Some cells failed; the others are done, and their wheels are in the output folder."""

    exit_code = 11


class LockError(BakeryError):
    """What a build would be made of is not what ``bakery.lock`` says, or there is no lock.

    ``details`` says what differs.
    """

    exit_code = 12
    title = "lock"


class DifferentError(BakeryError):
    """A wheel that was built again is not the same bytes.

    ``details`` says where they differ.
    """

    exit_code = 13
    title = "differs"


class ModuleError(BakeryError):
    """An MLIR module, or the job that names it, is not what it should be."""

    exit_code = 14
    title = "module"


class WrongResultError(BakeryError):
    """A compiled module does not give what is expected of it.

    ``details`` says which, where, and how far off.
    """

    exit_code = 15
    title = "validation"


class RegressionError(BakeryError):
    """A compiled module is slower than its baseline by more than the threshold."""

    exit_code = 16
    title = "regression"


class CompilerError(BakeryError):
    """A compiler of modules crashed, or was ended for want of memory or time."""

    exit_code = 17
    title = "compiler"


class InterruptedBake(BakeryError):
    """Ctrl-C or SIGTERM; the build was ended. Wheels that were finished by then are in the output folder."""

    exit_code = 130
    title = "interrupted"


EXIT_CODES: dict[int, str] = {
    item.exit_code: (item.__doc__ or "").split("\n")[0]
    for item in list(globals().values())
    if isinstance(item, type) and issubclass(item, BakeryError)
}
"""Exit code to meaning, for the command's help and the documentation."""
