"""Matrices of GitHub workflows that build wheels: the Pythons, releases of torch and CUDA, and platforms of their cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from bakery.init.findings import MOST_FILES, Place, Rest, is_nested_deeply
from bakery.init.tree import TABLES, Tree
from bakery.toolchains import facts

FOLDER = ".github/workflows/"
LARGEST = 64 * 1024
"""Characters of a workflow that is read: the parser needs up to two seconds for them."""

_MOST = 2 * LARGEST
"""Characters of all workflows that are read."""

_MOST_CELLS = 1024
"""GitHub runs 256 jobs of a matrix at most, and excludes before it counts."""

_ALIAS = re.compile(r"[-:\[,{][ \t]*\*\w")
_MOST_ALIASES = 20
_COMMANDS = r"bdist_wheel|pip3? wheel|(?:-m|uv) build\b(?! --sdist)|cibuildwheel|\bmaturin\b"
_BUILDS = re.compile(rf"{_COMMANDS}|auditwheel|\.whl\b")
_KEEPS = re.compile(r"artifact|upload|publish|release|deploy|twine", re.I)
_AXES = {
    **dict.fromkeys(("python", "py", "pyver", "pythonversion", "pyversion"), "python"),
    **dict.fromkeys(("torch", "torchversion", "pytorch", "pytorchversion"), "torch"),
    **dict.fromkeys(("cuda", "cu", "cudaversion", "cudashort", "toolkit", "cudatoolkit"), "cuda"),
    **dict.fromkeys(("os", "runner", "runson", "platform", "tags", "arch", "image"), "os"),
}
_VALUES = {
    "python": re.compile(r"(?:cp|py|python-?)?(3)\.?(\d{1,2})(?:\.\d+)?(t?)"),
    "torch": re.compile(r"(\d{1,2})\.(\d{1,2})(\.\d{1,2})?"),
    "cuda": re.compile(r"(?:cu|cuda-?)?(\d\d)\.?(\d)(\.\d{1,2})?", re.I),
}
# Not in `unwind`, `machine` or `farm`.
_OTHER_SYSTEM = re.compile(r"windows|darwin|macos|osx|(?<![a-z])(?:mac|win)(?:x?\d|(?![a-z]))", re.I)
_ARM = re.compile(r"arm64|aarch64|armv\d|(?<![a-z])arm(?![a-z])", re.I)
_AMD = re.compile(r"x86[-_]64|amd64|(?<![a-z])x64", re.I)
_NEITHER = re.compile(r"ppc64|s390x|riscv|loongarch|i[36]86", re.I)


@dataclass
class Workflow:
    """What is carried over from a matrix.

    Attributes:
        axes: ``python``, ``cuda`` or ``torch`` → values and place.
        platforms: those of all jobs that build wheels, if there are others than linux/amd64.
        rest: what is not carried over, with the reason.
    """

    axes: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    platforms: tuple[tuple[str, ...], Place] | None = None
    rest: list[Rest] = field(default_factory=list)


@dataclass(frozen=True)
class _Cell:
    """A job for Linux: its axes, as a recipe writes them, and its platform."""

    axes: Mapping[str, str]
    platform: str


def read_workflows(tree: Tree, refused: str = "") -> Workflow | None:
    """Return what the matrix with the most cells that builds wheels for Linux has; None if no workflow has one.

    Args:
        refused: why nothing can be carried over.
    """
    names = sorted(name for name in tree.files if name.startswith(FOLDER) and name.endswith((".yml", ".yaml")))
    found: list[tuple[list[_Cell], Place]] = []
    building: list[_Cell] = []
    result = Workflow()
    left = _MOST
    for name in names[:MOST_FILES]:
        text = tree.text(name) or ""
        if "matrix:" not in text or not (_BUILDS.search(text) or "uses: ./" in text):
            continue
        try:
            if len(text) > LARGEST:
                raise _Unread(f"larger than {LARGEST >> 10} KiB, so it was not read")
            if len(text) > left:
                raise _Unread(f"with those before it larger than {_MOST >> 10} KiB, so it was not read")
            left -= len(text)
            for job, line, lines in _jobs(text):
                cells = _cells_for_linux(job)
                said = _with_called(tree, job, lines)
                # A job such as that of the documentation builds one wheel for itself.
                if "strategy" in job and _BUILDS.search(said) and (cells[1:] or _KEEPS.search(said)):
                    found.append((cells, Place(name, line)))
                # Other jobs test and publish what these build, or call a workflow that is read itself.
                building += cells if "runs-on" in job and re.search(_COMMANDS, lines) else []
        except _Unread as error:
            result.rest.append(Rest(name, str(error)))
    if len(names) > MOST_FILES:
        result.rest.append(Rest(f"{len(names) - MOST_FILES} workflows more", f"only the first {MOST_FILES} are read"))
    cells, place = max(found, key=lambda item: len(item[0]), default=([], Place("")))
    if refused and cells:
        result.rest.append(Rest(f"the matrix in {place}", refused))
    elif cells:
        _carry(cells, [*cells, *building], place, result)
    return result if cells or result.rest else None


class _Unread(Exception):
    """A workflow is not read; the text is the reason."""


def _jobs(text: str) -> Iterator[tuple[dict[str, Any], int, str]]:
    """Yield the jobs of a workflow, with the line of the matrix, if it has one, and the text of the job.

    Raises:
        _Unread: it cannot be read.
    """
    try:
        # An extra, as for writing workflows.
        from ruamel.yaml import YAML
        from ruamel.yaml.comments import CommentedMap
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise _Unread("it was not read; python -m pip install 'wheel-bakery[ci]' installs its reader") from None
    if len(_ALIAS.findall(text)) > _MOST_ALIASES:
        raise _Unread("it has too many aliases")
    if is_nested_deeply(text):
        raise _Unread("it is nested too deeply")
    try:
        document = YAML(typ="rt", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        raise _Unread("it is no YAML that can be read") from None
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, CommentedMap):
        return
    lines = text.splitlines()
    starts = [*sorted(jobs.lc.key(name)[0] for name in jobs), len(lines)]
    for name, job in jobs.items():
        start = jobs.lc.key(name)[0]
        text_of_job = "\n".join(lines[start : next(line for line in starts if line > start)])
        strategy = job.get("strategy") if isinstance(job, dict) else None
        if isinstance(strategy, CommentedMap) and isinstance(strategy.get("matrix"), dict):
            yield job, strategy.lc.key("matrix")[0] + 1, text_of_job
        elif isinstance(job, dict) and "strategy" not in job:
            yield job, start + 1, text_of_job


def _with_called(tree: Tree, job: Mapping[str, Any], lines: str) -> str:
    """Return the text of a job, and of the workflow of this project that it calls."""
    called = job.get("uses")
    other = tree.text(called.removeprefix("./")) if isinstance(called, str) and called.startswith("./") else ""
    return lines + (other or "")


def expand(matrix: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the cells of a matrix, with GitHub's meaning of ``include`` and ``exclude``; none if they are too many.

    An entry of ``exclude`` drops all cells that have its values. One of ``include`` is added to each cell of which it
    changes no value that the axes gave, or is a cell of its own. Source: "Running variations of jobs in a workflow" in
    GitHub's documentation, read 2026-11-27.
    """
    axes = {key: value for key, value in matrix.items() if key not in ("include", "exclude")}
    lists = {key: value for key, value in axes.items() if isinstance(value, list)}
    if prod(len(value) for value in lists.values()) > _MOST_CELLS:
        return []
    first = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())] if lists else []
    first = [cell for cell in first if not any(_has(cell, entry) for entry in _entries(matrix, "exclude"))]
    cells, added = [dict(cell) for cell in first], []
    for entry in _entries(matrix, "include"):
        fitting = [
            cell
            for cell, given in zip(cells, first, strict=True)
            if all(given.get(key, value) == value for key, value in entry.items())
        ]
        for cell in fitting:
            cell.update(entry)
        added += [] if fitting else [dict(entry)]
    return [*cells, *added][:_MOST_CELLS]


