"""The bar: 40 defects planted in wheels made by a compiler are all found, and good wheels have none.

The good ones are looked at by every tool there is, as a bake's are. A planted defect meets the tools where they are
the ones to find it.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from built import MODULE, Object, build, calls, library, program
from fatbins import for_archs
from sample import sampled
from wheels import EXTENSION, TAG
from wheels import write_wheel as write_files

from wheel_audit.auditor import audit_wheel
from wheel_audit.checks import check_ids
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity
from wheel_audit.tools import AuditwheelReport, ToolResults

pytestmark = pytest.mark.skipif(which("g++") is None, reason="needs gcc and g++")

Make = Callable[[Path], Path]

ABI3_TAG = "cp39-abi3-manylinux_2_28_x86_64"
ABI3 = "demo/_core.abi3.so"
ARCHS = ("sm_80", "sm_90", "compute_90")
RUNTIME = ("libcudart.so.12", ("cudaLaunchKernel",))
TORCH_CALL = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD_TORCH_CALL = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
TORCH_CALLS = (TORCH_CALL, OLD_TORCH_CALL)
TORCH = (("libtorch.so", ("aoti_torch_empty",)), ("libc10.so", TORCH_CALLS))

PLAIN = ExpectedWheel(
    name="demo", version="1.0", python="3.11", platform="linux/amd64", plat="manylinux_2_28_x86_64", stripped=True
)
CUDA = replace(PLAIN, device_archs=ARCHS, cuda="12.8.1", excludes=("libcudart.so.*", "libcublas*.so.*"))
WITH_TORCH = replace(CUDA, requires=("torch==2.11.*",), cxx_abi="cxx11")
PUBLIC = replace(PLAIN, public_index=True)


def about(*lines: str, text: str = "") -> str:
    """Return METADATA with more ``lines``, and a description."""
    head = ["Metadata-Version: 2.1", "Name: demo", "Version: 1.0", "Requires-Python: >=3.9", *lines]
    return "".join(f"{line}\n" for line in head) + (f"\n{text}\n" if text else "")


PINNED = about("Requires-Dist: torch==2.11.*")


def write_wheel(folder: Path, tag: str, files: Mapping[str, bytes | Object], **changes: Any) -> Path:
    """Write a wheel, compiling what is to be compiled."""
    content = {path: data() if callable(data) else data for path, data in files.items()}
    return write_files(folder, tag, content, **{"metadata": about(), **changes})


def kernels(*archs: str, source: str = "", link: tuple[tuple[str, tuple[str, ...]], ...] = (RUNTIME,)) -> Object:
    """Return an extension module that starts kernels and has device code for ``archs``."""
    device = for_archs(*archs) if archs else b""
    return build(source or calls("cudaLaunchKernel"), link=link, device=device)


def cuda(data: Object | None = None, metadata: str = "", files: Mapping[str, Object] | None = None) -> Make:
    """Return a maker of a CUDA wheel."""
    return plain(data or kernels(*ARCHS), files=files, metadata=metadata or about("Requires-Dist: nvidia-cuda-runtime"))


def torch(*called: str, metadata: str = PINNED) -> Make:
    """Return a maker of a CUDA wheel that calls torch."""
    link = (RUNTIME, *TORCH)
    return cuda(kernels(*ARCHS, source=calls("cudaLaunchKernel", *called), link=link), metadata)


def plain(
    data: bytes | Object | None = None,
    tag: str = TAG,
    path: str = EXTENSION,
    *,
    files: Mapping[str, bytes | Object] | None = None,
    **changes: Any,
) -> Make:
    """Return a maker of a wheel with one extension module and more ``files``."""
    content: dict[str, bytes | Object] = {path: data or build(), **(files or {})}
    return lambda folder: write_wheel(folder, tag, content, **changes)


def limited(version: str, body: str = "") -> Object:
    """Return a module for the stable ABI of Python ``version``, or what claims to be one."""
    head = f"#define Py_LIMITED_API 0x03{int(version.partition('.')[2]):02x}0000\n" if version else ""
    return build(head + MODULE + body)


def pure(files: Mapping[str, bytes]) -> Make:
    """Return a maker of a wheel without machine code."""
    return lambda folder: write_wheel(folder, "py3-none-any", files)


CXX = """
#include <stdexcept>
#include <string>
#include <vector>
extern "C" int demo_sum(const char *text) {
    std::vector<std::string> parts(3, std::string(text));
    if (parts[0].empty()) throw std::runtime_error("empty " + parts[1]);
    return static_cast<int>(parts.size());
}
"""
USES_MODULE_STATE = "void *demo(PyTypeObject *type) { return PyType_GetModule(type); }\n"
USES_INTERNALS = "PyObject *demo(void) { return PyUnicode_New(3, 127); }\n"
GRAFT = "libgraft-0a1b2c3d.so.1"

GOOD: dict[str, tuple[Make, ExpectedWheel]] = {
    "C": (plain(), PUBLIC),
    "C++": (plain(build(MODULE + CXX, language="c++")), PLAIN),
    "stable ABI": (plain(limited("3.9"), ABI3_TAG, ABI3), replace(PUBLIC, python="3.13", abi3=True)),
    "pure": (
        pure({"demo/core.py": b"x = 1\n"}),
        ExpectedWheel(name="demo", python="3.14", platform="linux/arm64", pure=True, public_index=True),
    ),
    "CUDA": (cuda(), CUDA),
    "CUDA with the driver and cuBLAS": (
        cuda(
            kernels(
                *ARCHS,
                source=calls("cudaLaunchKernel", "cublasCreate_v2", "cuTensorMapEncodeTiled"),
                link=(
                    RUNTIME,
                    ("libcublas.so.12", ("cublasCreate_v2",)),
                    ("libcuda.so.1", ("cuTensorMapEncodeTiled",)),
                ),
            )
        ),
        CUDA,
    ),
    "grafted library": (
        plain(
            build(calls("graft_one"), link=((GRAFT, ("graft_one",)),), runpath="$ORIGIN/../demo.libs"),
            files={f"demo.libs/{GRAFT}": build(library("graft_one"), soname=GRAFT)},
        ),
        PLAIN,
    ),
    "library that leaves its needs to who loads it": (
        plain(
            build(calls("one", "two"), link=(("libone.so", ("one",)), ("libtwo.so", ("two",))), runpath="$ORIGIN"),
            files={
                "demo/libone.so": build(library("one", wants=["two"]), soname="libone.so"),
                "demo/libtwo.so": build(library("two"), soname="libtwo.so"),
            },
        ),
        PLAIN,
    ),
    "torch": (torch(TORCH_CALL), WITH_TORCH),
    "torch's stable ABI": (torch("aoti_torch_empty", metadata=about("Requires-Dist: torch>=2.11")), WITH_TORCH),
    "ctypes": (plain(build(library("demo_one")), "py3-none-manylinux_2_28_x86_64", "demo/libdemo.so"), PLAIN),
    "program with a plugin": (
        plain(
            build(library("plugin", wants=["host_call"])),
            "py3-none-manylinux_2_34_x86_64",
            "demo/plugin.so",
            files={
                "demo/bin/host": program(library("host_call") + "int main(void) { return host_call(); }", "-rdynamic")
            },
        ),
        replace(PLAIN, plat="manylinux_2_34_x86_64"),
    ),
    "libm that was not asked for": (
        plain(build(library("demo_root", wants=["cbrt", "getpid"]), "-fno-builtin")),
        PLAIN,
    ),
}


@pytest.mark.parametrize("name", sampled(GOOD, 4))
def test_a_good_wheel_has_no_error_whoever_looks(name: str, tmp_path: Path) -> None:
    make, expected = GOOD[name]
    findings = audit_wheel(make(tmp_path), expected).findings
    assert [f for f in findings if f.severity in (Severity.ERROR, Severity.WARNING, Severity.SKIPPED)] == []


def _edited(make: Make, change: Callable[[zipfile.ZipFile], None]) -> Make:
    def edited(folder: Path) -> Path:
        path = make(folder)
        with zipfile.ZipFile(path, "a") as zipped:
            change(zipped)
        return path

    return edited


def _arm() -> bytes:
    """Return an object that says it is for aarch64."""
    data = build()()
    return data[:18] + (183).to_bytes(2, "little") + data[20:]


BROKEN_RST = "Title\n==\n\n.. code-block:: python\n   :nonsense: 1\n\n   x\n\n`unclosed\n"
DEFECTS: dict[str, tuple[str, Make, ExpectedWheel]] = {
    # Machine code
    "wrong machine": ("elf-machine", plain(_arm), PLAIN),
    "cut off": ("elf-unreadable", plain(lambda: build()()[:3000]), PLAIN),
    "absolute RPATH": (
        "rpath-absolute",
        plain(build(MODULE, "-Wl,--disable-new-dtags,-rpath,/usr/local/cuda/lib64")),
        PLAIN,
    ),
    "search path out of the installation": ("rpath-absolute", plain(build(runpath="$ORIGIN/../../../lib")), PLAIN),
    "debug information": ("not-stripped", plain(build(strip=False)), PLAIN),
    "newer glibc than the tag": ("glibc-floor", plain(build(calls("dlopen"))), PLAIN),
    "newer libstdc++ than the tag": (
        "glibcxx-floor",
        plain(build(MODULE + CXX, language="c++"), "cp311-cp311-manylinux_2_12_x86_64"),
        PLAIN,
    ),
    "nothing native in a native wheel": ("promised-pure", pure({}), replace(PLAIN, pure=False)),
    "library nobody brings": ("undefined-symbol", plain(build(calls("demo_left_out"))), PLAIN),
    "C++ function nobody brings": (
        "undefined-symbol",
        plain(
            build(MODULE + "namespace demo { int launch(int); } int use() { return demo::launch(1); }", language="c++")
        ),
        PLAIN,
    ),
    "own library not asked for": (
        "undefined-symbol",
        plain(build(calls("own_one")), files={"demo/libown.so": build(library("own_one"), soname="libown.so")}),
        PLAIN,
    ),
    "own library is another version": (
        "undefined-symbol",
        plain(
            build(calls("own_two"), link=(("libown.so", ("own_two",)),), runpath="$ORIGIN"),
            files={"demo/libown.so": build(library("own_one"), soname="libown.so")},
        ),
        PLAIN,
    ),
    # CUDA
    "no device code": ("device-code-absent", cuda(kernels()), CUDA),
    "architecture missing": ("device-arch-missing", cuda(kernels("sm_80", "compute_90")), CUDA),
    "PTX missing": ("device-arch-missing", cuda(kernels("sm_80", "sm_90")), CUDA),
    "device code nobody asked for": ("device-arch-unasked", cuda(kernels(*ARCHS, "sm_75")), CUDA),
    "runtime of another CUDA": (
        "cuda-major",
        cuda(kernels(*ARCHS, link=(("libcudart.so.11.0", ("cudaLaunchKernel",)),))),
        CUDA,
    ),
    "bundled libcudart": (
        "bundled-library",
        cuda(
            kernels(*ARCHS, link=(("libcudart-1b2c3d4e.so.12", ("cudaLaunchKernel",)),)),
            files={"demo.libs/libcudart-1b2c3d4e.so.12": build(library("cudaLaunchKernel"))},
        ),
        CUDA,
    ),
    "excluded library in the package": (
        "bundled-library",
        cuda(files={"demo/libcublas.so.12": build(library("cublasCreate_v2"), soname="libcublas.so.12")}),
        CUDA,
    ),
    "empty stub of libcuda": (
        "driver-not-needed",
        cuda(kernels(*ARCHS, source=calls("cudaLaunchKernel", "cuTensorMapEncodeTiled"))),
        CUDA,
    ),
    "cuBLAS not linked": (
        "library-not-needed",
        cuda(kernels(*ARCHS, source=calls("cudaLaunchKernel", "cublasCreate_v2"))),
        CUDA,
    ),
    "CUDA runtime not linked": ("library-not-needed", cuda(kernels(*ARCHS, link=())), CUDA),
    "kernel's host code left out": (
        "undefined-symbol",
        torch(TORCH_CALL, "_Z13launch_kernelPvN2at6TensorE"),
        WITH_TORCH,
    ),
    # torch
    "torch without a requirement": ("framework-pin", torch(TORCH_CALL, metadata=about()), WITH_TORCH),
    "any later torch": ("framework-pin", torch(TORCH_CALL, metadata=about("Requires-Dist: torch>=2.11")), WITH_TORCH),
    "another torch than it was built with": (
        "promised-requirement",
        torch(TORCH_CALL, metadata=about("Requires-Dist: torch==2.10.*")),
        WITH_TORCH,
    ),
    "torch of several releases": (
        "framework-pin",
        torch(TORCH_CALL, metadata=about("Requires-Dist: torch>=2.10,<2.13")),
        WITH_TORCH,
    ),
    "torch's other ABI": ("framework-abi", torch(OLD_TORCH_CALL), WITH_TORCH),
    "requirement missing": ("promised-requirement", cuda(), replace(CUDA, requires=("numpy>=2",))),
    "requirement of an extra only without it": (
        "promised-requirement",
        cuda(metadata=about("Requires-Dist: nvidia-cuda-runtime", "Requires-Dist: numpy>=2")),
        replace(CUDA, requires=('numpy>=2; extra == "x"',)),
    ),
    "requirement only of an extra": (
        "promised-requirement",
        cuda(metadata=about("Provides-Extra: x", "Requires-Dist: numpy>=2; extra == 'x'")),
        replace(CUDA, requires=("numpy>=2",)),
    ),
    # Tags and names
    "tag of another system": ("promised-plat", plain(tag="cp311-cp311-manylinux_2_34_x86_64"), PLAIN),
    "bare linux tag": ("linux-tag", plain(tag="cp311-cp311-linux_x86_64"), PLAIN),
    "tag of another machine": ("promised-platform", plain(tag="cp311-cp311-manylinux_2_28_aarch64"), PLAIN),
    "tag of another Python": ("promised-python", plain(tag="cp312-cp312-manylinux_2_28_x86_64"), PLAIN),
    "module of another Python": ("extension-abi", plain(path=EXTENSION.replace("311", "310")), PLAIN),
    "machine code for any platform": ("any-tag", plain(tag="py3-none-any"), PLAIN),
    "stable ABI of a later Python than promised": (
        "promised-python",
        plain(limited("3.11"), "cp311-abi3-manylinux_2_28_x86_64", ABI3),
        replace(PLAIN, abi3=True, pythons=("3.9", "3.11")),
    ),
    "stable ABI by name alone": ("extension-abi", plain(limited("3.9"), ABI3_TAG), PLAIN),
    "uses internals under the stable ABI": (
        "abi3-violation",
        plain(limited("", USES_INTERNALS), ABI3_TAG, ABI3),
        PLAIN,
    ),
    "uses a later stable ABI": ("abi3-violation", plain(limited("3.10", USES_MODULE_STATE), ABI3_TAG, ABI3), PLAIN),
    "renamed to another tag": (
        "metadata-tags",
        plain(tag="cp311-cp311-linux_x86_64", filename=f"demo-1.0-{TAG}.whl"),
        PLAIN,
    ),
    "Root-Is-Purelib lies": (
        "root-is-purelib",
        plain(wheel=f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {TAG}\n"),
        PLAIN,
    ),
    "local version on PyPI": (
        "local-version-public",
        plain(filename=f"demo-1.0+cu128-{TAG}.whl", metadata=about().replace("Version: 1.0", "Version: 1.0+cu128")),
        replace(PUBLIC, version=None),
    ),
    "another version": ("promised-version", plain(), replace(PLAIN, version="1.1")),
    # METADATA and RECORD
    "no Metadata-Version": ("metadata-field", plain(metadata="Name: demo\nVersion: 1.0\n"), PLAIN),
    "no Name": ("metadata-name", plain(metadata="Metadata-Version: 2.1\nVersion: 1.0\n"), PLAIN),
    "no Wheel-Version": ("metadata-field", plain(wheel=f"Root-Is-Purelib: false\nTag: {TAG}\n"), PLAIN),
    "requirement that is none": ("metadata-field", plain(metadata=about("Requires-Dist: numpy>=>1")), PLAIN),
    "description that cannot be shown": (
        "readme-render",
        plain(metadata=about("Description-Content-Type: text/x-rst", text=BROKEN_RST)),
        PUBLIC,
    ),
    "RECORD line missing": ("record-unlisted", plain(edit_record=lambda text: text.partition("\n")[2]), PLAIN),
    "RECORD names a file that is not there": (
        "record-absent",
        plain(edit_record=lambda text: f"demo/gone.py,sha256=x,1\n{text}"),
        PLAIN,
    ),
    "wrong hash": ("record-hash", plain(edit_record=lambda text: text.replace("sha256=", "sha256=A", 1)), PLAIN),
    "wrong size": ("record-size", plain(edit_record=lambda text: text.replace(",0\n", ",7\n", 1)), PLAIN),
    # The archive
    "setuid": ("archive-mode", plain(modes={EXTENSION: 0o104755}), PLAIN),
    "writable by everyone": ("archive-mode", plain(modes={EXTENSION: 0o100777}), PLAIN),
    "link to nothing": (
        "archive-link",
        plain(files={"demo/libdemo.so": b"libdemo.so.1"}, modes={"demo/libdemo.so": stat.S_IFLNK | 0o777}),
        PLAIN,
    ),
    "path that leads out": ("archive-path", plain(files={"../evil.pth": b"import os\n"}), PLAIN),
    "same path twice": (
        "archive-duplicate",
        _edited(plain(), lambda zipped: zipped.writestr("demo/__init__.py", b"")),
        PLAIN,
    ),
    "paths that differ in case alone": (
        "archive-case",
        pure({"demo/Core.py": b"1\n", "demo/core.py": b"2\n"}),
        replace(PLAIN, pure=True),
    ),
    "a wheel in the wheel": ("archive-nested", plain(files={f"demo/dist/demo-0.9-{TAG}.whl": b"PK"}), PLAIN),
    "compiled Python": ("wheel-contents-W001", plain(files={"demo/__pycache__/core.cpython-311.pyc": b"1"}), PLAIN),
    "__init__.py for nothing": ("wheel-contents-W006", plain(files={"__init__.py": b"1"}), PLAIN),
    "too large": ("size-limit", plain(), replace(PLAIN, max_size=1000)),
}
TOOLS = {"abi3-violation", "readme-render", "wheel-contents-W001", "wheel-contents-W006"}
"""What only a tool finds."""


def test_there_are_forty_and_more() -> None:
    assert len(DEFECTS) >= 40
    assert len(GOOD) >= 10
    assert {check for check, *_ in DEFECTS.values()} <= check_ids().keys()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, make, expected = DEFECTS[name]
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())
    if check not in TOOLS:
        monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults())
    report = audit_wheel(make(tmp_path), expected)
    assert check in {finding.check for finding in report.findings if finding.severity is Severity.ERROR}
