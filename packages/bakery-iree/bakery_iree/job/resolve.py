"""Resolves a job to its plan: reads inputs, looks up targets, checks names; reports every problem at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from bakery.core.names import is_device
from bakery.recipe.problems import Problem, nearest, one_of, shorten
from bakery.recipe.type_names import Step
from bakery_iree import facts
from bakery_iree.errors import ModuleError
from bakery_iree.job.load import OUTPUT, LoadedJob
from bakery_iree.mlir import LARGEST_INPUT, read_module
from bakery_iree.models.job import NAME, Benchmark, Check, Input, Job, name_of
from bakery_iree.plan import JobPlan, ModuleCell, ModuleTarget, Source
from wheel_audit.plain_files import read_plain


class UnknownTarget(Exception):
    """A name is not a target; ``fix`` says what to write."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


@cache
def all_targets() -> dict[str, ModuleTarget]:
    """Return name → target, in the order of the facts."""
    targets = {}
    for row in facts.iree_targets():
        for architecture in row.names or ("",):
            name = ":".join(part for part in (row.backend, architecture and row.prefix + architecture) if part)
            targets[name] = ModuleTarget(
                name=name,
                backend=row.backend,
                architecture=row.architecture or architecture.partition(":")[0],
                machine=row.machine,
                device=row.device,
                flags=tuple(flag.replace("{}", architecture) for flag in row.flags),
                is_local=row.is_local,
            )
    return targets


def target(text: str) -> ModuleTarget:
    """Return the target of a name. Raises UnknownTarget if the compiler would refuse it, or crash."""
    names = all_targets()
    if text in names:
        return names[text]
    shown = shorten(text)
    for row in facts.iree_refused():
        if text in row.names or f"cuda:{text}" in row.names:
            raise UnknownTarget(f"target '{shown}': {row.why}", f"write one of: {one_of(row.instead)}")
    backends = dict.fromkeys(name.partition(":")[0] for name in names)
    backend, _, architecture = text.partition(":")
    if "," in text:
        raise UnknownTarget(f"target '{shown}' is a list; write each target separately", _several(text))
    if backend in backends and not architecture:
        some = next(name for name in names if name.startswith(f"{backend}:"))
        raise UnknownTarget(f"target '{shown}' names no {_DEVICES[backend]}", f"write one such as {some}")
    if backend not in backends:
        guess = nearest(text, [*names, *(name.partition(":")[2] for name in names)])
        match = guess if guess in names else next((name for name in names if guess and name.endswith(f":{guess}")), "")
        fix = f"write {match}" if match else f"expected one of {', '.join(backends)}, such as {next(iter(names))}"
        raise UnknownTarget(f"unknown target '{shown}'" + (f"; did you mean {match!r}?" if match else ""), fix)
    others = [name for name in names if name.startswith(f"{backend}:")]
    close = nearest(text, others, 0.5)
    what = f"unknown target '{shown}'" + (f"; did you mean {close!r}?" if close else "")
    raise UnknownTarget(what, f"write {close}; targets: {one_of(others)}" if close else f"targets: {one_of(others)}")


_DEVICES = {"cpu": "CPU", "cuda": "architecture", "rocm": "architecture"}


def _several(text: str) -> str:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    backend = parts[0].partition(":")[0] if parts else ""
    full = [part if ":" in part else f"{backend}:{part}" for part in parts]
    return " ".join(f"--target {shorten(part)}" for part in full[:8])