def _entries(matrix: Mapping[str, object], key: str) -> list[dict[str, object]]:
    value = matrix.get(key)
    return [item for item in value[:_MOST_CELLS] if isinstance(item, dict)] if isinstance(value, list) else []


def _has(cell: object, part: object) -> bool:
    if isinstance(part, dict) and isinstance(cell, dict):
        return all(key in cell and _has(cell[key], value) for key, value in part.items())
    return cell == part


def _cells_for_linux(job: Mapping[str, Any]) -> list[_Cell]:
    runs_on = str(job.get("runs-on", ""))
    machines = set(re.findall(r"matrix\.(?:\w+\.)?([\w-]+)", runs_on))
    found = []
    for cell in _expanded(job["strategy"]["matrix"]) if "strategy" in job else [{}]:
        axes: dict[str, str] = {}
        machine = {"": "" if "${{" in runs_on else runs_on}
        for key, value in _flat(cell):
            axis = "os" if key in machines else _AXES.get(re.sub(r"[^a-z]", "", key.lower()), "")
            if axis == "os":
                machine[key] = f"{machine.get(key, '')} {value}"
            elif axis and (text := _value(axis, value)):
                axes.setdefault(axis, text)
        if not _OTHER_SYSTEM.search(" ".join(machine.values())):
            found += [_Cell(axes, platform) for platform in _platforms(list(machine.values()))]
    return found


