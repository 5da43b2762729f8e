"""A writer of tiny wheels: correct ones, and ones with exactly one planted defect."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elfs import shared_object

TAG = "cp311-cp311-manylinux_2_28_x86_64"
EXTENSION = "demo/_core.cpython-311-x86_64-linux-gnu.so"
Make = Callable[[Path], Path]


def write_wheel(
    folder: Path,
    tag: str = TAG,
    files: Mapping[str, bytes] | None = None,
    *,
    filename: str = "",
    metadata: str = "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\nRequires-Python: >=3.9\n",
    wheel: str = "",
    edit_record: Callable[[str], str] = str,
    unlisted: Mapping[str, bytes] | None = None,
    modes: Mapping[str, int] | None = None,
) -> Path:
    """Write ``demo-1.0-{tag}.whl`` and return its path.

    ``edit_record`` changes RECORD's text, ``unlisted`` files are not in it, ``modes`` are Unix modes.
    """
    info = "demo-1.0.dist-info"
    python, abi, platforms = tag.split("-")
    lines = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    pure = str(platforms == "any").lower()
    content = {"demo/__init__.py": b""}
    content |= {EXTENSION: shared_object()} if files is None else files
    content |= {
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": (wheel or f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\n{lines}").encode(),
    }
    record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{info}/RECORD"] = edit_record(f"{record}{info}/RECORD,,\n").encode()
    path = folder / (filename or f"demo-1.0-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in [*content.items(), *(unlisted or {}).items()]:
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = ((modes or {}).get(name, 0o100644)) << 16
            zipped.writestr(member, data)
    return path


def made(tag: str = TAG, files: Mapping[str, bytes] | None = None, **changes: Any) -> Make:
    """Return what writes a wheel into a folder."""
    return lambda folder: write_wheel(folder, tag, files, **changes)


def holding(data: bytes, path: str = EXTENSION) -> Make:
    """Return what writes a wheel with one object."""
    return made(files={path: data})


def without(path: Path, gone: str) -> Path:
    """Write a wheel again, without one member."""
    with zipfile.ZipFile(path) as zipped:
        kept = {name: zipped.read(name) for name in zipped.namelist() if name != gone}
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in kept.items():
            zipped.writestr(name, data)
    return path


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
