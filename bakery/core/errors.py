"""All failures of Bakery: one class for each, with its exit code. Only ``bakery.cli`` prints them and exits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wheel_audit.text import printable

LONGEST = 10_000
"""Characters of a text in an error: a server's answer may be one line of 64 KiB."""


class BakeryError(Exception):
    """Any other failure.

    The base class of all failures. `message` is one sentence, lower case, no full stop, and begins with the subject, if
    there is one; `reason` is the message without it. `hint` says what to do and may be empty. `details` are lines below
    the message: all problems of a recipe, the end of a log, a diff.
    """

    exit_code: int = 1
    title: str = "error"
    message: str
    reason: str
    hint: str
    details: tuple[str, ...]

    def __init_subclass__(cls, exit_code: int | None = None, title: str = "") -> None:
        cls.exit_code = cls.exit_code if exit_code is None else exit_code
        cls.title = title or cls.title

    def __init__(
        self,
        reason: str,
        *,
        subject: str = "",
        hint: str = "",
        details: Sequence[str] = (),
        exit_code: int | None = None,
        title: str = "",
    ) -> None:
        """Make an error; without ``exit_code`` and ``title``, it has those of its class. None of them changes later."""
        reason, hint, details = reason[:LONGEST], hint[:LONGEST], [text[:LONGEST] for text in details]
        message = f"{subject}: {reason}" if subject else reason
        super().__init__(message)
        # Text of a recipe or of a step may have control characters; a name with line breaks would forge lines.
        texts = {"message": message, "reason": reason, "hint": hint}
        vars(self).update({name: printable(text, keep="\t") for name, text in texts.items()})
        vars(self)["details"] = tuple(printable(text, keep="\n\t") for text in details)
        vars(self).update(exit_code=self.exit_code if exit_code is None else exit_code, title=title or self.title)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) and not name.startswith("__"):
            raise AttributeError(f"{name} of an error cannot be changed")
        super().__setattr__(name, value)


class UsageError(BakeryError, exit_code=2, title="usage"):
    """The command line or an environment variable cannot be understood."""


class RecipeError(BakeryError, exit_code=3, title="recipe"):
    """A recipe is malformed."""


class PlanError(BakeryError, exit_code=4, title="plan"):
    """The recipe is well formed, but no plan can satisfy it."""


class DriftError(BakeryError, exit_code=5, title="drift"):
    """A generated file differs from what its recipe says."""


class EngineError(BakeryError, exit_code=6, title="engine"):
    """There is no usable engine (docker daemon, buildx), and none can be installed."""


class BakeError(BakeryError, exit_code=7, title="bake"):
    """A build step failed."""


class AuditError(BakeryError, exit_code=8, title="audit"):
    """A wheel failed the audit, and is not in the output folder."""


class UnavailableError(BakeryError, exit_code=9, title="not available"):
    """A requested version, package or image is not available to this machine."""


class OutputError(BakeryError, exit_code=10, title="files"):
    """A file or folder cannot be read or written (permissions, space, links)."""


@contextmanager
def reported(what: str, hint: str = "") -> Iterator[None]:
    """Raise OutputError instead of OSError; ``what`` begins its message, such as ``cannot read PATH``."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{what}: {error.strerror or error}", hint=hint) from error


class SomeFailed(BakeError, exit_code=11):
    """Some cells failed; the others are done, and their wheels are in the output folder."""


class LockError(BakeryError, exit_code=12, title="lock"):
    """The inputs of a build differ from bakery.lock, or there is no lock."""


class DifferentError(BakeryError, exit_code=13, title="differs"):
    """A wheel that was built again differs from the original."""


class InterruptedBake(BakeryError, exit_code=130, title="interrupted"):
    """Ctrl-C or SIGTERM; the build was ended. Wheels that were finished by then are in the output folder."""


EXIT_CODES: dict[int, str] = {
    item.exit_code: (item.__doc__ or "").split("\n")[0]
    for item in list(globals().values())
    if isinstance(item, type) and issubclass(item, BakeryError)
}
"""Exit code to meaning, for the command's help and the documentation."""
