"""Device code, driver, search paths, debug information and torch: planted defects, and wheels without any."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from elfs import shared_object
from fatbins import DATA, ELF, entry, fatbin, for_archs, real
from pes import image
from rich.console import Console
from wheels import EXTENSION, Make, made, write_wheel

from wheel_audit.auditor import WheelReport, audit_wheel
from wheel_audit.compare import Change, compare
from wheel_audit.expected_wheel import ExpectedFolder, ExpectedWheel
from wheel_audit.finding import Severity
from wheel_audit.limits import Budget
from wheel_audit.report import render, render_changes
from wheel_audit.symbols import Symbols, VersionNeed, read_symbols
from wheel_audit.systems import cuda_majors

pytestmark = pytest.mark.usefixtures("no_tools")

CUDA = ExpectedWheel(platform="linux/amd64", device_archs=("sm_80", "sm_90", "compute_90"), cuda="12.8.1")
ARCHS = ("sm_80", "sm_90", "compute_90")
METADATA = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: nvidia-cuda-runtime\n"
TORCH = ("libtorch.so", "libc10.so", "libc.so.6")
UNLINKED = {"library-not-needed"}
"""What the real objects of ``data/fatbin`` rightly get: they are linked with nothing, not even libcudart."""
RUNTIME = ("libcudart.so.12", "libc.so.6")


def cuda(
    *archs: str,
    toolkit: int = 128,
    isa: tuple[int, int] = (8, 7),
    needed: Sequence[str] = RUNTIME,
    sections: Mapping[str, bytes] | None = None,
    wanted: Sequence[str] = (),
    rpath: str = "",
    runpath: str = "",
) -> bytes:
    """Return an extension module with device code for ``archs``."""
    code = {".nv_fatbin": for_archs(*archs, toolkit=toolkit, isa=isa)} if archs else {}
    return shared_object(
        needed=needed, sections=code | dict(sections or {}), wanted=wanted, rpath=rpath, runpath=runpath
    )


def windows(data: bytes, **more: bytes) -> Make:
    files = {"demo/_core.cp311-win_amd64.pyd": data} | {f"demo/{name}.dll": content for name, content in more.items()}
    return made("cp311-cp311-win_amd64", files, metadata=METADATA)


def pyd(*archs: str, needed: Sequence[str] = ("cudart64_12.dll",), toolkit: int = 128) -> bytes:
    """Return an extension module for Windows with device code for ``archs``."""
    return image(imports=needed, sections={".nv_fatb": for_archs(*archs, toolkit=toolkit)} if archs else {})


def wheel(data: bytes, *, requires: str = "", **more: bytes) -> Make:
    metadata = METADATA + (f"Requires-Dist: {requires}\n" if requires else "")
    files = {EXTENSION: data} | {f"demo/{name}.so": content for name, content in more.items()}
    return made(files=files, metadata=metadata)


@pytest.mark.parametrize(
    ("majors", "names"),
    [
        ("11", "libcudart.so.11.0 libnvrtc.so.11.2 libcupti.so.11.8 libcufft.so.10 libcusparse.so.11 cudart64_110.dll"),
        ("11", "nvrtc64_112_0.dll cusparse64_11.dll cufft64_10.dll nvrtc-builtins64_118.dll"),
        ("12", "libcudart.so.12 libcublasLt.so.12 libcufft.so.11 libcufftMp.so.11 libnppc.so.12 libnvjpeg.so.12"),
        ("12", "libcupti.so.12 libnvrtc-builtins.so.12.9 CUBLASLT64_12.dll nvJitLink_120_0.dll nppif64_12.dll"),
        (
            "13",
            "libcufft.so.12 libcufftw.so.12 libcusolverMg.so.12 libnvfatbin.so.13 nvfatbin_130_0.dll cupti64_13.dll",
        ),
        ("11 12", "libcusolver.so.11 cusolver64_11.dll"),
        ("12 13", "libcusparse.so.12 cusparse64_12.dll"),
        (
            "",
            "libcurand.so.10 libcufile.so.0 libcuda.so.1 libcudnn.so.9 libnvvm.so.4 cupti64_2025.1.0.dll cudnn64_9.dll",
        ),
        ("", "libcufft.so.9 libcudart-1a2b3c4d.so.12.8.57 libcudart.so.99999 libmycudart.so.12 cudart.dll"),
    ],
)
def test_which_cuda_has_a_library(majors: str, names: str) -> None:
    assert {name: " ".join(cuda_majors(name)) for name in names.split()} == dict.fromkeys(names.split(), majors)


GOOD: dict[str, tuple[Make, ExpectedWheel]] = {
    "as promised": (wheel(cuda(*ARCHS)), CUDA),
    "not promised": (wheel(cuda(*ARCHS)), ExpectedWheel()),
    "architectures spread over objects": (wheel(cuda("sm_80"), other=cuda("sm_90", "compute_90")), CUDA),
    "one object without": (wheel(cuda(*ARCHS), other=shared_object()), CUDA),
    "newer PTX of the same CUDA": (wheel(cuda(*ARCHS, isa=(8, 5))), CUDA),
    "libraries of CUDA alone": (wheel(cuda()), ExpectedWheel(cuda="12.8.1")),
    "compiled at run time": (wheel(shared_object()), ExpectedWheel(cuda="13.0.3")),
    "real": (
        wheel(real("variants")),
        ExpectedWheel(device_archs=("sm_90a", "sm_100f", "sm_103a", "compute_90a", "compute_100f"), cuda="13.0.3"),
    ),
    "real, without section headers": (
        wheel(real("headerless")),
        ExpectedWheel(device_archs=("sm_80", "sm_90", "compute_80", "compute_90"), cuda="13.0.3"),
    ),
    "grafted library with its own architectures": (
        made(
            files={
                EXTENSION: cuda(*ARCHS, needed=["libfast-1a2b3c4d.so.1"]),
                "demo.libs/libfast-1a2b3c4d.so.1": cuda("sm_70", toolkit=118),
            },
            metadata=METADATA,
        ),
        CUDA,
    ),
    "for Windows": (
        windows(pyd("sm_80"), other=image(imports=(), sections={"__nv_rel": for_archs("sm_90", "compute_90")})),
        replace(CUDA, platform="windows/amd64"),
    ),
    "no CUDA at all": (write_wheel, ExpectedWheel(platform="linux/amd64")),
    "device code beside": (
        made(
            files={EXTENSION: shared_object(needed=RUNTIME), "demo/kernels.fatbin": for_archs("sm_80")},
            metadata=METADATA,
        ),
        ExpectedWheel(),
    ),
    "driver with libcuda": (
        wheel(cuda(*ARCHS, needed=[*RUNTIME, "libcuda.so.1"], wanted=["cuTensorMapEncodeTiled"])),
        CUDA,
    ),
    "driver through a library of the wheel": (
        wheel(
            cuda(*ARCHS, needed=["other.so"], wanted=["cuLaunchKernel"]), other=shared_object(needed=["libcuda.so.1"])
        ),
        CUDA,
    ),
    "driver's functions defined by a library of the wheel": (
        wheel(
            cuda(*ARCHS, needed=["other.so"], wanted=["cuLaunchKernel"]),
            other=shared_object(defined=["cuLaunchKernel"]),
        ),
        CUDA,
    ),
    "other libraries' functions": (
        wheel(
            cuda(
                *ARCHS,
                needed=[*RUNTIME, "libcublas.so.12", "libcufile.so.0", "libcurand.so.10"],
                wanted=[
                    "cudaLaunchKernel",
                    "cublasCreate_v2",
                    "cuFileRead",
                    "curandCreateGenerator",
                    "PyModule_Create2",
                ],
            )
        ),
        CUDA,
    ),
    "paths that hold anywhere": (
        wheel(cuda(*ARCHS, runpath="$ORIGIN:$ORIGIN/lib:${ORIGIN}/../nvidia/cu13/lib:$ORIGIN/../demo.libs")),
        CUDA,
    ),
    "torch, pinned": (wheel(cuda(*ARCHS, needed=TORCH), requires="torch==2.11.*"), CUDA),
    "torch itself": (
        made(files={EXTENSION: shared_object(needed=["libtorch.so"]), "demo/lib/libtorch.so": shared_object()}),
        ExpectedWheel(),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_wheel_has_no_errors_and_no_warnings(name: str, tmp_path: Path) -> None:
    make, expected = GOOD[name]
    findings = audit_wheel(make(tmp_path), expected).findings
    unlinked = UNLINKED if name.startswith("real") else set()
    assert {finding.check for finding in findings if finding.severity is not Severity.INFO} <= unlinked
    assert {finding.check for finding in findings} <= {"device-toolkit", "bundled-library"} | unlinked


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
DEBUG = {".debug_info": bytes(2_000_000), ".debug_line": bytes(500_000), ".symtab": b""}


def defect(
    check: str, make: Make, message: str, severity: Severity = ERROR, *, expected: ExpectedWheel = CUDA
) -> tuple[str, Make, str, Severity, ExpectedWheel]:
    return check, make, message, severity, expected


DEFECTS = {
    "no device code": defect("device-code-absent", wheel(cuda()), "expected sm_80, sm_90, compute_90"),
    "no device code, named for CUDA, no architectures promised": defect(
        "device-code-absent",
        made(filename="demo-1.0+cu128-cp311-cp311-manylinux_2_28_x86_64.whl"),
        "its name or version says CUDA",
        WARNING,
        expected=ExpectedWheel(cuda="12.8.1"),
    ),
    "runtime of another toolkit, no architectures promised": defect(
        "cuda-major",
        wheel(cuda(needed=["libcudart.so.12"])),
        "needs libcudart.so.12, which is CUDA 12's; expected CUDA 13.0.3",
        expected=ExpectedWheel(cuda="13.0.3"),
    ),
    "no device code, linked to the runtime": defect(
        "device-code-absent", wheel(cuda()), "libcudart.so.12", WARNING, expected=ExpectedWheel()
    ),
    "no device code, named for CUDA": defect(
        "device-code-absent",
        made(filename="demo-1.0+cu130torch2.11-cp311-cp311-manylinux_2_28_x86_64.whl"),
        "its name or version says CUDA",
        WARNING,
        expected=ExpectedWheel(),
    ),
    "only a grafted library has device code": defect(
        "device-code-absent",
        made(files={EXTENSION: shared_object(), "demo.libs/libfast-1a2b3c4d.so.1": cuda(*ARCHS)}, metadata=METADATA),
        "has no device code",
    ),
    "no device code for Windows, linked to the runtime": defect(
        "device-code-absent", windows(pyd()), "it needs cudart64_12.dll", WARNING, expected=ExpectedWheel()
    ),
    "runtime of another toolkit on Windows": defect(
        "cuda-major",
        windows(pyd("sm_80", needed=["cudart64_110.dll"])),
        "needs cudart64_110.dll, which is CUDA 11's; expected CUDA 13.0.3",
        expected=ExpectedWheel(cuda="13.0.3"),
    ),
    "damaged code for Windows": defect(
        "device-unreadable",
        windows(image(sections={".nv_fatb": b"nothing of CUDA"})),
        "no fat binary",
        WARNING,
        expected=ExpectedWheel(),
    ),
    "library of two other releases": defect(
        "cuda-major",
        wheel(cuda(*ARCHS, needed=["libcusolver.so.11"])),
        "needs libcusolver.so.11, which is CUDA 11 or 12's; expected CUDA 13.0.3",
        expected=ExpectedWheel(cuda="13.0.3"),
    ),
    "one architecture missing": defect(
        "device-arch-missing",
        wheel(cuda("sm_80", "compute_90")),
        "has no device code for sm_90; there is sm_80, compute_90",
    ),
    "PTX missing": defect("device-arch-missing", wheel(cuda("sm_80", "sm_90")), "no device code for compute_90"),
    "sm_90 is not sm_90a": defect(
        "device-arch-missing",
        wheel(cuda("sm_90")),
        "no device code for sm_90a",
        expected=ExpectedWheel(device_archs=("sm_90", "sm_90a")),
    ),
    "architecture nobody asked for": defect(
        "device-arch-unasked",
        wheel(cuda(*ARCHS, "sm_75")),
        "has device code for sm_75 (0.00 MB), expected sm_80, sm_90, compute_90",
    ),
    "unknown kind": defect(
        "device-arch-unasked",
        wheel(cuda(sections={".nv_fatbin": for_archs(*ARCHS) + fatbin(entry(64, 90))})),
        "kind64_90",
    ),
    "machine code of another toolkit": defect(
        "device-toolkit",
        wheel(cuda(*ARCHS, toolkit=118)),
        "expected CUDA 12.8.1, but it has a tool of CUDA 11.8, which is CUDA 11's",
        WARNING,
    ),
    "PTX of another toolkit": defect("device-toolkit", wheel(cuda(*ARCHS, isa=(9, 0))), "PTX ISA 9.0", WARNING),
    "runtime of another toolkit": defect(
        "cuda-major", wheel(cuda(*ARCHS, needed=["libcudart.so.13"])), "libcudart.so.13, which is CUDA 13's"
    ),
    "old runtime": defect("cuda-major", wheel(cuda(*ARCHS, needed=["libcudart.so.11.0"])), "is CUDA 11's"),
    "what the file tells": defect(
        "device-toolkit",
        wheel(real("lz4")),
        "its device code comes from PTX ISA 9.0, a tool of CUDA 13.0.88",
        INFO,
        expected=ExpectedWheel(),
    ),
    "damaged fat binary": defect(
        "device-unreadable",
        wheel(cuda(sections={".nv_fatbin": for_archs(*ARCHS)[:-8]})),
        "no fat binary at offset",
        WARNING,
        expected=ExpectedWheel(),
    ),
    "damaged entry": defect(
        "device-unreadable",
        wheel(cuda(sections={".nv_fatbin": for_archs(*ARCHS) + fatbin(entry(ELF, 0))})),
        "contradicts itself",
        WARNING,
    ),
    "empty stub of libcuda": defect(
        "driver-not-needed",
        wheel(cuda(*ARCHS, wanted=["cuTensorMapEncodeTiled"])),
        "calls cuTensorMapEncodeTiled, but nothing it needs is libcuda.so.1",
    ),
    "empty stub, many functions": defect(
        "driver-not-needed",
        wheel(shared_object(wanted=["cuInit", "cuCtxGetDevice", "cuMemAlloc_v2", "cuLaunchKernel", "cuMemFree_v2"])),
        "calls cuCtxGetDevice, cuInit, cuLaunchKernel and 2 more",
        expected=ExpectedWheel(),
    ),
    "libcuda needed by an object out of reach": defect(
        "driver-not-needed",
        wheel(cuda(*ARCHS, wanted=["cuInit"]), other=shared_object(needed=["libcuda.so.1"])),
        "calls cuInit",
    ),
    "absolute RUNPATH": defect(
        "rpath-absolute",
        wheel(cuda(*ARCHS, runpath="$ORIGIN:/usr/local/cuda-12.8/lib64")),
        "its RUNPATH has '/usr/local/cuda-12.8/lib64', which is absolute",
    ),
    "absolute RPATH": defect("rpath-absolute", wheel(cuda(*ARCHS, rpath="/build/lib")), "its RPATH has"),
    "path out of the installation": defect(
        "rpath-absolute",
        wheel(cuda(*ARCHS, runpath="$ORIGIN/../../lib")),
        "outside the folder that wheels are unpacked into",
    ),
    "relative path": defect("rpath-absolute", wheel(cuda(*ARCHS, runpath="lib")), "relative to the current folder"),
    "empty path": defect("rpath-absolute", wheel(cuda(*ARCHS, runpath="$ORIGIN:")), "relative to the current"),
    "debug information": defect(
        "not-stripped", wheel(cuda(*ARCHS, sections=DEBUG)), "has 2.50 MB of debug information in 2.50 MB", INFO
    ),
    "symbol table": defect("not-stripped", wheel(cuda(*ARCHS, sections={".symtab": b""})), "has a symbol table", INFO),
    "torch without a requirement": defect(
        "framework-pin",
        wheel(cuda(*ARCHS, needed=TORCH), requires="numpy"),
        "needs libc10.so, but does not require torch",
    ),
    "torch without a requirement, not promised": defect(
        "framework-pin",
        wheel(shared_object(needed=TORCH), requires="torchvision"),
        "does not require torch",
        WARNING,
        expected=ExpectedWheel(),
    ),
    "torch of any release": defect(
        "framework-pin", wheel(cuda(*ARCHS, needed=TORCH), requires="Torch"), "accepts any torch", WARNING
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found_with_its_id(name: str, tmp_path: Path) -> None:
    check, make, message, severity, expected = DEFECTS[name]
    report = audit_wheel(make(tmp_path), expected)
    found = [finding for finding in report.findings if (finding.check, finding.severity) == (check, severity)]
    assert message in "\n".join(finding.message for finding in found)
    # The renamed wheel contradicts its METADATA, and a missing fat binary leaves its architectures missing.
    consequences = {"device-toolkit", "bundled-library", "metadata-version", "device-code-absent", *UNLINKED}
    assert {finding.check for finding in report.findings} - consequences <= {check}


def test_each_architecture_that_is_missing_is_one_finding(tmp_path: Path) -> None:
    report = audit_wheel(wheel(cuda("sm_70"))(tmp_path), CUDA)
    missing = [finding.message for finding in report.findings if finding.check == "device-arch-missing"]
    assert [message.split(";")[0] for message in missing] == [
        f"has no device code for {arch}" for arch in ("sm_80", "sm_90", "compute_90")
    ]


def test_a_variant_keeps_the_promise_of_its_architecture_but_its_ptx_does_not(tmp_path: Path) -> None:
    findings = audit_wheel(wheel(cuda("sm_80", "sm_90a", "compute_90"))(tmp_path), CUDA).findings
    told = [(finding.severity, finding.message) for finding in findings if finding.check.startswith("device-arch")]
    assert told == [(INFO, "has sm_90a for sm_90, which other GPUs of its family may not run")]
    findings = audit_wheel(wheel(cuda(*ARCHS[:2], "compute_90a"))(tmp_path), CUDA).findings
    checks = {finding.check for finding in findings if finding.severity is ERROR}
    assert checks == {"device-arch-missing", "device-arch-unasked"}


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.so")))
def test_real_files_pass_for_exactly_what_they_hold(name: str, tmp_path: Path) -> None:
    path = wheel(real(name))(tmp_path)
    (found,) = audit_wheel(path).objects
    expected = ExpectedWheel(device_archs=found.device_code.archs)
    # The relocatable one is as nvcc -rdc=true leaves it, without the device link.
    unlinked = UNLINKED | ({"device-link"} if "relocatable" in name else set())
    assert {item.check for item in audit_wheel(path, expected).findings} <= {"device-toolkit"} | unlinked
    for arch in expected.device_archs:
        rest = tuple(other for other in expected.device_archs if other != arch)
        failed = {finding.check for finding in audit_wheel(path, replace(expected, device_archs=rest)).findings}
        assert "device-arch-unasked" in failed or not rest


@pytest.mark.parametrize(
    ("several", "pins"),
    [
        (False, ["torch==2.11.*"]),
        (False, ["torch==2.11.0"]),
        (False, ["torch==2.11.0+cu130"]),
        (False, ["torch===2.11.0+cu130"]),
        (False, ["torch==2.11.0.dev20260101"]),
        (False, ["torch~=2.11.0"]),
        (False, ["torch>=2.11,<2.12"]),
        (False, ["torch>=2.11.1,!=2.11.3,<=2.11.99"]),
        (False, ["torch @ https://example.org/torch-2.11.0-py3-none-any.whl"]),
        (False, ["torch", "torch==2.11.*"]),
        (False, ["torch>=2.11", "torch<2.12"]),
        (False, ["torch>=2.11", "torch<2.12; python_version>'3.8'"]),
        (True, ["torch"]),
        (True, ["torch>=2.11"]),
        (True, ["torch>=2.9,<3"]),
        (True, ["torch>=2.10,<2.13"]),
        (True, ["torch>=2.10,!=2.11.*,<2.13"]),
        (True, ["torch>2.10,<2.12"]),
        (True, ["torch<=2.11"]),
        (True, ["torch<3"]),
        (True, ["torch==2.*"]),
        (True, ["torch~=2.11"]),
        (True, ["torch!=2.10.*"]),
        (True, ["torch", "torch>=2.9; python_version>'3.8'"]),
    ],
)
def test_a_pin_takes_releases_of_one_minor(several: bool, pins: list[str], tmp_path: Path) -> None:
    lines = "".join(f"Requires-Dist: {pin}\n" for pin in pins)
    call = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    data = cuda(*ARCHS, needed=TORCH, wanted=[call])
    path = write_wheel(tmp_path, files={EXTENSION: data}, metadata=METADATA + lines)
    found = [item for item in audit_wheel(path, CUDA).findings if item.check == "framework-pin"]
    assert [item.severity for item in found] == ([ERROR] if several else [])


@pytest.mark.parametrize(
    ("expected", "hint"),
    [
        (replace(CUDA, requires=("numpy", "torch==2.9.*")), "require torch==2.9.*: torch's C++ interface changes"),
        (replace(CUDA, requires=("torch>=2.10",), torch_abi="2.10"), "require torch>=2.10"),
        (CUDA, "require the minor release it was built with (torch==X.Y.*)"),
    ],
)
def test_the_advice_names_the_pin_of_the_recipe(expected: ExpectedWheel, hint: str, tmp_path: Path) -> None:
    path = write_wheel(tmp_path, files={EXTENSION: cuda(*ARCHS, needed=TORCH)}, metadata=METADATA)
    (finding,) = [item for item in audit_wheel(path, expected).findings if item.check == "framework-pin"]
    assert finding.hint.startswith(hint)


@pytest.mark.parametrize(
    ("names", "abi"),
    [
        (["_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"], "cxx11"),
        (["_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "_ZN5torch3jit4loadERKSs"], "old"),
        (["_ZN5torch3jit4loadERKSs", "_ZNSt7__cxx1112basic_stringIcE"], "mixed"),
        # The part of libstdc++ that Red Hat's toolset links in.
        (["_ZNSs4_Rep20_S_empty_rep_storageE", "_ZNSt13runtime_errorC1ERKSs"], ""),
        (["PyInit__core"], ""),
    ],
)
def test_the_abi_of_strings(names: list[str], abi: str) -> None:
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    assert read_symbols(b"", strings, b"", (), Budget.of(len(strings)), wide=True, little_endian=True).cxx_abi == abi


def _read(info: int, section: int = 0, number: int = 1) -> Symbols:
    """Read a table with one symbol, ``cuInit``."""
    table = bytes(24) + struct.pack("<IBBHQQ", 1, info, 0, section, 0, 0)
    needs = [VersionNeed("libcuda.so.1", "V1", 2)]
    return read_symbols(
        table, b"\0cuInit\0", struct.pack("<HH", 0, number), needs, Budget.of(8), wide=True, little_endian=True
    )


def test_weak_symbols_may_stay_undefined() -> None:
    assert _read(0x22).undefined == {}
    assert _read(0x12).undefined == {"cuInit": ""}


def test_a_version_says_whose_a_symbol_is() -> None:
    assert _read(0x12, number=2).undefined == {"cuInit": "libcuda.so.1"}


def test_what_an_object_defines_is_known_by_name() -> None:
    asked = {hash(name): name for name in ("cuInit", "cuExit")}
    assert _read(0x12, section=7).provides(asked) == {"cuInit"}
    assert _read(0x22, section=7).provides(asked) == {"cuInit"}
    assert _read(0x02, section=7).provides(asked) == frozenset()


def test_names_that_share_their_bytes_keep_no_reader_busy() -> None:
    strings = b"\0" + b"x" * 60_000 + b"\0"
    table = b"".join(struct.pack("<IBBHQQ", 1 + number % 9, 0x12, 0, 0, 0, 0) for number in range(50_000))
    began = time.monotonic()
    assert (
        len(read_symbols(table, strings, b"", (), Budget.of(len(strings)), wide=True, little_endian=True).undefined) < 9
    )
    assert time.monotonic() - began < 5


def _text(renderable: object) -> str:
    out = StringIO()
    Console(file=out, width=100, color_system=None).print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (cuda("sm_90", "sm_80", "compute_90"), "sm_80 sm_90 + PTX 8.7 for compute_90 (0.00 MB)"),
        (cuda("compute_80", "compute_90"), "PTX 8.7 for compute_80 compute_90 (0.00 MB)"),
        (real("variants"), "sm_90a sm_100f sm_103a + PTX 9.0 for compute_90a compute_100f (0.02 MB)"),
        (real("relocatable"), "sm_90 lto_90 (0.00 MB)"),
    ],
)
def test_the_architectures_are_one_line_for_people(data: bytes, line: str, tmp_path: Path) -> None:
    assert f"  device code  {line}\n" in _text(render(audit_wheel(wheel(data)(tmp_path))))


def test_no_line_without_device_code(tmp_path: Path) -> None:
    assert "device code" not in _text(render(audit_wheel(write_wheel(tmp_path))))


def _report(folder: Path, make: Make) -> WheelReport:
    folder.mkdir()
    return audit_wheel(make(folder))


def test_the_same_wheel_has_no_changes(tmp_path: Path) -> None:
    one, two = (_report(tmp_path / name, wheel(cuda(*ARCHS))) for name in ("old", "new"))
    assert compare(one, two) == ()
    assert _text(render_changes(compare(one, two))) == "  nothing changed\n"


def test_what_changed_since_an_older_wheel(tmp_path: Path) -> None:
    grafted = shared_object(soname="libz.so.1")
    old = _report(
        tmp_path / "old",
        made(
            files={EXTENSION: cuda("sm_80"), "demo/gone.so": shared_object(), "demo.libs/libz-00000000.so.1": grafted},
            metadata=METADATA + "Requires-Dist: torch==2.10.*\n",
        ),
    )
    new = _report(
        tmp_path / "new",
        made(
            "cp311-abi3-manylinux_2_28_x86_64",
            files={
                EXTENSION: cuda("sm_80", "sm_90", needed=["libcudart.so.13", "libc.so.6"]),
                "demo.libs/libz-11111111.so.1": grafted,
            },
            metadata=METADATA + "Requires-Dist: torch==2.11.*\nRequires-Python: >=3.11\n",
            filename="demo-1.1-cp311-abi3-manylinux_2_28_x86_64.whl",
        ),
    )
    changes = compare(old, new)
    by_subject = {
        subject: [(change.old, change.new) for change in changes if change.subject == subject]
        for subject in ("version", "tags", "device code", "libraries", "requirements")
    }
    assert by_subject == {
        "version": [("demo-1.0", "demo-1.1")],
        "tags": [("cp311", ""), ("", "abi3")],
        "device code": [("", "sm_90")],
        "libraries": [("libcudart.so.12", ""), ("", "libcudart.so.13")],
        "requirements": [("torch==2.10.*", ""), ("", "Python >=3.11"), ("", "torch==2.11.*")],
    }
    objects = {change.file: change.bytes for change in changes if change.subject == "object"}
    assert objects == {EXTENSION: new.objects[0].size - old.objects[0].size, "demo/gone.so": -old.objects[1].size}
    assert [change.bytes for change in changes if change.subject == "size"] == [new.size - old.size]
    assert asdict(changes[0]) == {"subject": "version", "file": "", "old": "demo-1.0", "new": "demo-1.1", "bytes": 0}


def test_the_changes_for_people() -> None:
    changes = (
        Change("size", "1.00 MB", "2.50 MB", bytes=1_500_000),
        Change("object", "", "1.00 MB", "demo/\x1b[31m.so", 1_000_000),
        Change("device code", "sm_70", ""),
    )
    assert _text(render_changes(changes)) == (
        "  size         1.00 MB -> 2.50 MB (+1,500,000 bytes)\n"
        "  object       demo/\\x1b[31m.so: + 1.00 MB\n"
        "  device code  - sm_70\n"
    )


def old(**more: Any) -> bytes:
    return cuda("sm_70", "sm_80", toolkit=124, isa=(8, 4), needed=RUNTIME, **more)


def new(**more: Any) -> bytes:
    return cuda("sm_80", "sm_90", toolkit=130, isa=(9, 0), needed=("libcudart.so.13", "libc.so.6"), **more)


FOLDERS = ExpectedWheel(
    folders=(
        ExpectedFolder("src/demo/cu12", ("sm_70", "sm_80"), "12.4.1"),
        ExpectedFolder("src/demo/cu13", ("sm_80", "sm_90"), "13.0.3"),
    )
)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"cu12": old(), "cu13": new()}, []),
        (
            {"cu12": new(), "cu13": old()},
            [
                ("device-arch-missing", "demo/cu12", "has no device code for sm_70; there is sm_80, sm_90"),
                ("device-arch-unasked", "demo/cu12", "has device code for sm_90"),
                ("cuda-major", "demo/cu12/lib.so", "needs libcudart.so.13, which is CUDA 13's; expected CUDA 12.4.1"),
                ("device-arch-missing", "demo/cu13", "has no device code for sm_90; there is sm_70, sm_80"),
                ("device-arch-unasked", "demo/cu13", "has device code for sm_70"),
                ("cuda-major", "demo/cu13/lib.so", "needs libcudart.so.12, which is CUDA 12's; expected CUDA 13.0.3"),
            ],
        ),
        (
            {"cu12": old(), "cu13": cuda("sm_90", toolkit=130, isa=(9, 0), needed=("libcudart.so.13",))},
            [("device-arch-missing", "demo/cu13", "has no device code for sm_80; there is sm_90")],
        ),
        (
            {"cu12": old(), "other": new()},
            [("device-folder-absent", "src/demo/cu13", "no shared object is in the folder for CUDA 13.0.3")],
        ),
        (
            {"cu12": old(), "cu13": shared_object()},
            [
                ("device-arch-missing", "demo/cu13", "has no device code for sm_80; there is none"),
                ("device-arch-missing", "demo/cu13", "has no device code for sm_90; there is none"),
            ],
        ),
    ],
    ids=["right", "exchanged", "a GPU is missing", "a folder is missing", "no device code in one"],
)
def test_each_folder_has_the_code_of_its_own_cuda(
    files: Mapping[str, bytes], found: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    path = write_wheel(tmp_path, files={f"demo/{name}/lib.so": data for name, data in files.items()}, metadata=METADATA)
    report = audit_wheel(path, FOLDERS)
    errors = [item for item in report.findings if item.severity is ERROR and item.check.startswith(("device", "cuda"))]
    assert [(item.check, item.file) for item in errors] == [(check, file) for check, file, _ in found]
    assert all(item.message.startswith(text) for item, (*_, text) in zip(errors, found, strict=True))