def _platforms(machine: list[str]) -> tuple[str, ...]:
    """Return the platforms that one job builds for, from what its cell says of runner and architecture."""
    said = " ".join(machine)
    # An x64 runner may emulate aarch64; `x86_64 aarch64` are two.
    if any(_ARM.search(text) and _AMD.search(text) for text in machine):
        return "linux/amd64", "linux/arm64"
    if _ARM.search(said):
        return ("linux/arm64",)
    return () if _NEITHER.search(said) and not _AMD.search(said) else ("linux/amd64",)


def _expanded(matrix: Mapping[str, object]) -> list[dict[str, object]]:
    try:
        return expand(matrix)
    except RecursionError:
        # A table may contain itself.
        return []


def _flat(cell: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the plain values of a cell; an axis may be a table or a list of several."""
    tables = [value for value in cell.values() if isinstance(value, dict)]
    for key, value in [*cell.items(), *(item for table in tables for item in table.items())]:
        plain = value if isinstance(value, list) else [value]
        yield from ((str(key), item) for item in plain if isinstance(item, str | int | float))


def _value(axis: str, value: object) -> str:
    """Return a value as a recipe writes it: ``cp312`` → ``3.12``, ``cu128`` → ``12.8.0``; empty for another kind (``cpu``)."""
    # To GitHub, too, an unquoted 3.10 is the number 3.1.
    text = f"{value:g}" if isinstance(value, float) else str(value)
    match = _VALUES[axis].fullmatch(text.strip())
    if match is None:
        return ""
    minor = f"{match[1]}.{match[2]}"
    if axis == "python":
        return minor + match[3]
    if match[3]:
        return minor + match[3]
    if axis == "torch":
        return next((row.version for row in facts.torch_releases() if facts.minor(row.version) == minor), "")
    known = TABLES["cuda-releases"].get(match[1], "")
    return known if facts.minor(known) == minor else f"{minor}.0"


def _carry(cells: list[_Cell], every: list[_Cell], place: Place, result: Workflow) -> None:
    """Take the Pythons and platforms, and of torch and CUDA the newest that the package index has together.

    Args:
        cells: those of the largest matrix; ``every``: also those of other jobs, as platforms may have a job each.
    """
    # Where there are cells for CUDA, those for CPUs are other wheels.
    cells = [cell for cell in cells if "cuda" in cell.axes] or cells
    every = [cell for cell in every if "cuda" in cell.axes or not any("cuda" in other.axes for other in cells)]
    for axis in ("python", "torch", "cuda"):
        if values := tuple(dict.fromkeys(cell.axes[axis] for cell in cells if axis in cell.axes)):
            result.axes[axis] = values, place
    platforms = tuple(sorted({cell.platform for cell in every}))
    if platforms != ("linux/amd64",):
        result.platforms = platforms, place
    pairs = sorted({(cell.axes.get("torch", ""), cell.axes.get("cuda", "")) for cell in cells}, key=_newness)
    fitting = [pair for pair in pairs if _is_served(*pair)]
    for axis, chosen in zip(("torch", "cuda"), fitting[-1] if fitting else ("", ""), strict=True):
        values, _ = result.axes.pop(axis, ((), place))
        if chosen:
            result.axes[axis] = (chosen,), place
        if others := [value for value in values if value != chosen]:
            how = f"add them to matrix.{axis}"
            if any(torch for torch, _ in pairs):
                how += "; torch for another CUDA than that of the package index needs builder.framework-index"
            result.rest.append(Rest(f"{axis} {', '.join(others)} ({place})", how))


def _newness(pair: tuple[str, str]) -> list[tuple[int, ...]]:
    return [tuple(int(part) for part in re.findall(r"\d+", version)) for version in pair]


def _is_served(torch: str, cuda: str) -> bool:
    """Whether nvcc comes from the package index, and torch of that release is there for this CUDA."""
    row = facts.torch_release(torch) if torch else None
    is_index = not cuda or facts.minor(cuda) == facts.minor(TABLES["cuda-releases"]["13"])
    return is_index and (not torch or (row is not None and (not cuda or row.cuda == facts.minor(cuda))))
