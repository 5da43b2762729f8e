"""The failure of a bake: which ones another try may pass, what to do about the others, and the tools' own messages.

A failed compile or test step is never transient, whatever it prints: it has no network, and would fail again after hours
of work. ``failures.toml`` has known messages.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import TypeAdapter

from bakery.core.errors import BakeError, BakeryError
from bakery.plan.values import Json
from bakery.runs.buildx import missing
from bakery.runs.buildx.bake_outcome import LATE, BakeOutcome, Failure

_ERRORS = tuple(
    re.compile(pattern)
    for pattern in (
        # gcc, clang, gfortran: file:line:column. nvcc: file(line).
        r"\S.*?:\d+(:\d+)?: (fatal )?error: ",
        r"\S+\(\d+\): (catastrophic |fatal )?error\b",
        r"(\S*(gcc|g\+\+|clang|clang\+\+|cc1|cc1plus|nvcc|ptxas|cicc|ld|collect2)\s*:?) (fatal +)?(error|fatal)\s*:",
        r".*\bundefined reference to ",
        r"(\S*[/-])?ld(\.\w+)?: (?!warning)\S",
        r"ninja: (error|fatal): ",
        r"CMake Error\b",
        r"\S*meson\.build:\d+:\d+: ERROR: ",
        # rustc and cargo; the file follows.
        r"error(\[E\d+\])?: (?!could not compile|aborting|[Cc]ommand|subprocess|failed to push|metadata-generation)",
        r"\S+\.pyx:\d+:\d+: ",
        # Python: the last line of a traceback.
        r"(?!Error: )(\w+\.)*[A-Z]\w*(Error|Exception|Exit|Interrupt)(: |$)",
        r"\* Missing dependencies:",
        r"ERROR: (?!Failed|Could not build)",
        r"make(\[\d+\])?: \*\*\* ",
        r"💥 maturin failed",
    )
)
"""How messages begin that name a cause. Of pip, make and cargo also those that only name the failed command."""

_WEAK = re.compile(
    r"make(\[\d+\])?: \*\*\* |\S*collect2|error: linking with|ERROR: |💥 |(\w+\.)*(CalledProcess|Compile|Link)Error: "
    r"|RuntimeError: Error compiling objects for extension"
)
"""Messages that follow those of another tool: shown if there are no others."""

_FRAME = re.compile(r'  File "[^"]+", line \d+')
_FOLLOWS = re.compile(r"\s*\d* *\||\s*(-->|=|\^|~)|\s{2,}\S")
"""A line that belongs to the message above: source, a mark below it, or where it is."""

_BOILERPLATE = re.compile(
    r"\s*$|TIP pass |ERROR Backend subprocess exited|\* |running \w+$|(writing|reading|creating|adding|copying) \S"
)
"""Lines of build front ends that name no cause."""

_ANY_PYTHON = re.compile(r"(python|cp|cpython-)3\.?\d+")

MOST_CONTEXT = 8


def excerpt(lines: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the messages of tools in the output of a step, with the lines that belong to them; at most ``most`` lines.

    Without a message that is known: the end of the output.
    """
    starts = [index for index, line in enumerate(lines) if _is_error(line)]
    strong = [index for index in starts if not _WEAK.match(lines[index])]
    shown: list[str] = []
    for index in strong or starts:
        message = _message(lines, index)
        if lines[index] in shown:
            continue
        if shown and len(shown) + len(message) > most:
            more = sum(1 for other in strong or starts if other >= index)
            return (*shown, f"… and {more} more error{'s' if more > 1 else ''}")
        shown += message[:most]
    if shown:
        return tuple(shown)
    return tuple([line for line in lines if not _BOILERPLATE.match(line)][-most:])


def same_cause(lines: Sequence[str]) -> str:
    """Return what failures of several cells have in common if they have one cause: messages without the Python."""
    return "\n".join(_ANY_PYTHON.sub("python", line) for line in lines)


def _is_error(line: str) -> bool:
    return any(pattern.match(line) for pattern in _ERRORS)


def _message(lines: Sequence[str], index: int) -> list[str]:
    """Return a message and the lines that belong to it; of a Python traceback, the last call, too."""
    before = []
    if re.match(r"(\w+\.)*[A-Z]\w*(Error|Exception|Exit|Interrupt)(: |$)", lines[index]):
        frames = [at for at in range(max(0, index - 12), index) if _FRAME.match(lines[at])]
        before = list(lines[frames[-1] : index][:3]) if frames else []
    follows = []
    for line in lines[index + 1 : index + 1 + MOST_CONTEXT]:
        # CMake has empty lines between the paragraphs of a message.
        if _is_error(line) or not (_FOLLOWS.match(line) or (not line and lines[index].startswith("CMake "))):
            break
        follows.append(line)
    return [*before, lines[index], *(line for line in follows if line)]


OWN_WORK = re.compile(
    r"\[(?:\S+ )?(?:(?:backend-requires|native|compile)(?:-again)?|repair|\S+-test|\S+-built)(?: \d+/\d+)?\] (?:RUN|COPY|WORKDIR)\b"
)
"""Titles of steps that run the project's own code."""