MOST_CELLS = 100_000
"""Maximum number of cells (modules × targets) of a job."""

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

    An input that cannot be compiled fails only its own cells (`Source.problem`). ``targets``, ``output`` and
    ``compiler`` replace those of the job, if given; ``root`` is the project, None for the job's folder. Raises
    ModuleError with every problem if the job is malformed, or no input can be compiled.
    """
    return _Resolver(loaded, tuple(targets)).plan(output, compiler, root)


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
        """Raise ModuleError if the job has too many cells."""
        common = len(self._given or job.targets or ())
        number = sum(common if self._given else len(item.targets or ()) or common for item in job.modules)
        if number > MOST_CELLS:
            problem = Problem(("modules",), f"{number:,} results, and the limit is {MOST_CELLS:,}", "split the job")
            raise self._loaded.error([problem])

    def _targets(self, names: Sequence[str], path: tuple[Step, ...]) -> list[ModuleTarget]:
        targets = {}
        for number, name in enumerate(names):
            try:
                item = target(name)
                targets[item.name] = item
            except UnknownTarget as error:
                item_path = (*path, number) if path else ("--target",)
                self._problems.append(Problem(item_path, str(error), error.fix))
        return list(targets.values())

    def _cells(
        self, path: tuple[Step, ...], item: Input, common: list[ModuleTarget]
    ) -> Iterator[tuple[tuple[Step, ...], ModuleCell]]:
        targets = self._targets(item.targets, (*path, "targets")) if item.targets else common
        if not (item.targets or self._given or self._loaded.job.targets):
            self._problems.append(Problem(path, "it has no target", "name a target, such as cpu:x86-64-v3"))
        for number, flag in enumerate(item.flags or ()):
            self._check_flag(flag, (*path, "flags", number))
        source = self._source(item.input, (*path, "input"))
        name = name_of(item)
        if not NAME.match(name) or is_device(name):
            fix = 'name it: "name": "…"' if self._loaded.file else "rename the file, or write a job file with names"
            self._problems.append(
                Problem((*path, "input"), f"the file name {item.input!a} cannot be the name of the results", fix)
            )
        else:
            if not source.problem:
                self._check_functions(path, item, source)
            for compile_target in targets:
                flags = (*compile_target.flags, *(item.flags or ()))
                yield path, ModuleCell(name, source, compile_target, flags, is_measured=item.benchmark is not None)

    def _check_flag(self, flag: str, path: tuple[Step, ...]) -> None:
        if _NAMES_FILES.match(flag):
            self._problems.append(
                Problem(path, f"{flag.partition('=')[0]} names files, which the container does not have", "remove it")
            )
        elif _OF_TARGETS.match(flag):
            what = f"{flag.partition('=')[0]} sets the target"
            self._problems.append(Problem(path, what, "remove it and name a target"))

    def _check_functions(self, path: tuple[Step, ...], item: Input, source: Source) -> None:
        """Check that checks and benchmark call functions that exist, with as many inputs as these take."""
        calls: list[tuple[tuple[Step, ...], Check | Benchmark]] = [
            ((*path, "checks", number), check) for number, check in enumerate(item.checks or ())
        ]
        if item.benchmark:
            calls.append(((*path, "benchmark"), item.benchmark))
        functions = {function.name: function for function in source.functions}
        exports = ", ".join(f"@{name}" for name in functions)
        for call_path, call in calls if functions else ():
            name, inputs = call.function, call.inputs
            if name is None and len(functions) > 1:
                what = f"the module exports several functions: {exports}"
                self._problems.append(Problem(call_path, what, 'add "function": "…"'))
                continue
            function = functions.get(name) if name else next(iter(functions.values()))
            if function is None:
                close = nearest(name or "", functions)
                what = f"the module exports no function @{name}" + (f"; did you mean {close!r}?" if close else "")
                self._problems.append(Problem((*call_path, "function"), what, f"it exports {exports}"))
            elif len(inputs) != len(function.arguments) and not any(text.endswith(".npz") for text in inputs):
                takes = ", ".join(map(str, function.arguments)) or "nothing"
                what = f"@{function.name} takes {len(function.arguments)} inputs ({takes}), found {len(inputs)}"
                self._problems.append(Problem((*call_path, "inputs"), what, "give one value for each"))

    def _source(self, text: str, path: tuple[Step, ...]) -> Source:
        file = self._loaded.folder / text
        if file not in self._sources:
            try:
                functions = read_module(file)
                data = read_plain(file, LARGEST_INPUT, follow=True)
            except (ModuleError, OSError, ValueError) as error:
                if not isinstance(error, ModuleError):
                    error = ModuleError(f"{file} cannot be read: {error}")
                problem = Problem(path, error.message.replace(str(file), text), error.hint or "check the path")
                self._broken.append(problem)
                self._sources[file] = Source(file, text, "", 0, (), f"{problem.what} ({problem.fix})")
            else:
                digest = hashlib.sha256(data).hexdigest()
                self._sources[file] = Source(file, text, digest, len(data), functions)
        return self._sources[file]


def _same_names(cells: Sequence[tuple[tuple[Step, ...], ModuleCell]]) -> Iterator[Problem]:
    """Yield cells whose results would have the same name. Some file systems ignore case."""
    first: dict[str, tuple[tuple[Step, ...], ModuleCell]] = {}
    for path, cell in cells:
        other = first.setdefault(cell.slug, (path, cell))
        if other[1] is not cell:
            what = f"its result would have the name of another one, {cell.id} (of {other[1].source.shown})"
            yield Problem(path, what, 'give it another name: "name": "…"')
