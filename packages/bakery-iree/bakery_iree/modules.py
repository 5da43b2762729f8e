"""Compiled modules on disk (``NAME.TARGET.vmfb``), their records, and the checks and benchmarks of jobs for them."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from bakery.core.errors import AuditError, UsageError
from bakery.core.files import write
from bakery_iree.errors import ModuleError
from bakery_iree.job.load import OUTPUT, LoadedJob
from bakery_iree.job.resolve import all_targets
from bakery_iree.mlir import Function
from bakery_iree.models.job import Benchmark, Check, Input, name_of
from bakery_iree.models.module import LARGEST_RECORD, ModuleRecord, TargetRecord
from bakery_iree.vmfb import Code, Vmfb, metal_kernels, read_vmfb
from wheel_audit.plain_files import file_sha256, read_plain

SUFFIX = ".vmfb"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled module: its ``.vmfb`` file and the content of that, and the record next to it, if there is one.

    Without a record, the target is that of the content.
    """

    path: Path
    record: ModuleRecord | None
    content: Vmfb
    target: TargetRecord

    @property
    def name(self) -> str:
        """The name without the target."""
        return self.record.name if self.record else self.title

    @property
    def title(self) -> str:
        """The name in tables and logs, and for ``--only``."""
        return self.path.stem

    @property
    def functions(self) -> tuple[Function, ...]:
        """The exported functions."""
        return self.content.functions


def find_modules(paths: Sequence[Path], only: Sequence[str] = ()) -> list[Compiled]:
    """Open modules: files, and all files in folders.

    Raises UsageError if there is none, or ``only`` matches none; ModuleError with all modules that cannot be read, or
    whose record cannot.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob(f"*{SUFFIX}"))
        elif path.suffix == SUFFIX and path.is_file():
            files.append(path)
        else:
            raise UsageError(
                f"no such module or folder: {path}", hint=f"name a {SUFFIX} file, or the output folder of `compile`"
            )
    if not files:
        raise UsageError(
            f"no module in {', '.join(map(str, paths))}", hint=f"expected *{SUFFIX} files, as `compile` writes"
        )
    selected = [file for file in files if any(fnmatch.fnmatchcase(file.stem, glob) for glob in only or ("*",))]
    if not selected:
        titles = ", ".join(file.stem for file in files[:8])
        raise UsageError(f"no module matches {' '.join(only)}", hint=f"modules: {titles}")
    opened, problems = [], []
    for file in dict.fromkeys(selected):
        try:
            opened.append(open_module(file))
        except (ModuleError, AuditError) as error:
            problems.append(error.message)
    if problems:
        raise ModuleError(
            f"{len(problems)} of {len(selected)} modules cannot be read", hint="compile them again", details=problems
        )
    return opened


def open_module(path: Path) -> Compiled:
    """Open one module and its record. Raises AuditError if the module cannot be read.

    Raises ModuleError if the record cannot be read, or the module has code for several kinds of device, or none.
    """
    content = read_vmfb(path)
    record = read_record(path.with_suffix(".json"))
    return Compiled(path, record, content, record.target if record else _target(path, content))


def read_record(path: Path) -> ModuleRecord | None:
    """Read the record of a module; None if there is none. Raises ModuleError if it cannot be read, or is malformed."""
    try:
        return ModuleRecord.model_validate_json(read_plain(path, LARGEST_RECORD))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModuleError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ModuleError(f"{path} is not the record of a module: {key + ': ' if key else ''}{first['msg']}") from error


def write_record(module: Compiled, **changes: object) -> None:
    """Change fields of a module's record; do nothing without one. Raises OutputError if it cannot be written."""
    if module.record is None:
        return
    # Read it again: another command may have changed it.
    path = module.path.with_suffix(".json")
    record = (read_record(path) or module.record).model_copy(update=changes)
    write(path.parent, {path.name: record_text(record)})