_STEP_ENDED = "did not complete successfully: "
"""In BuildKit's error if a step's command failed; other errors are those of the engine."""

_LOST = re.compile(r"snapshot \S+ does not exist|/snapshots/\d+/fs: no such file or directory")
"""Messages of containerd or the kernel about a missing layer."""


@dataclass(frozen=True, slots=True)
class FailureHint:
    """A known cause: ``patterns`` of lines, and of the step's title (``stage``, empty for any), and what to do."""

    patterns: tuple[str, ...]
    hint: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Messages:
    """The content of ``failures.toml``."""

    engine: tuple[str, ...]
    network: tuple[str, ...]
    hints: tuple[FailureHint, ...]
    otherwise: tuple[FailureHint, ...]


@cache
def messages() -> Messages:
    """Return the known messages."""
    table = tomllib.loads((files(__package__) / "failures.toml").read_text(encoding="utf-8"))
    return TypeAdapter(Messages).validate_python(table)


def hint(lines: Iterable[str], title: str = "", recipe: missing.Recipe | None = None) -> str:
    """Return what to do about a failed step; empty if the cause is not known.

    Args:
        lines: its output, and BuildKit's error.
        title: as displays show it: ``[compile 3/5] RUN …``.
        recipe: of the failed cell, for advice that names a line of it.
    """
    texts, stage = tuple(lines), title.partition("]")[0].lstrip("[")
    return (
        _known(messages().hints, texts, stage)
        or missing.advice(texts, stage, recipe or missing.Recipe())
        or _known(messages().otherwise, texts, stage)
    )


def _known(hints: Iterable[FailureHint], texts: tuple[str, ...], stage: str) -> str:
    fitting = (entry for entry in hints if not entry.stage or re.search(entry.stage, stage))
    return next((entry.hint for entry in fitting if _matches(entry.patterns, texts)), "")


def is_transient(failure: Failure) -> bool:
    """Return whether another try may pass."""
    error, _, ended = failure.error.partition(_STEP_ENDED)
    if not ended:
        return _matches((*messages().engine, *messages().network), (error, *(() if failure.step else failure.tail)))
    if OWN_WORK.match(failure.step):
        return False
    return _matches(messages().network, failure.tail)


def may_be_the_cache(failure: Failure) -> bool:
    """Return whether layers of an imported cache may be missing: no command failed, and it was not the time limit.

    BuildKit trusts the index of a cache, and fetches a layer only when a step needs it.
    """
    return _STEP_ENDED not in failure.error and not failure.error.startswith(LATE)


def lost_a_layer(failure: Failure) -> bool:
    """Return whether the engine's build cache names a layer that the engine does not have; retries do not help.

    A client that is killed can cause this (https://github.com/moby/buildkit/pull/6808). A build without the cache
    replaces the lost layer.
    """
    return _STEP_ENDED not in failure.error and bool(_LOST.search(failure.error))


def went_away(failure: Failure) -> bool:
    """Return whether the engine or the connection to it failed, not a command."""
    return _STEP_ENDED not in failure.error and is_transient(failure)


def _matches(patterns: Iterable[str], lines: Iterable[str]) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns for line in lines)


class BakeFailure(BakeError):
    """At least one target failed; ``outcome`` has all of them, ``details`` the messages of the first failure.

    ``shell``: the command that opens a shell before the failed step of the project's own code in ``cell`` of ``recipe``.
    """

    def __init__(self, outcome: BakeOutcome, cell: str = "", recipe: str = "") -> None:
        first = outcome.failures[0]
        work = first.work or first.step
        # BuildKit's error without the command, which the step's title shows already.
        error = first.error.rpartition(_STEP_ENDED)[2].strip().partition("\n")[0]
        own = cell and OWN_WORK.match(first.step)
        words = ("wheel-bakery", "shell", cell, "--at", first.stage, "--recipe", recipe)
        shell = shlex.join(words) if own else ""
        self.outcome = outcome
        self.shell = f"a shell before that step: {shell}" if shell else ""
        hints = (first.hint, f"the whole log: {first.log}" if first.log else "", self.shell)
        message = f"{work} failed: {error}" if work else error
        super().__init__(message, hint="; ".join(filter(None, hints)), details=first.messages or first.tail)


def advice(error: BakeryError) -> str:
    """Return what is known to help against a failed step; empty for other errors."""
    return error.outcome.failures[0].hint if isinstance(error, BakeFailure) else ""


def error_json(error: BakeryError) -> dict[str, Json]:
    """Return the error of a cell for a report in JSON."""
    first = error.outcome.failures[0] if isinstance(error, BakeFailure) else None
    return {
        "message": error.message,
        "details": list(error.details),
        # The log and the step, which the hint of a failed step names, are below.
        "hint": first.hint if first else error.hint,
        "log": str(first.log or "") if first else "",
        "stage": first.stage if first else "",
        "step": first.index if first else "",
    }
