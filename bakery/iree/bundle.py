"""Bundles: compiled modules, what they need, and a program that takes the one that suits a machine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bakery.build.publish import publish
from bakery.core.errors import ModuleError, OutputError, UsageError
from bakery.iree import programs
from bakery.iree.modules import Compiled, record_text
from bakery.plan.values import Json
from bakery.toolchains import facts

VERSION = 1
"""Of the manifest; raised when a key changes its meaning."""

RUNTIME = "iree-base-runtime"


def bundle(modules: Sequence[Compiled], target: Path) -> None:
    """Write modules as a tar, or as a folder; the same modules give the same bytes.

    Args:
        target: ``FILE.tar``, which is replaced, or a folder that is not there yet.

    Raises:
        ModuleError: a module has no record, or they need different runtimes.
        UsageError: the folder is there already.
        OutputError: it cannot be written.
    """
    files = contents(modules)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bakery-bundle-", dir=target.parent) as scratch:
            if target.suffix == ".tar":
                made = Path(scratch) / target.name
                _write_tar(files, made)
                publish([made], target.parent, root=target.parent)
            else:
                _write_folder(files, Path(scratch) / target.name, target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error


def contents(modules: Sequence[Compiled]) -> dict[str, Path | bytes]:
    """Return what a bundle holds, by relative name.

    Raises:
        ModuleError: a module has no record, or they need different runtimes.
    """
    nameless = [str(module.path) for module in modules if module.record is None]
    if nameless:
        raise ModuleError(
            "modules without a record cannot be bundled", hint="`wheel-bakery compile` writes one", details=nameless
        )
    runtimes = sorted({module.record.runtime for module in modules if module.record})
    if len(runtimes) != 1:
        raise ModuleError(f"modules need different runtimes: {', '.join(runtimes)}", hint="compile them all again")
    files: dict[str, Path | bytes] = {}
    listed: list[Json] = []
    for module in sorted(modules, key=lambda item: item.title):
        place = f"modules/{module.path.name}"
        files[place] = module.path
        listed.append(_entry(module, place))
        if module.record is not None:
            files[f"modules/{module.title}.json"] = record_text(module.record).encode()
    document: Json = {"version": VERSION, "runtime": runtimes[0], "modules": listed}
    files["manifest.json"] = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    # By hash where the release is known; of another one the index says what it needs.
    needs = facts.iree_requirements(runtimes[0]) or f"{RUNTIME}=={runtimes[0]}\nnumpy\n"
    files["requirements.txt"] = needs.encode()
    files["run.py"] = programs.text("load_module.py").encode()
    return files


def _entry(module: Compiled, place: str) -> dict[str, Json]:
    """Return what the program needs to choose and to load a module."""
    architectures = sorted({code.architecture for code in module.content.codes if code.architecture})
    target = module.target
    # PTX and AMD's code say themselves what they are for; a target may be the name of a card.
    told = architectures[0] if target.backend in ("cuda", "rocm") and len(architectures) == 1 else target.architecture
    with module.path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    functions: list[Json] = [
        {
            "name": item.name,
            "arguments": [str(type_) for type_ in item.arguments],
            "results": [str(t) for t in item.results],
        }
        for item in module.functions
    ]
    return {
        "name": module.name,
        "target": target.name,
        "backend": target.backend,
        "architecture": told,
        "machine": target.machine,
        "device": target.device,
        "file": place,
        "sha256": sha256,
        "functions": functions,
    }


def _write_tar(files: Mapping[str, Path | bytes], path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            content = files[name]
            member = tarfile.TarInfo(f"{path.stem}/{name}")
            member.mode = 0o755 if name.endswith(".py") else 0o644
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                with content.open("rb") as source:
                    member.size = os.fstat(source.fileno()).st_size
                    archive.addfile(member, source)


def _write_folder(files: Mapping[str, Path | bytes], made: Path, target: Path) -> None:
    if target.exists():
        raise UsageError(f"{target} is there already", hint="name a folder that is not, or a .tar file")
    for name, content in files.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            shutil.copyfile(content, path)
        path.chmod(0o755 if name.endswith(".py") else 0o644)
    made.rename(target)
