"""A job → its plan: inputs read, targets known, names that differ; every problem at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import ModuleError
from bakery.core.names import is_device
from bakery.iree.job.load import OUTPUT, LoadedJob
from bakery.iree.job.targets import UnknownTarget, target
from bakery.iree.mlir.read import read_module
from bakery.iree.mlir.signature import Function, Type
from bakery.iree.models.job import NAME, Input, Job, name_of
from bakery.iree.plan import JobPlan, ModuleCell, ModuleTarget, Signature, Source
from bakery.recipe.problems import Problem, nearest
from bakery.recipe.type_names import Step
from bakery.toolchains import facts

MOST_CELLS = 100_000
"""Modules times targets that a job may have."""

_NAMES_FILES = re.compile(r"--(?:o|output\S*|load\S*|[a-z0-9-]*(?:-dir|-path|-file|-files|-to|dump[a-z0-9-]*))(?:=|\Z)")
_OF_TARGETS = re.compile(
    r"--iree-(?:hal-target-|hal-local-target-|llvmcpu-target-|cuda-target\b|vulkan-target\b|rocm-target\b)"
)


def resolve(
    loaded: LoadedJob,
    targets: Sequence[str] = (),
    output: Path | None = None,
    *,
    compiler: str | None = None,
    root: Path | None = None,
) -> JobPlan:
    """Return the plan of a job.

    An input that cannot be compiled ends its own cells (`Source.problem`), and not those of the others.

    Args:
        targets: those of the command line; they take the place of the job's own list.
        output: the folder for results; None for the job's.
        compiler: the release of the compiler; None for the job's.
        root: the project; None for the job's folder.

    Raises:
        ModuleError: the job itself is wrong, or no input can be compiled; ``details`` holds every problem.
    """
    return _Resolver(loaded, tuple(targets)).plan(output, compiler, root)


@dataclass(frozen=True, slots=True)
class _Named:
    path: tuple[Step, ...]
    target: ModuleTarget


class _Resolver:
    def __init__(self, loaded: LoadedJob, targets: tuple[str, ...]) -> None:
        self._loaded = loaded
        self._given = targets
        self._problems: list[Problem] = []
        self._broken: list[Problem] = []
        self._sources: dict[Path, Source] = {}

    def plan(self, output: Path | None, compiler: str | None, root: Path | None) -> JobPlan:
        job = self._loaded.job
        release = facts.iree_releases()[0]
        self._check_size(job)
        common = self._targets(self._given or job.targets or (), () if self._given else ("targets",))
        cells = [
            cell for number, item in enumerate(job.modules) for cell in self._cells(("modules", number), item, common)
        ]
        self._problems += _same_names(cells)
        if self._problems or all(source.problem for source in self._sources.values()):
            raise self._loaded.error([*self._problems, *self._broken])
        folder = output or self._loaded.folder / (job.output or OUTPUT)
        return JobPlan(
            compiler=compiler or job.compiler or release.version,
            runtime=compiler or job.compiler or release.runtime,
            output=folder,
            root=root or self._loaded.folder,
            cells=tuple(cell for _, cell in cells),
        )

    def _check_size(self, job: Job) -> None:
        """Raise ModuleError if the job would have too many results."""
        common = len(self._given or job.targets or ())
        number = sum(common if self._given else len(item.targets or ()) or common for item in job.modules)
        if number > MOST_CELLS:
            problem = Problem(("modules",), f"{number:,} results, and the limit is {MOST_CELLS:,}", "split the job")
            raise self._loaded.error([problem])

    def _targets(self, names: Sequence[str], path: tuple[Step, ...]) -> list[ModuleTarget]:
        found = []
        for number, name in enumerate(names):
            place = (*path, number) if path else ("--target",)
            try:
                found.append(target(name))
            except UnknownTarget as error:
                self._problems.append(Problem(place, str(error), error.fix))
        return list({item.name: item for item in found}.values())

    def _cells(
        self, path: tuple[Step, ...], item: Input, common: list[ModuleTarget]
    ) -> Iterator[tuple[tuple[Step, ...], ModuleCell]]:
        mine = self._targets(item.targets, (*path, "targets")) if item.targets else common
        if not (item.targets or self._given or self._loaded.job.targets):
            self._problems.append(
                Problem(path, "nothing says what it is compiled for", "name a target, such as cpu:x86-64-v3")
            )
        for number, flag in enumerate(item.flags or ()):
            self._check_flag(flag, (*path, "flags", number))
        source = self._source(item.input, (*path, "input"))
        name = name_of(item)
        if not NAME.match(name) or is_device(name):
            fix = 'name it: "name": "…"' if self._loaded.file else "rename the file, or write a job file with names"
            self._problems.append(Problem((*path, "input"), f"no name for results can be made of {item.input!a}", fix))
        else:
            if not source.problem:
                self._check_functions(path, item, source)
            for found in mine:
                flags = (*found.flags, *(item.flags or ()))
                yield path, ModuleCell(name, source, found, flags, is_measured=item.benchmark is not None)

    def _check_flag(self, flag: str, path: tuple[Step, ...]) -> None:
        if _NAMES_FILES.match(flag):
            self._problems.append(
                Problem(path, f"{flag.partition('=')[0]} names files, and there are none", "remove it")
            )
        elif _OF_TARGETS.match(flag):
            what = f"{flag.partition('=')[0]} says what to compile for, which targets do"
            self._problems.append(Problem(path, what, "remove it, and name a target"))

    def _check_functions(self, path: tuple[Step, ...], item: Input, source: Source) -> None:
        """Check that checks and benchmark call functions that exist, with as many inputs as these take."""
        calls = [((*path, "checks", number), check) for number, check in enumerate(item.checks or ())]
        called = [(place, check.function, check.inputs) for place, check in calls]
        if item.benchmark:
            called.append(((*path, "benchmark"), item.benchmark.function, item.benchmark.inputs))
        known = {function.name: function for function in source.functions}
        for place, name, inputs in called if known else ():
            if name is None and len(known) > 1:
                what = f"the module exports {', '.join(f'@{other}' for other in known)}; which is called?"
                self._problems.append(Problem(place, what, 'add "function": "…"'))
                continue
            function = known.get(name) if name else next(iter(known.values()))
            if function is None:
                close = nearest(name or "", known)
                what = f"the module exports no function @{name}" + (f"; did you mean {close!r}?" if close else "")
                fix = f"it exports {', '.join(f'@{other}' for other in known)}"
                self._problems.append(Problem((*place, "function"), what, fix))
            elif len(inputs) != len(function.arguments) and not any(text.endswith(".npz") for text in inputs):
                takes = ", ".join(text for text, _, _ in function.arguments) or "nothing"
                what = f"@{function.name} takes {len(function.arguments)} inputs ({takes}), found {len(inputs)}"
                self._problems.append(Problem((*place, "inputs"), what, "give one for each"))

    def _source(self, text: str, path: tuple[Step, ...]) -> Source:
        file = self._loaded.folder / text
        if file not in self._sources:
            try:
                module = read_module(file)
                data = file.read_bytes()
            except (ModuleError, OSError, ValueError) as error:
                message = error.message if isinstance(error, ModuleError) else f"{file} cannot be read: {error}"
                hint = error.hint if isinstance(error, ModuleError) else ""
                problem = Problem(path, message.replace(str(file), text), hint or "check the path")
                self._broken.append(problem)
                self._sources[file] = Source(file, text, "", 0, (), f"{problem.what} ({problem.fix})")
            else:
                functions = tuple(_signature(function) for function in module.functions)
                digest = hashlib.sha256(data).hexdigest()
                self._sources[file] = Source(file, text, digest, len(data), functions)
        return self._sources[file]


def _same_names(cells: Sequence[tuple[tuple[Step, ...], ModuleCell]]) -> Iterator[Problem]:
    """Yield cells whose results would have one name; on some systems A and a are one."""
    first: dict[str, tuple[tuple[Step, ...], ModuleCell]] = {}
    for path, cell in cells:
        other = first.setdefault(cell.slug, (path, cell))
        if other[1] is not cell:
            what = f"its result would be called {cell.id}, as that of {other[1].source.shown}"
            yield Problem(path, what, 'give it a name of its own: "name": "…"')


def _signature(function: Function) -> Signature:
    return Signature(function.name, tuple(map(_typed, function.arguments)), tuple(map(_typed, function.results)))


def _typed(item: Type) -> tuple[str, tuple[int | None, ...] | None, str]:
    return item.text, item.shape, item.dtype
