"""The error messages of compilers and build tools in the output of a step, apart from what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ERRORS = tuple(
    re.compile(pattern)
    for pattern in (
        # gcc, clang, gfortran: file:line:column. nvcc: file(line).
        r"\S.*?:\d+(:\d+)?: (fatal )?error: ",
        r"\S+\(\d+\): (catastrophic |fatal )?error\b",
        r"(\S*(gcc|g\+\+|clang|clang\+\+|cc1|cc1plus|nvcc|ptxas|cicc|ld|collect2)\s*:?) (fatal +)?(error|fatal)\s*:",
        r".*\bundefined reference to ",
        r"(\S*[/-])?ld(\.\w+)?: (?!warning)\S",
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
