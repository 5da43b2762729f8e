"""Compiled modules on disk: ``NAME.TARGET.vmfb``, its record beside it, and what both together say."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bakery.core.errors import AuditError, ModuleError, UsageError
from bakery.core.files import write
from bakery.core.plain_files import read_plain
from bakery.iree.mlir.signature import Function, Type
from bakery.iree.models.module import LARGEST_RECORD, ModuleRecord, TargetRecord
from bakery.iree.vmfb import Code, Vmfb, metal_kernels, read_vmfb

SUFFIX = ".vmfb"

DEVICES = {"cpu": "local-task", "cuda": "cuda", "vulkan": "vulkan", "metal": "metal", "rocm": "hip"}
"""Kind of device → what ``iree-run-module --device=`` takes."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled module.

    Attributes:
        path: the ``.vmfb`` file.
        record: what was written beside it; None where nothing was.
        content: what it really holds.
        target: by its record; without one, by its content.
    """

    path: Path
    record: ModuleRecord | None
    content: Vmfb
    target: TargetRecord

    @property
    def name(self) -> str:
        """What it is called, without its target."""
        return self.record.name if self.record else self.path.name.removesuffix(SUFFIX)

    @property
    def title(self) -> str:
        """What it is called in tables and logs, and what ``--only`` selects by."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def functions(self) -> tuple[Function, ...]:
        """What it exports: the compiler adds to what was written."""
        return tuple(
            Function(item.name, tuple(map(Type, item.arguments)), tuple(map(Type, item.results)))
            for item in self.content.functions
        )


def find_modules(paths: Sequence[Path], only: Sequence[str] = ()) -> list[Compiled]:
    """Open modules: files, and all that lie in folders.

    Raises:
        UsageError: there is none, or ``only`` selects none.
        ModuleError: one cannot be read, or its record cannot; all of them are named.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob(f"*{SUFFIX}"))
        elif path.suffix == SUFFIX and path.is_file():
            files.append(path)
        else:
            raise UsageError(
                f"no such module or folder: {path}", hint=f"name a {SUFFIX} file, or the folder of `compile`"
            )
    if not files:
        raise UsageError(f"no module in {', '.join(map(str, paths))}", hint=f"expected *{SUFFIX}, as `compile` writes")
    chosen = [file for file in files if not only or _selected(file.name.removesuffix(SUFFIX), only)]
    if not chosen:
        titles = ", ".join(file.name.removesuffix(SUFFIX) for file in files[:8])
        raise UsageError(f"no module is selected by {' '.join(only)}", hint=f"there are {titles}")
    opened, problems = [], []
    for file in dict.fromkeys(chosen):
        try:
            opened.append(open_module(file))
        except (ModuleError, AuditError) as error:
            problems.append(error.message)
    if problems:
        raise ModuleError(
            f"{len(problems)} of {len(chosen)} modules cannot be read", hint="compile them again", details=problems
        )
    return opened


def open_module(path: Path) -> Compiled:
    """Open one module and its record.

    Raises:
        ModuleError: the record cannot be read, or the module has code for several kinds of device, or none.
        AuditError: the module cannot be read.
    """
    content = read_vmfb(path)
    record = read_record(path.with_suffix(".json"))
    return Compiled(path, record, content, record.target if record else _target(path, content))


def read_record(path: Path) -> ModuleRecord | None:
    """Read a module's record; None where there is none.

    Raises:
        ModuleError: it is none.
    """
    try:
        return ModuleRecord.model_validate_json(read_plain(path, LARGEST_RECORD))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModuleError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ModuleError(f"{path} is no record of a module: {place + ': ' if place else ''}{first['msg']}") from error


def write_record(module: Compiled, **changes: object) -> None:
    """Write a module's record anew, with some fields changed; nothing where it has none.

    Raises:
        OutputError: it cannot be written.
    """
    if module.record is None:
        return
    # Read again: the other command may have written its own part since.
    path = module.path.with_suffix(".json")
    record = (read_record(path) or module.record).model_copy(update=changes)
    write(path.parent, {path.name: record_text(record)})


def record_text(record: ModuleRecord) -> str:
    """Return a record as its file holds it."""
    return json.dumps(record.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


def inspect(module: Compiled) -> tuple[list[str], list[str]]:
    """Look at a module without running it.

    Returns:
        What was found to be right, and what is wrong.
    """
    right, wrong = [], []
    record, target = module.record, module.target
    if record is not None:
        if _sha256(module.path) == record.output.sha256:
            right.append("the module's bytes are those of its record")
        else:
            wrong.append("the module is not the one that its record is about: another sha256")
    strange = [kind for kind in module.content.kinds if kind != target.backend]
    if strange:
        wrong.append(f"it has code for {' and '.join(strange)}, and its target is {target.name}")
    for code in module.content.codes:
        if code.kind == target.backend:
            problem = _problem(code, target)
            (wrong if problem else right).append(f"{code.name}: {problem or _described(code)}")
    return right, wrong


def _problem(code: Code, target: TargetRecord) -> str:
    """Return what is wrong with the code for a device; empty for nothing."""
    if not code.texts:
        kinds = {"cuda": "PTX", "vulkan": "SPIR-V", "metal": "Metal source"}
        return f"holds no {kinds.get(code.kind, 'code')}"
    wanted = target.machine if code.kind == "cpu" else target.architecture
    exact = code.kind == "cpu" or (code.kind in ("cuda", "rocm") and wanted.startswith(("sm_", "gfx")))
    if exact and wanted and code.architecture != wanted:
        return f"is for {code.architecture or 'an unknown machine'}, not for {wanted}"
    if code.kind == "metal" and not all(metal_kernels(text) for text in code.texts):
        return "its Metal source has no kernel"
    return ""


def _described(code: Code) -> str:
    if code.kind == "metal":
        kernels = [name for text in code.texts for name in metal_kernels(text)]
        return f"Metal source with {', '.join(kernels)}; it was not compiled, which only macOS can"
    return {
        "cpu": f"ELF for {code.architecture}",
        "cuda": f"PTX for {code.architecture}",
        "rocm": f"ELF for AMD's {code.architecture}",
        "vulkan": f"SPIR-V, {len(code.texts)} {'module' if len(code.texts) == 1 else 'modules'}: header, instructions, entry points",
    }[code.kind]


def _selected(title: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(title, glob) for glob in globs)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _target(path: Path, content: Vmfb) -> TargetRecord:
    """Return the target of a module without a record.

    Raises:
        ModuleError: it has code for several.
    """
    kinds = content.kinds or ("cpu",)
    architectures = sorted({code.architecture for code in content.codes})
    if len(kinds) > 1 or len(architectures) > 1:
        raise ModuleError(
            f"{path} has code for several devices: {', '.join((*kinds, *architectures))}",
            hint="give it the record that `compile` wrote beside it",
        )
    kind, architecture = kinds[0], architectures[0] if architectures else ""
    machine = architecture if kind == "cpu" else ""
    return TargetRecord.model_validate(
        {
            "name": f"{kind}:{architecture}" if architecture else kind,
            "backend": kind,
            "architecture": "" if kind == "cpu" else architecture,
            "machine": machine,
            "device": DEVICES[kind],
        }
    )


def by_name(modules: Iterable[Compiled]) -> dict[str, list[Compiled]]:
    """Return the modules of each name, in order."""
    found: dict[str, list[Compiled]] = {}
    for module in modules:
        found.setdefault(module.name, []).append(module)
    return found
