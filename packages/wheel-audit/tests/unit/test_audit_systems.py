"""Wheels for macOS and Windows: each planted defect is found under its id, good wheels have no finding."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from elfs import shared_object
from fatbins import for_archs
from machos import SYSTEM, thin, universal
from pes import image
from wheels import Make, made, write_wheel

from wheel_audit.auditor import audit_wheel
from wheel_audit.binary import UnreadableBinary
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity
from wheel_audit.limits import Budget
from wheel_audit.macho import read_macho
from wheel_audit.pe import read_pe
from wheel_audit.systems import is_system_library
from wheel_audit.tools import AuditwheelReport, ToolResults

ARM = "cp311-cp311-macosx_11_0_arm64"
BOTH = "cp311-cp311-macosx_10_9_universal2"
WIN = "cp311-cp311-win_amd64"
MODULE, PYD = "demo/_core.cpython-311-darwin.so", "demo/_core.cp311-win_amd64.pyd"
ON_MAC = ExpectedWheel(name="demo", version="1.0", python="3.11", platform="macos/arm64", excludes=("libfoo*.dylib",))
ON_WINDOWS = ExpectedWheel(name="demo", version="1.0", python="3.11", platform="windows/amd64", excludes=("foo*.dll",))


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults())
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())


def mac(data: bytes, tag: str = ARM, **more: bytes) -> Make:
    return made(tag, {MODULE: data, **{name.replace("__", "/") + ".dylib": item for name, item in more.items()}})


def windows(data: bytes, tag: str = WIN, more: Mapping[str, bytes] | None = None) -> Make:
    return made(tag, {PYD: data, **(more or {})})


BUNDLED = thin(kind="library", name="/DLC/demo/.dylibs/libz.1.dylib")
GOOD: dict[str, tuple[Make, ExpectedWheel]] = {
    "module": (mac(thin()), ON_MAC),
    "told the old way": (mac(thin(old=True)), ON_MAC),
    "universal code in a thin wheel": (mac(universal(thin("x86_64"), thin())), ON_MAC),
    "universal": (mac(universal(thin("x86_64", floor=(10, 9)), thin()), BOTH), ON_MAC),
    "universal under Intel's expected": (
        mac(universal(thin("x86_64", floor=(10, 9), signed=False), thin()), BOTH),
        ExpectedWheel(platform="macos/amd64", plat="macosx_10_13_x86_64"),
    ),
    "older than promised": (mac(thin()), ExpectedWheel(platform="macos/arm64", plat="macosx_12_0_arm64")),
    "bundled": (
        made(
            ARM,
            {MODULE: thin(needed=(SYSTEM, "@loader_path/.dylibs/libz.1.dylib")), "demo/.dylibs/libz.1.dylib": BUNDLED},
        ),
        ON_MAC,
    ),
    "by search path": (
        made(
            ARM,
            {
                MODULE: thin(needed=("@rpath/libz.1.dylib",), rpaths=("@loader_path/lib",)),
                "demo/lib/libz.1.dylib": BUNDLED,
            },
        ),
        ON_MAC,
    ),
    "excluded": (mac(thin(needed=(SYSTEM, "@rpath/libfoo.3.dylib"))), ON_MAC),
    "torch's": (mac(thin(needed=(SYSTEM, "@rpath/libtorch_cpu.dylib"))), ON_MAC),
    "may be missing": (mac(thin(weak=("@rpath/libmaybe.dylib",))), ON_MAC),
    "object file": (made(ARM, {MODULE: thin(), "demo/x.o": thin("x86_64", kind="object")}), ON_MAC),
    "program for another machine": (made(ARM, {MODULE: thin(), "demo/tool": thin("x86_64", kind="program")}), ON_MAC),
    "pyd": (windows(image()), ON_WINDOWS),
    "stable ABI": (
        made("cp39-abi3-win_amd64", {"demo/_core.pyd": image(imports=("python3.dll", "KERNEL32.dll"))}),
        ExpectedWheel(python="3.13", abi3=True, platform="windows/amd64"),
    ),
    "on arm": (
        made("cp311-cp311-win_arm64", {"demo/_core.cp311-win_arm64.pyd": image("arm64")}),
        ExpectedWheel(platform="windows/arm64"),
    ),
    "bundled runtime": (
        windows(image(imports=("MSVCP140-1a2b3c4d.dll",)), more={"demo.libs/msvcp140-1a2b3c4d.dll": image(imports=())}),
        ON_WINDOWS,
    ),
    "excluded DLL": (windows(image(imports=("FOO1.dll",), delayed=("nvcuda.dll",))), ON_WINDOWS),
    "helper for other processes": (
        windows(image(), more={"demo/run.exe": image("x86", library=False), "demo/other.pyd": image()}),
        ON_WINDOWS,
    ),
    "10.16 is 11.0": (mac(thin("x86_64")[:], "cp311-cp311-macosx_10_16_x86_64"), ExpectedWheel(platform="macos/amd64")),
    "DLLs of several Pythons": (
        made(
            "py3-none-win_amd64",
            {f"demo/_core.cp{python}-win_amd64.pyd": image(imports=(f"python{python}.dll",)) for python in (311, 312)},
        ),
        ExpectedWheel(platform="windows/amd64"),
    ),
    "its own Python": (
        made("py3-none-win_amd64", {"demo/x.dll": image(), "demo/python311.dll": image(imports=())}),
        ExpectedWheel(platform="windows/amd64"),
    ),
    ".NET": (windows(image(), more={"demo/net.dll": image("x86", imports=("mscoree.dll",), managed=True)}), ON_WINDOWS),
    "launcher in a pure wheel": (made("py3-none-any", {"demo/w64.exe": image(library=False)}), ExpectedWheel()),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_wheel_has_no_findings(name: str, tmp_path: Path) -> None:
    make, expected = GOOD[name]
    report = audit_wheel(make(tmp_path), expected)
    assert {finding.check for finding in report.findings} <= {"exclude-unused"}
    json.dumps(report.to_json())


DEFECTS: dict[str, tuple[str, Make, ExpectedWheel]] = {
    "Intel's code only": ("macho-machine", mac(thin("x86_64")), ON_MAC),
    "half of universal2": ("macho-machine", mac(thin(), BOTH), ON_MAC),
    "cut off": ("macho-unreadable", mac(thin()[:60]), ON_MAC),
    "code outside the file": ("macho-unreadable", mac(universal(thin(), thin("x86_64"))[:200]), ON_MAC),
    "ELF in a wheel for macOS": ("macho-foreign", mac(shared_object()), ON_MAC),
    "made for iOS": ("macho-system", mac(thin(platform=2)), ON_MAC),
    "no signature": ("macho-unsigned", mac(thin(signed=False)), ON_MAC),
    "newer than the tag": ("macos-floor", mac(thin(floor=(14, 0))), ON_MAC),
    "newer than the tag on Intel": (
        "macos-floor",
        mac(universal(thin("x86_64", floor=(10, 15)), thin()), BOTH),
        ON_MAC,
    ),
    "newer than promised": (
        "promised-plat",
        mac(thin(), "cp311-cp311-macosx_13_0_arm64"),
        ExpectedWheel(plat="macosx_12_0_arm64"),
    ),
    "Intel's tag in arm's cell": ("promised-platform", made("cp311-cp311-macosx_11_0_x86_64", {}), ON_MAC),
    "Homebrew's library": ("dylib-absolute", mac(thin(needed=("/opt/homebrew/lib/libomp.dylib",))), ON_MAC),
    "library left behind": ("dylib-missing", mac(thin(needed=("@rpath/libomp.dylib",))), ON_MAC),
    "library moved": ("dylib-missing", mac(thin(needed=("@loader_path/lib/libomp.dylib",))), ON_MAC),
    "search path of the build machine": ("dylib-rpath", mac(thin(rpaths=("/Users/me/build",))), ON_MAC),
    "Python's framework": (
        "python-linked",
        mac(thin(needed=("/Library/Frameworks/Python.framework/Versions/3.11/Python",))),
        ON_MAC,
    ),
    "libpython": ("python-linked", mac(thin(needed=("@rpath/libpython3.11.dylib",))), ON_MAC),
    "excluded and bundled": (
        "bundled-library",
        made(ARM, {MODULE: thin(), "demo/.dylibs/libfoo.1.dylib": BUNDLED}),
        ON_MAC,
    ),
    "module of another Python": ("extension-abi", made(ARM, {"demo/_core.cpython-310-darwin.so": thin()}), ON_MAC),
    "Mach-O under any": ("any-tag", made("py3-none-any", {"demo/lib.dylib": thin(kind="library")}), ON_MAC),
    "x86 DLL": ("pe-machine", windows(image("x86")), ON_WINDOWS),
    "arm's wheel with amd64's code": (
        "pe-machine",
        made("cp311-cp311-win_arm64", {"demo/_core.cp311-win_arm64.pyd": image()}),
        ExpectedWheel(platform="windows/arm64"),
    ),
    "cut off PE": ("pe-unreadable", windows(image()[:0x420]), ON_WINDOWS),
    "Mach-O in a wheel for Windows": ("pe-foreign", windows(thin()), ON_WINDOWS),
    "Windows of the future": ("windows-floor", windows(image(floor=(11, 0))), ON_WINDOWS),
    "debugging runtime": ("debug-runtime", windows(image(imports=("VCRUNTIME140D.dll",))), ON_WINDOWS),
    "debugging C library": ("debug-runtime", windows(image(imports=("ucrtbased.dll",))), ON_WINDOWS),
    "debugging Python": ("debug-runtime", windows(image(imports=("python311_d.dll",))), ON_WINDOWS),
    "C++ runtime left behind": ("runtime-missing", windows(image(imports=("MSVCP140.dll",))), ON_WINDOWS),
    "OpenMP left behind": ("runtime-missing", windows(image(imports=("VCOMP140.DLL",))), ON_WINDOWS),
    "MinGW's runtime": ("dll-missing", windows(image(imports=("libgcc_s_seh-1.dll",))), ON_WINDOWS),
    "another Python's library": ("python-dll", windows(image(imports=("python312.dll",))), ON_WINDOWS),
    "not the stable ABI's library": (
        "python-dll",
        made("cp39-abi3-win_amd64", {"demo/_core.pyd": image()}),
        ExpectedWheel(platform="windows/amd64"),
    ),
    "one Python's library in a wheel for all": (
        "python-dll",
        made("py3-none-win_amd64", {"demo/_core.pyd": image()}),
        ExpectedWheel(platform="windows/amd64"),
    ),
    "pyd of another Python": ("extension-abi", made(WIN, {"demo/_core.cp310-win_amd64.pyd": image()}), ON_WINDOWS),
    "excluded DLL is bundled": (
        "bundled-library",
        windows(image(), more={"demo.libs/Foo1.dll": image(imports=())}),
        ON_WINDOWS,
    ),
    "pyd under any": ("any-tag", made("py3-none-any", {"demo/_core.pyd": image()}), ON_WINDOWS),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_an_error_with_its_id(name: str, tmp_path: Path) -> None:
    check, make, expected = DEFECTS[name]
    report = audit_wheel(make(tmp_path), expected)
    assert check in {finding.check for finding in report.findings if finding.severity is Severity.ERROR}


def test_without_a_promise_what_another_wheel_may_bring_only_warns(tmp_path: Path) -> None:
    path = mac(thin(needed=("@rpath/libomp.dylib",), rpaths=("/opt/lib",)))(tmp_path)
    assert {(f.check, f.severity) for f in audit_wheel(path).findings} == {
        ("dylib-missing", Severity.WARNING),
        ("dylib-rpath", Severity.WARNING),
    }
    path = windows(image(imports=("MSVCP140.dll", "zlib1.dll")))(tmp_path)
    assert {(f.check, f.severity) for f in audit_wheel(path).findings} == {
        ("runtime-missing", Severity.WARNING),
        ("dll-missing", Severity.WARNING),
    }


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("demo/cudart64_12.dll", Severity.INFO),
        ("demo/nvcuda.dll", Severity.ERROR),
        *(
            (f"demo.libs/{name}.dll", Severity.ERROR)
            for name in (
                *("nvJitLink_120_0", "nvrtc-builtins64_128", "nvfatbin_120_0", "cupti64_2025.1.0", "nppc64_12"),
                *("nvjpeg64_12", "nvvm64_40_0", "cublasLt64_12-1a2b3c4d5e6f708192a3b4c5d6e7f809"),
            )
        ),
    ],
)
def test_known_libraries_in_a_wheel_for_windows(path: str, severity: Severity, tmp_path: Path) -> None:
    findings = audit_wheel(windows(image(), more={path: image(imports=())})(tmp_path)).findings
    assert [(f.check, f.severity) for f in findings] == [("bundled-library", severity)]


def test_what_is_only_a_warning(tmp_path: Path) -> None:
    for make, id in (
        (windows(image(), more={"demo/attach_x86.dll": image("x86", imports=())}), "pe-machine"),
        (mac(thin(), lib__attach=thin("x86_64", kind="library")), "macho-machine"),
        # No tag says 13.3.
        (mac(thin(floor=(13, 3)), "cp311-cp311-macosx_13_0_arm64"), "macos-floor"),
    ):
        assert [(f.check, f.severity) for f in audit_wheel(make(tmp_path)).findings] == [(id, Severity.WARNING)]


RIGHT_TAGS = [
    "cp312-cp312-macosx_11_0_arm64", "cp312-cp312-macosx_10_9_universal2",
    "cp312-cp312-macosx_10_9_x86_64.macosx_26_0_arm64", "cp39-abi3-macosx_10_16_x86_64",
    "cp27-cp27mu-manylinux1_x86_64", "cp36.cp37-cp36m.cp37m-macosx_10_6_intel", "cp312-none-win32",
    "cp315-abi3.abi3t-win_arm64", "pp310-pypy310_pp73-win_amd64", "py2.py3-none-musllinux_1_1_armv7l",
    "py312-none-any", "cp312-cp312-freebsd_14_2_release_amd64", "cp312-cp312-mingw_x86_64_ucrt",
    "cp313-cp313-ios_13_0_arm64_iphonesimulator", "cp313-cp313-android_24_arm64_v8a",
    "cp312-cp312-pyodide_2024_0_wasm32", "cp313-cp313t-manylinux_2_31_riscv64",
    "graalpy311-graalpy242_311_native-manylinux_2_28_x86_64", "cp312-cp312-linux_x86_64",
    "cp312-cp312d-win_amd64",
]  # fmt: skip
WRONG_TAGS = [
    "cp312-cp312-macosx_11_1_arm64", "cp312-cp312-macosx_10_9_arm64", "cp312-cp312-macosx_11_arm64",
    "cp312-cp312-macosx_arm64", "cp312-cp312-macos_11_0_arm64", "cp312-cp312-win64", "cp312-cp312-win_x86_64",
    "cp312-cp312-windows_amd64", "cp312-cp312-manylinux_x86_64", "cp312-cp312-manylinux2020_x86_64",
    "cp312-cp312-manylinux_2_28_arm64", "cp312-cp312-manylinux_2_28_amd64", "cp312-cp312-manylinux1_aarch64",
    "cp312-cp312-musllinux_x86_64", "cp312-cp312-android_x86_64", "py3-cp312-manylinux_2_28_x86_64",
    "cp312-cp311-win_amd64", "py39-abi3-win_amd64", "cp312-any-win_amd64",
]  # fmt: skip


@pytest.mark.parametrize("tag", [*RIGHT_TAGS, *WRONG_TAGS, "cp312-cp312-macosx_11_0_arm64.macosx_11_1_arm64"])
def test_tags_that_no_installer_takes(tag: str, tmp_path: Path) -> None:
    findings = audit_wheel(write_wheel(tmp_path, tag, {})).findings
    expected = [Severity.ERROR] if tag in WRONG_TAGS else [] if tag in RIGHT_TAGS else [Severity.WARNING]
    assert [item.severity for item in findings if item.check == "tag-refused"] == expected


@pytest.mark.parametrize(
    ("tag", "modules", "is_found"),
    [
        ("py3-none", ["cpython-312-x86_64-linux-gnu.so"], True),
        ("py2.py3-none", ["pypy310-pp73-x86_64-linux-gnu.so"], True),
        ("py3-none", ["cpython-311-x86_64-linux-gnu.so", "cpython-312-x86_64-linux-gnu.so"], False),
        # torch.ops.load_library takes it.
        ("py3-none", ["library.cpython-312-x86_64-linux-gnu.so"], False),
        ("py3-none", ["so"], False),
        ("py3-none", ["abi3.so"], False),
        ("cp312-none", ["cpython-312-x86_64-linux-gnu.so"], False),
    ],
)
def test_a_module_for_one_python_in_a_wheel_for_all(
    tag: str, modules: list[str], is_found: bool, tmp_path: Path
) -> None:
    files = {
        f"demo/_core.{suffix}": shared_object(defined=["PyInit__core"] * (not suffix.startswith("library")))
        for suffix in modules
    }
    path = write_wheel(tmp_path, f"{tag}-manylinux_2_28_x86_64", files)
    for expected, severity in ((ExpectedWheel(), Severity.WARNING), (ExpectedWheel(name="demo"), Severity.ERROR)):
        found = [item.severity for item in audit_wheel(path, expected).findings if item.check == "extension-abi"]
        assert found == [severity] * is_found


def test_facts_are_read(tmp_path: Path) -> None:
    data = universal(
        thin("x86_64", floor=(10, 13), signed=False),
        thin(
            kind="library", name="@rpath/libx.1.dylib", needed=(SYSTEM, "@rpath/liby.dylib"), rpaths=("@loader_path",)
        ),
    )
    found = read_macho("demo/libx.dylib", io.BytesIO(data), Budget.of(len(data)))
    assert found is not None
    assert found.machines == ("x86_64", "arm64")
    assert [part.floor for part in found.slices] == [(10, 13), (11, 0)]
    last = found.slices[1]
    assert (last.kind, last.system, last.install_name) == ("library", "macos", "@rpath/libx.1.dylib")
    assert (last.needed, last.rpaths) == ([SYSTEM, "@rpath/liby.dylib"], ["@loader_path"])
    assert [part.signed for part in found.slices] == [False, True]
    data = image("arm64", imports=("A.dll",), delayed=("B.dll", "C.dll"), floor=(6, 2))
    read = read_pe("demo/x.dll", io.BytesIO(data), Budget.of(len(data)))
    assert (read.machine, read.is_library, read.managed, read.floor) == ("arm64", True, False, (6, 2))
    assert (read.imports, read.delayed) == (("A.dll",), ("B.dll", "C.dll"))
    report = audit_wheel(mac(thin(needed=(SYSTEM, "@rpath/libtorch.dylib")))(tmp_path))
    assert report.external == ("@rpath/libtorch.dylib",)


@pytest.mark.parametrize(
    ("name", "brought"),
    [
        ("/usr/lib/libc++.1.dylib", True),
        ("/System/Library/Frameworks/Accelerate.framework/Versions/A/Accelerate", True),
        ("/usr/local/lib/libz.dylib", False),
        ("/System/Library/Frameworks/Python.framework/Versions/2.7/Python", False),
        ("KERNEL32.dll", True),
        ("api-ms-win-crt-heap-l1-1-0.dll", True),
        ("VCRUNTIME140_1.dll", True),
        ("vcruntime140d.dll", False),
        ("WINSPOOL.DRV", True),
        ("MSVCP140.dll", False),
        ("libstdc++-6.dll", False),
        ("ws2_32", False),
    ],
)
def test_what_systems_bring(name: str, brought: bool) -> None:
    assert is_system_library(name) is brought


@pytest.mark.parametrize("kind", ["thin", "universal", "pe"])
def test_no_damage_raises_anything_else_or_takes_long(kind: str) -> None:
    sound = {
        "thin": thin(needed=(SYSTEM, "@rpath/a.dylib"), rpaths=("@loader_path",), name="b"),
        "universal": universal(thin("x86_64"), thin()),
        "pe": image(delayed=("a.dll",), sections={".nv_fatb": for_archs("sm_80", "compute_90")}),
    }[kind]
    random = Random(0)
    read = read_pe if kind == "pe" else read_macho
    refused = 0
    for _ in range(4000):
        at, length = random.randrange(len(sound)), random.choice((1, 2, 4, 8))
        damaged = bytearray(sound)
        damaged[at : at + length] = random.choice((b"\xff", b"\0", b"\x7f", random.randbytes(1))) * length
        data = bytes(damaged[: random.choice((len(damaged), random.randrange(70, len(damaged))))])
        try:
            read("x", io.BytesIO(data), Budget.of(len(data)))
        except UnreadableBinary:
            refused += 1
    assert refused > 100
