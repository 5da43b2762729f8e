"""Matrices of GitHub workflows that build wheels: the Pythons, releases of torch and CUDA, and platforms of their cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
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
    **dict.fromkeys(("os", "runner", "runson", "platform", "tags", "arch", "image", "target"), "os"),
}
_VALUES = {
    "python": re.compile(r"(?:cp|py|python-?)?(3)\.?(\d{1,2})(?:\.\d+)?(t?)"),
    "torch": re.compile(r"(\d{1,2})\.(\d{1,2})(\.\d{1,2})?"),
    "cuda": re.compile(r"(?:cu|cuda-?)?(\d\d)\.?(\d)(\.\d{1,2})?", re.I),
}
# Not in `unwind`, `machine` or `farm`.
_OTHER_SYSTEM = re.compile(
    r"windows|darwin|macos|osx|emscripten|pyodide|wasm|android|(?<![a-z])ios(?![a-z])|(?<![a-z])(?:mac|win)(?:x?\d|(?![a-z]))",
    re.I,
)
_ARM = re.compile(r"arm64|aarch64|(?<![a-z])arm(?![a-z]|/v|-unknown)", re.I)
_AMD = re.compile(r"x86[-_]64|amd64|(?<![a-z])x64", re.I)
_NEITHER = re.compile(r"ppc64|s390x|riscv|loongarch|i[36]86|armv\d|arm/v|arm-unknown|(?<![a-z\d])x86(?![-_]?64)", re.I)
_FILLED = re.compile(r"\$\{\{\s*matrix\.([\w.-]{1,100})\s*(?:\|\|\s*'([^']{0,100})'\s*)?\}\}")
_RUNS_CIBUILDWHEEL = re.compile(r"(?m)^(?![^\n#]{0,500}\bpip3? install)[^\n#]{0,500}\bcibuildwheel\b")
_READ = ("CIBW_ARCHS", "CIBW_ARCHS_LINUX", "CIBW_BUILD", "CIBW_SKIP", "CIBW_PLATFORM")
"""Variables of cibuildwheel that are read."""

_MOST_SELECTIONS = 100
_MOST_STEPS = 20
_MOST_VARIABLES = 40
_NOT_READ = "init reads CIBW_ARCHS, CIBW_BUILD and CIBW_SKIP of workflows; write what a build for Linux needs of these"


@dataclass
class Workflow:
    """What is carried over from a matrix.

    Attributes:
        axes: ``python``, ``cuda`` or ``torch`` → values and place.
        platforms: those of all jobs that build wheels, if there are others than linux/amd64, or a variable of cibuildwheel
            states them.
        selections: ``CIBW_BUILD`` and ``CIBW_SKIP`` of each job that runs cibuildwheel; None for one that is not set.
        selected_at: where the first of them stands.
        states_archs: each of these jobs has ``CIBW_ARCHS``, so that pyproject.toml's do not count.
        is_by_cibuildwheel: the axes are those of such a job; None if there is none.
        left: workflow → the variables of cibuildwheel in it that are not carried over, and where the first stands.
        rest: what is not carried over, with the reason.
    """

    axes: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    platforms: tuple[tuple[str, ...], Place] | None = None
    selections: dict[tuple[str | None, str | None], None] = field(default_factory=dict)
    selected_at: Place = field(default_factory=lambda: Place(""))
    states_archs: bool = False
    is_by_cibuildwheel: bool | None = None
    left: dict[str, tuple[Place, tuple[str, ...]]] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)


@dataclass(frozen=True)
class _Cell:
    """A job for Linux: its axes, as a recipe writes them, its platform, and the variables of steps that run cibuildwheel."""

    axes: Mapping[str, str]
    platform: str
    steps: tuple[Mapping[str, str], ...] = ()


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
        if ("matrix:" not in text and "CIBW_" not in text) or not (_BUILDS.search(text) or "uses: ./" in text):
            continue
        try:
            if len(text) > LARGEST:
                raise _Unread(f"larger than {LARGEST >> 10} KiB, so it was not read")
            if len(text) > left:
                raise _Unread(f"with those before it larger than {_MOST >> 10} KiB, so it was not read")
            left -= len(text)
            for job, line, lines in _jobs(text):
                said = _with_called(tree, job, lines)
                cells = _cells_for_linux(job)
                if not _KEEPS.search(said):
                    # A test of cibuildwheel's settings.
                    cells = [replace(cell, steps=()) for cell in cells]
                _note_variables(result, cells, name, text, lines)
                # A job such as that of the documentation builds one wheel for itself.
                if "strategy" in job and _BUILDS.search(said) and (cells[1:] or _KEEPS.search(said)):
                    found.append((cells, Place(name, line)))
                # Other jobs test and publish what these build, or call a workflow that is read itself.
                building += cells if "runs-on" in job and re.search(_COMMANDS, lines) else []
        except _Unread as error:
            result.rest.append(Rest(name, str(error)))
    if len(names) > MOST_FILES:
        result.rest.append(Rest(f"{len(names) - MOST_FILES} workflows more", f"only the first {MOST_FILES} are read"))
    result.rest += [Rest(f"{', '.join(keys)[:300]} ({at})", _NOT_READ) for at, keys in result.left.values() if keys]
    cells, place = max(found, key=lambda item: len(item[0]), default=([], Place("")))
    if refused and cells:
        result.rest.append(Rest(f"the matrix in {place}", refused))
    else:
        _take(cells, building, place, result)
    return result if cells or result.rest or result.platforms or result.selections else None


def _take(cells: list[_Cell], building: list[_Cell], place: Place, result: Workflow) -> None:
    every = [*cells, *building]
    if by_cibuildwheel := [cell for cell in every if cell.steps]:
        result.is_by_cibuildwheel = any(cell.steps for cell in cells)
        result.states_archs = all(_archs(step) for cell in by_cibuildwheel for step in cell.steps)
        every = by_cibuildwheel if result.states_archs else every
    if cells or result.states_archs:
        _carry(cells, every, place, result)


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
    general = document.get("env") if isinstance(document, dict) else None
    if not isinstance(jobs, CommentedMap):
        return
    lines = text.splitlines()
    starts = [*sorted(jobs.lc.key(name)[0] for name in jobs), len(lines)]
    for name, job in jobs.items():
        start = jobs.lc.key(name)[0]
        text_of_job = "\n".join(lines[start : next(line for line in starts if line > start)])
        strategy = job.get("strategy") if isinstance(job, dict) else None
        if isinstance(job, dict):
            job["env"] = {**_variables(general), **_variables(job.get("env"))}
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
        steps = _steps(job, cell)
        if _OTHER_SYSTEM.search(" ".join(machine.values())) or (steps and not any(map(_is_for_linux, steps))):
            continue
        steps = tuple(filter(_is_for_linux, steps))
        platforms = _platforms(list(machine.values()))
        if archs := [word for step in steps for word in re.split(r"[\s,]+", _archs(step)) if word]:
            known = TABLES["cibuildwheel-archs"]
            own = platforms if any(word in ("auto", "auto64", "native") for word in archs) else ()
            platforms = (*own, *(known[word] for word in known if word in archs or archs == ["all"]))
        found += [_Cell(axes, platform, steps) for platform in dict.fromkeys(platforms)]
    return found


def _variables(value: object) -> dict[str, str]:
    """Return the variables of cibuildwheel in an ``env``."""
    pairs = value.items() if isinstance(value, dict) else ()
    found = ((str(key), str(text)) for key, text in pairs if str(key).startswith("CIBW_"))
    return dict(islice(found, _MOST_VARIABLES))


def _steps(job: Mapping[str, Any], cell: Mapping[str, object]) -> tuple[Mapping[str, str], ...]:
    """Return the variables of each step that runs cibuildwheel on Linux, filled with the values of a cell."""
    steps = job.get("steps")
    found: list[Mapping[str, str]] = []
    running = (step for step in steps if isinstance(step, dict)) if isinstance(steps, list) else ()
    for step in islice(running, _MOST_STEPS):
        if not _RUNS_CIBUILDWHEEL.search(f"{step.get('uses', '')}\n{step.get('run', '')}"):
            continue
        condition = str(step.get("if", ""))
        if _OTHER_SYSTEM.search(condition) and "!" not in condition:
            continue
        own = {**job["env"], **_variables(step.get("env"))}
        found.append(
            {
                key: _FILLED.sub(lambda match: _filled(cell, match[1]) or match[2] or "", text)
                for key, text in own.items()
            }
        )
    return tuple(found)


def _filled(cell: Mapping[str, object], path: str) -> str:
    """Return the value that ``matrix.`` and a path stand for in a cell; empty if there is none."""
    value: object = cell
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return str(value) if isinstance(value, str | int | float) else ""


def _is_for_linux(step: Mapping[str, str]) -> bool:
    return not _OTHER_SYSTEM.search(step.get("CIBW_PLATFORM", ""))


def _archs(step: Mapping[str, str]) -> str:
    """Return the architectures that a step states; empty if it states none, or something else computes them."""
    text = step.get("CIBW_ARCHS_LINUX") or step.get("CIBW_ARCHS", "")
    return "" if "${{" in text else text


def _note_variables(result: Workflow, cells: list[_Cell], name: str, text: str, lines: str) -> None:
    """Note what variables of cibuildwheel select in a job, and list those that are not carried over."""
    steps = [step for cell in cells for step in cell.steps]
    for step in steps:
        build, skip = (
            None if value is None or "${{" in value else value for value in map(step.get, ("CIBW_BUILD", "CIBW_SKIP"))
        )
        if len(result.selections) < _MOST_SELECTIONS:
            result.selections[build, skip] = None
    used = list(dict.fromkeys(key for step in steps for key in step))
    if not used:
        return
    # Those of the whole workflow stand before its jobs.
    before = text.partition(lines)[0].count("\n")
    numbers = [number for number, line in enumerate(text.splitlines()) if re.search(r"\bCIBW_\w+['\"]?:", line)]
    place = Place(name, 1 + next((number for number in numbers if number >= before), numbers[0] if numbers else -1))
    result.selected_at = result.selected_at if result.selected_at.file else place
    left = [key for key in used if key not in _READ or any("${{" in step.get(key, "") for step in steps)]
    left = [key for key in left if re.fullmatch(r"\w{1,60}", key) and not _OTHER_SYSTEM.search(key.rpartition("_")[2])]
    at, known = result.left.get(name, (place, ()))
    result.left[name] = at, tuple(dict.fromkeys((*known, *left)))


def _platforms(machine: list[str]) -> tuple[str, ...]:
    """Return the platforms that one job builds for, from what its cell says of runner and architecture."""
    said = " ".join(machine)
    if any(_NEITHER.search(text) and not _ARM.search(text) and not _AMD.search(text) for text in machine):
        return ()
    # An x64 runner may emulate aarch64; `x86_64 aarch64` are two.
    if any(_ARM.search(text) and _AMD.search(text) for text in machine):
        return "linux/amd64", "linux/arm64"
    if _ARM.search(said):
        return ("linux/arm64",)
    return ("linux/amd64",)


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
    if platforms and (platforms != ("linux/amd64",) or result.states_archs):
        result.platforms = platforms, result.selected_at if result.states_archs else place
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
