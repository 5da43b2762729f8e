"""Bundles: compiled modules, their requirements, and a program that selects and runs the module for a machine."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from bakery.core.errors import OutputError, UsageError
from bakery.core.files import add_to_tar
from bakery.core.inside import Inside
from bakery.plan.values import Json
from bakery.runs.publish import publish
from bakery_iree import facts, programs
from bakery_iree.errors import ModuleError
from bakery_iree.modules import Compiled, record_text
from wheel_audit.plain_files import file_sha256, open_plain

VERSION = 1
"""Version of the manifest. Increase it when a key changes its meaning."""

RUNTIME = "iree-base-runtime"


def bundle(modules: Sequence[Compiled], target: Path) -> None:
    """Write modules to a tar or a folder. The same modules give the same bytes.

    ``target`` is ``FILE.tar``, which is replaced, or a new folder. Raises ModuleError if a module has no record, two
    have the same file name, or they need different runtimes; UsageError if the folder exists; OutputError if it
    cannot be written.
    """
    files = contents(modules)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bakery-bundle-", dir=target.parent) as scratch:
            if target.suffix == ".tar":
                tar = Path(scratch) / target.name
                _write_tar(files, tar)
                publish([tar], target.parent, root=target.parent)
            else:
                _write_folder(files, Path(scratch) / target.name, target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error


def contents(modules: Sequence[Compiled]) -> dict[str, Path | bytes]:
    """Return the files of a bundle, by relative name. It raises what `bundle` raises."""
    unrecorded = [str(module.path) for module in modules if module.record is None]
    if unrecorded:
        raise ModuleError(
            "modules without a record cannot be bundled", hint="`wheel-bakery compile` writes one", details=unrecorded
        )
    runtimes = sorted({module.record.runtime for module in modules if module.record})
    if len(runtimes) != 1:
        raise ModuleError(f"modules need different runtimes: {', '.join(runtimes)}", hint="compile them all again")
    files: dict[str, Path | bytes] = {}
    entries: list[Json] = []
    for module in sorted(modules, key=lambda item: item.title):
        name = f"modules/{module.path.name}"
        if name in files:
            paths = [str(item.path) for item in modules if item.title == module.title]
            hint = "bundle one of them, or compile them with different names"
            raise ModuleError(f"two modules have the file name {module.path.name}", hint=hint, details=paths)
        files[name] = module.path
        entries.append(_entry(module, name))
        if module.record is not None:
            # Times differ from run to run.
            record = module.record.model_copy(update={"benchmark": None})
            files[f"modules/{module.title}.json"] = record_text(record).encode()
    document: Json = {"version": VERSION, "runtime": runtimes[0], "modules": entries}
    files["manifest.json"] = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    # With hashes for a known release; for another one, pip resolves the requirements.
    requirements = facts.iree_requirements(runtimes[0]) or f"{RUNTIME}=={runtimes[0]}\nnumpy\n"
    files["requirements.txt"] = requirements.encode()
    files["run.py"] = programs.text("load_module.py").encode()
    return files


def _entry(module: Compiled, name: str) -> dict[str, Json]:
    """Return the entry of a module in the manifest, which `run.py` reads."""
    architectures = sorted({code.architecture for code in module.content.codes if code.architecture})
    target = module.target
    # A target may name a card; PTX and AMD's code contain the architecture.
    architecture = (
        architectures[0] if target.backend in ("cuda", "rocm") and len(architectures) == 1 else target.architecture
    )
    functions: list[Json] = [
        {"name": item.name, "arguments": [*map(str, item.arguments)], "results": [*map(str, item.results)]}
        for item in module.functions
    ]
    return {
        "name": module.name,
        "target": target.name,
        "backend": target.backend,
        "architecture": architecture,
        "machine": target.machine,
        "device": target.device,
        "file": name,
        "sha256": file_sha256(module.path),
        "functions": functions,
    }


def _write_tar(files: Mapping[str, Path | bytes], path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            add_to_tar(archive, f"{path.stem}/{name}", files[name], 0o755 if name.endswith(".py") else 0o644)


def _write_folder(files: Mapping[str, Path | bytes], scratch: Path, target: Path) -> None:
    if target.exists():
        raise UsageError(f"{target} exists", hint="name a new folder, or a .tar file")
    scratch.mkdir()
    for name, content in files.items():
        # A bundle is made to be passed on: no link beside a module may bring a file of this user.
        with BytesIO(content) if isinstance(content, bytes) else open_plain(content) as file:
            Inside(scratch).write(name, file)
        (scratch / name).chmod(0o755 if name.endswith(".py") else 0o644)
    scratch.rename(target)