def record_text(record: ModuleRecord) -> str:
    """Return the text of a record's file."""
    return json.dumps(record.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


def inspect(module: Compiled) -> tuple[list[str], list[str]]:
    """Inspect a module without running it; return what is right, and what is wrong."""
    right, wrong = [], []
    record, target = module.record, module.target
    if record is not None:
        if file_sha256(module.path) == record.output.sha256:
            right.append("the sha256 is that of the record")
        else:
            wrong.append("the sha256 differs from that of the record")
    others = [kind for kind in module.content.kinds if kind != target.backend]
    if others:
        wrong.append(f"it has code for {' and '.join(others)}, but its target is {target.name}")
    for code in module.content.codes:
        if code.kind == target.backend:
            problem = _problem(code, target)
            (wrong if problem else right).append(f"{code.name}: {problem or _described(code)}")
    return right, wrong


def _problem(code: Code, target: TargetRecord) -> str:
    """Return what is wrong with the code for a device; empty if nothing is."""
    if not code.texts:
        kinds = {"cuda": "PTX", "vulkan": "SPIR-V", "metal": "Metal source"}
        return f"contains no {kinds.get(code.kind, 'code')}"
    expected = target.machine if code.kind == "cpu" else target.architecture
    is_exact = code.kind == "cpu" or (code.kind in ("cuda", "rocm") and expected.startswith(("sm_", "gfx")))
    if is_exact and expected and code.architecture != expected:
        return f"is for {code.architecture or 'an unknown machine'}, not for {expected}"
    if code.kind == "metal" and not all(metal_kernels(text) for text in code.texts):
        return "its Metal source has no kernel"
    return ""


def _described(code: Code) -> str:
    if code.kind == "metal":
        kernels = [name for text in code.texts for name in metal_kernels(text)]
        return f"Metal source with {', '.join(kernels)}; not compiled, because that needs macOS"
    return {
        "cpu": f"ELF for {code.architecture}",
        "cuda": f"PTX for {code.architecture}",
        "rocm": f"ELF for AMD's {code.architecture}",
        "vulkan": f"SPIR-V, {len(code.texts)} {'module' if len(code.texts) == 1 else 'modules'}: header, instructions, entry points",
    }[code.kind]


def _target(path: Path, content: Vmfb) -> TargetRecord:
    """Return the target of a module without a record; raise ModuleError if it has code for several."""
    kinds = content.kinds or ("cpu",)
    architectures = sorted({code.architecture for code in content.codes})
    if len(kinds) > 1 or len(architectures) > 1:
        raise ModuleError(
            f"{path} has code for several devices: {', '.join((*kinds, *architectures))}",
            hint="put the record that `compile` wrote next to it",
        )
    kind, architecture = kinds[0], architectures[0] if architectures else ""
    name = f"{kind}:{architecture}" if architecture else kind
    key = "machine" if kind == "cpu" else "architecture"
    device = next(item.device for item in all_targets().values() if item.backend == kind)
    fields = {"name": name, "backend": kind, "architecture": "", "device": device}
    return TargetRecord.model_validate(fields | {key: architecture})


@dataclass(frozen=True, slots=True)
class Request:
    """A module with its checks and its benchmark, and the folder that their paths are relative to."""

    module: Compiled
    checks: tuple[Check, ...]
    benchmark: Benchmark | None
    folder: Path


def requests_of_job(loaded: LoadedJob, output: Path | None, only: Sequence[str]) -> list[Request]:
    """Return a request for each compiled module of a job, in ``output`` or in the folder of the job.

    Raises ModuleError if a module is not compiled for one of its targets, or not from what the job names; UsageError if
    ``only`` matches no module of the job.
    """
    hint = f"run `wheel-bakery compile {shlex.quote(str(loaded.file))}` first"
    results = output or loaded.folder / (loaded.job.output or OUTPUT)
    if not results.is_dir():
        raise ModuleError(f"{results} does not exist", hint=hint)
    modules, entries = find_modules([results], only), _entries(loaded)
    found = {(module.name, name) for module in modules for name in ("", module.target.name)}
    missing = [f"{name}.{target.replace(':', '-')}".rstrip(".") for name, target in entries.keys() - found]
    missing = sorted(item for item in missing if not only or any(fnmatch.fnmatchcase(item, glob) for glob in only))
    if missing:
        raise ModuleError(f"not compiled: {', '.join(missing)}", hint=f"{hint}, or select other modules with --only")
    # The folder may have modules of other jobs, and for targets that the job no longer has.
    modules = [item for item in modules if entries.keys() & {(item.name, ""), (item.name, item.target.name)}]
    if not modules:
        raise UsageError(f"no module of the job matches {' '.join(only)}", hint="`compile --plan` lists its modules")
    if stale := list(_stale(loaded, _matched(loaded, modules))):
        raise ModuleError("modules are not those of the job", hint="compile the job again", details=stale)
    return requests_of(loaded, modules)


def requests_of(loaded: LoadedJob, modules: Sequence[Compiled]) -> list[Request]:
    """Return a request for each of ``modules`` that belongs to the job."""
    return [
        Request(module, item.checks or (), item.benchmark, loaded.folder) for module, item in _matched(loaded, modules)
    ]


def _matched(loaded: LoadedJob, modules: Sequence[Compiled]) -> list[tuple[Compiled, Input]]:
    """Return the modules of a job, each with its entry."""
    # ``compile --target`` replaces the targets of the job, and not those of an entry.
    entries = {(name_of(item), ""): item for item in loaded.job.modules if not item.targets} | _entries(loaded)
    pairs = ((item, entries.get((item.name, item.target.name)) or entries.get((item.name, ""))) for item in modules)
    return [(module, entry) for module, entry in pairs if entry]


def _entries(loaded: LoadedJob) -> dict[tuple[str, str], Input]:
    """Return name and target → the entry of a job; an empty target if the job names none."""
    common = loaded.job.targets or ("",)
    return {(name_of(item), target): item for item in loaded.job.modules for target in item.targets or common}


def _stale(loaded: LoadedJob, matched: Sequence[tuple[Compiled, Input]]) -> Iterator[str]:
    """Yield how modules differ from what the job would compile now. An input that is not there is not compared."""
    digest = cache(file_sha256)
    for module, entry in matched:
        record, source = module.record, loaded.folder / entry.input
        if record is None:
            continue
        try:
            if digest(source) != record.input.sha256:
                yield f"{module.title}: compiled from another {entry.input}"
        except FileNotFoundError:
            pass
        except OSError as error:
            yield f"{module.title}: {entry.input} cannot be read: {error.strerror or error}"
        target = all_targets().get(record.target.name)
        if target and record.flags != (*target.flags, *(entry.flags or ())):
            yield f"{module.title}: compiled with other flags"
        if loaded.job.compiler not in (None, record.compiler):
            yield f"{module.title}: compiled by release {record.compiler}, and the job names {loaded.job.compiler}"
