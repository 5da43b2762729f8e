"""Wheels to begin with, and the readers of a wheel."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

import fatbins
import machos
import pes
from elfs import shared_object
from rich.console import Console
from wheels import EXTENSION, TAG, write_wheel

from bakery.release.index.files import NotAWheel
from bakery.release.index.files import read as read_for_index
from bakery.runs.records.sbom import contents
from wheel_audit.auditor import make_report
from wheel_audit.byte_difference import differences
from wheel_audit.checks import run_checks
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.report import render
from wheel_audit.tools import AuditwheelReport, ToolResults
from wheel_audit.wheel import read_wheel

NAME = f"demo-1.0-{TAG}.whl"
"""What a wheel is called whose archive has no comment; a seed's comment is its name."""

_TOOLS_SEE = 200
"""One wheel in so many is shown to auditwheel and the other tools, too: they take a hundred times as long as bakery."""

_METADATA = """\
Metadata-Version: 2.4
Name: demo
Version: 1.0
Summary: A demo
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: numpy>=1.21,<3
Requires-Dist: torch==2.9.*; extra == "gpu" and python_version < "3.13"
Requires-Dist: nvidia-cuda-runtime-cu12~=12.8; platform_system == 'Linux'
Provides-Extra: gpu
Description-Content-Type: text/markdown

# demo
"""


def _files() -> Iterator[tuple[str, Mapping[str, bytes], str]]:
    """Yield platform tag, members and kind of each seed."""
    versions = {"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]}
    rich = shared_object(
        soname="_core.so",
        needed=("libc.so.6", "libstdc++.so.6", "libx-1a2b3c4d.so.1"),
        versions=versions,
        runpath="$ORIGIN/../demo.libs",
        wanted=("PyLong_FromLong", "memcpy", "_ZN3fooEv"),
        defined=("PyInit__core",),
    )
    device = fatbins.for_archs("sm_80", "sm_90a", "compute_90") + fatbins.for_archs("sm_120f", toolkit=129)
    yield TAG, {EXTENSION: shared_object()}, "elf"
    yield TAG, {EXTENSION: rich, "demo.libs/libx-1a2b3c4d.so.1": shared_object(soname="libx.so.1")}, "elf"
    yield TAG, {EXTENSION: shared_object(sections={".nv_fatbin": device})}, "fatbin"
    for name in ("lz4", "plain", "zstd", "ptxas-12.9"):
        yield TAG, {EXTENSION: fatbins.real(name)}, "fatbin"
    thin = machos.thin(
        needed=(machos.SYSTEM, "@rpath/libx.dylib"), rpaths=("@loader_path",), weak=("/usr/lib/libz.dylib",)
    )
    both = machos.universal(thin, machos.thin("x86_64", old=True, name="@rpath/x.dylib"))
    yield "cp311-cp311-macosx_11_0_arm64", {"demo/_core.cpython-311-darwin.so": thin}, "macho"
    yield "cp39-abi3-macosx_11_0_universal2", {"demo/_core.abi3.so": both, "demo/.dylibs/x.dylib": both}, "macho"
    image = pes.image(delayed=("CUDART64_12.dll",))
    yield "cp311-cp311-win_amd64", {"demo/_core.cp311-win_amd64.pyd": image, "demo.libs/x-1.dll": pes.image()}, "pe"
    yield "cp311-cp311-win32", {"demo/_core.cp311-win32.pyd": pes.image("x86")}, "pe"
    yield "py3-none-any", {"demo/py.typed": b"", "demo/data.txt": b"one\ntwo\n"}, "metadata"
    yield "cp39-abi3-manylinux_2_28_aarch64", {"demo/_core.abi3.so": shared_object("aarch64")}, "elf"


WITH = {"cubin": ("fatbin",), "metadata": ("metadata", "elf")}
"""Kind of member → the seeds that have some, where these are others than of that name."""


@cache
def seeds(*kinds: str) -> list[bytes]:
    """Return wheels that are right, all or those of some kinds."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for tag, files, kind in _files():
            if not kinds or kind in kinds:
                path = write_wheel(
                    Path(folder), tag, {**files, "demo-1.0.dist-info/licenses/LICENSE": b"MIT\n"}, metadata=_METADATA
                )
                with zipfile.ZipFile(path, "a") as archive:
                    archive.comment = path.name.encode()
                found.append(path.read_bytes())
    return found


@contextmanager
def _placed(folder: Path, data: bytes) -> Iterator[Path]:
    """Give a wheel's file under the name that its comment says, where that is one."""
    path = folder / (_name(data) or NAME)
    path.write_bytes(data)
    try:
        yield path
    finally:
        path.unlink()


def _name(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            name = archive.comment.decode()
    except Exception:
        return ""
    return name if name.endswith(".whl") and "/" not in name and "\0" not in name and len(name.encode()) < 250 else ""


def audit(folder: Path, data: bytes) -> str:
    """Audit a wheel and show the report in both forms."""
    with _placed(folder, data) as path:
        if int.from_bytes(hashlib.sha256(data).digest()[:4]) % _TOOLS_SEE:
            with (
                patch("wheel_audit.wheel.run_auditwheel", lambda _: AuditwheelReport()),
                patch("wheel_audit.wheel.run_tools", lambda *_, **__: ToolResults()),
            ):
                wheel = read_wheel(path)
        else:
            wheel = read_wheel(path)
        report = make_report(wheel, run_checks(wheel, ExpectedWheel()))
        Console(file=io.StringIO(), width=100).print(render(report))
        json.dumps(report.to_json())
        if report.ok:
            contents(path)
        return "ok" if report.ok else "findings"


def compare(folder: Path, data: bytes) -> str:
    """Say how a wheel differs from one that is right, as `wheel-bakery reproduce` does."""
    other = folder / "other.whl"
    other.write_bytes(seeds()[1 + len(data) % 4])
    with _placed(folder, data) as path:
        return "differs" if differences(other, path) else "same"


def index(folder: Path, data: bytes) -> str:
    """Read what an index says of a wheel."""
    with _placed(folder, data) as path:
        try:
            read_for_index(path, "2026-01-01T00:00:00.000000Z")
        except NotAWheel as error:
            return refusal(error)
        return "ok"


def refusal(error: ValueError) -> str:
    """Return the kind of an error whose text stands in one line of a message."""
    assert len(str(error)) < 10_000, "an endless error"
    return type(error).__name__
