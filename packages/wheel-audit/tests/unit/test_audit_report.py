"""The machine report, the text for people, and what is made of auditwheel's answer."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from elfs import shared_object
from rich.console import Console
from wheels import EXTENSION, write_wheel

from wheel_audit.auditor import WheelReport, audit_wheel
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity, warning
from wheel_audit.report import render
from wheel_audit.tag_reason import tag_reasons
from wheel_audit.tags import arch_of, parse_platform
from wheel_audit.text import printable
from wheel_audit.tools import AuditwheelReport, ToolResults, parse_auditwheel, run_auditwheel
from wheel_audit.wheel import original_soname

SHOWN = {
    "version": 1,
    "wheel": "demo.whl",
    "pure": False,
    "overall_tag": "linux_x86_64",
    "sym_tag": "manylinux_2_27_x86_64",
    "pyfpe": False,
    "ucs2": False,
    "unsupported_isa": False,
    "versioned_symbols": {"libc.so.6": ["GLIBC_2.27"]},
    "external_libs": {"libcublas.so.12": None, "libwidget.so.2": None},
    "policy_upgrades": {
        "manylinux_2_28_x86_64": {"libs_to_eliminate": ["libcublas.so.12", "libwidget.so.2"]},
        "manylinux_2_27_x86_64": {
            "libs_to_eliminate": ["libcublas.so.12"],
            "blacklisted_symbols": {"libz.so.1": ["inflate_fast"]},
        },
    },
}


def audited(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdict: AuditwheelReport | None = None,
    expected: ExpectedWheel | None = None,
    *,
    tag: str = "cp311-cp311-manylinux_2_28_x86_64",
) -> WheelReport:
    """Audit a wheel with one extension and one grafted library, with a given verdict of auditwheel."""
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: verdict or AuditwheelReport())
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults())
    files = {
        EXTENSION: shared_object(
            needed=["libz-0a1b2c3d.so.1", "libc.so.6"],
            versions={"libc.so.6": ["GLIBC_2.14", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.24"]},
            runpath="$ORIGIN/../demo.libs",
        ),
        "demo.libs/libz-0a1b2c3d.so.1": shared_object(soname="libz-0a1b2c3d.so.1"),
    }
    return audit_wheel(write_wheel(folder, tag, files), expected)


def shown(**changes: object) -> AuditwheelReport:
    return parse_auditwheel(json.dumps(SHOWN | changes), failure="")


def test_the_reason_of_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"libstdc++.so.6": ["CXXABI_1.3.13", "GLIBCXX_3.4.24"], "libc.so.6": ["GLIBC_2.17"]}
    monkeypatch.setattr(
        "wheel_audit.wheel.run_auditwheel",
        lambda path: shown(overall_tag="manylinux_2_34_x86_64", sym_tag="manylinux_2_34_x86_64", policy_upgrades={}),
    )
    files = {EXTENSION: shared_object(versions=versions), "demo/other.so": shared_object()}
    report = audit_wheel(write_wheel(tmp_path, "cp311-cp311-manylinux_2_34_x86_64", files))
    reason = f"CXXABI_1.3.13 in {EXTENSION}"
    assert report.to_json()["wheel"]["platform_tag_reasons"] == [reason]  # type: ignore[index]
    console = Console(width=200, record=True, file=StringIO())
    console.print(render(report))
    assert f"manylinux_2_34_x86_64 (because of {reason})" in console.export_text()


def test_a_wheel_that_auditwheel_cannot_tell_the_c_library_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # auditwheel 6.8.2, a module for the stable ABI that needs nothing of libc.
    said = "auditwheel.error.InvalidLibcError: couldn't detect libc for python extension demo/_core.abi3.so\n"
    done = CompletedProcess(["auditwheel"], 1, "", f"Traceback (most recent call last):\n{said}")
    monkeypatch.setattr("wheel_audit.tools._run", lambda *words: done)
    report = run_auditwheel(tmp_path / "demo.whl")
    assert (report.failure, report.skipped[:45]) == ("", "the wheel needs nothing of a C library, and i")


@pytest.mark.parametrize("tag", ["", "manylinux_2_5_x86_64", "musllinux_1_2_x86_64", "linux_x86_64"])
def test_no_reason(tag: str) -> None:
    assert tag_reasons(AuditwheelReport(overall=tag), ()) == ()


def test_the_machine_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = audited(tmp_path, monkeypatch, shown(overall_tag="manylinux_2_28_x86_64", policy_upgrades={}))
    said = json.loads(json.dumps(report.to_json()))
    assert said["version"] == 1
    assert said["ok"] is True
    wheel = said["wheel"]
    assert wheel["platform_tag"] == "manylinux_2_28_x86_64"
    assert wheel["size"] == report.path.stat().st_size
    assert (wheel["name"], wheel["version"], wheel["build"]) == ("demo", "1.0", "")
    assert wheel["tags"] == {"python": ["cp311"], "abi": ["cp311"], "platform": ["manylinux_2_28_x86_64"]}
    assert (wheel["requires_python"], wheel["requires_dist"]) == (">=3.9", [])
    assert said["objects"][0] == {
        "path": EXTENSION,
        "size": report.objects[0].size,
        "elf_class": 64,
        "machine": "x86_64",
        "soname": None,
        "needed": ["libz-0a1b2c3d.so.1", "libc.so.6"],
        "rpath": None,
        "runpath": "$ORIGIN/../demo.libs",
        "stripped": True,
        "debug_size": 0,
        "glibc": "2.28",
        "glibcxx": "3.4.24",
        "cxx_abi": "",
        "device_code": {"images": [], "defect": "", "section_size": 0},
    }
    assert [row["soname"] for row in said["bundled"]] == ["libz-0a1b2c3d.so.1"]
    assert said["external"] == ["libc.so.6"]
    assert (said["other_binaries"], said["findings"]) == ([], [])


def test_excluded_and_known_libraries_do_not_lower_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ExpectedWheel(plat="manylinux_2_28_x86_64", excludes=("libwidget.so.*",))
    findings = audited(tmp_path, monkeypatch, shown(), expected).findings
    assert [item.check for item in findings] == ["exclude-unused"]


@pytest.mark.parametrize(
    ("expected", "severity"), [(None, Severity.WARNING), (ExpectedWheel(platform="linux/amd64"), Severity.ERROR)]
)
def test_an_unknown_external_library(
    expected: ExpectedWheel | None, severity: Severity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = audited(tmp_path, monkeypatch, shown(), expected).findings
    assert (finding.check, finding.severity) == ("external-library", severity)
    assert finding.message == "needs libwidget.so.2, which manylinux_2_28_x86_64 does not promise"


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (shown(sym_tag="manylinux_2_31_x86_64", policy_upgrades={}), "by its symbols it is manylinux_2_31"),
        (shown(sym_tag="linux_x86_64", policy_upgrades={}), "by its symbols it is linux_x86_64"),
        (shown(unsupported_isa=True, policy_upgrades={}), "needs instructions beyond the platform's baseline"),
        (
            shown(policy_upgrades={"manylinux_2_28_x86_64": {"blacklisted_symbols": {"libz.so.1": ["inflate_fast"]}}}),
            "uses symbols that manylinux_2_28_x86_64 forbids: libz.so.1:inflate_fast",
        ),
        (parse_auditwheel('{"version": 1, "error": "no"}', failure="exit status 1"), "refuses the wheel: no"),
        (parse_auditwheel("", failure="exit status 1"), "refuses the wheel: exit status 1"),
        (parse_auditwheel('{"version": 2}', failure="exit status 0"), "refuses the wheel: exit status 0"),
    ],
)
def test_auditwheel_disagrees(
    verdict: AuditwheelReport, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = audited(tmp_path, monkeypatch, verdict).findings
    assert (finding.check, finding.severity) == ("auditwheel-policy", Severity.ERROR)
    assert message in finding.message


def test_where_auditwheel_cannot_run_its_check_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    report = audit_wheel(write_wheel(tmp_path))
    (finding,) = report.findings
    assert (finding.check, finding.severity) == ("auditwheel-policy", Severity.SKIPPED)
    assert report.ok


def test_auditwheel_is_never_shown_an_unsafe_archive(tmp_path: Path) -> None:
    report = audit_wheel(write_wheel(tmp_path, unlisted={"../evil.py": b""}))
    assert report.platform_tag is None
    assert "the archive is not safe to unpack" in {finding.message for finding in report.findings}


@pytest.mark.parametrize(
    ("text", "system", "libc", "arch"),
    [
        ("any", "any", None, ""),
        ("linux_aarch64", "linux", None, "aarch64"),
        ("manylinux1_i686", "manylinux", (2, 5), "i686"),
        ("manylinux2014_x86_64", "manylinux", (2, 17), "x86_64"),
        ("manylinux_2_28_x86_64", "manylinux", (2, 28), "x86_64"),
        ("musllinux_1_2_aarch64", "musllinux", (1, 2), "aarch64"),
        ("macosx_11_0_universal2", "macos", None, "universal2"),
        ("win_amd64", "windows", None, "amd64"),
        ("ios_13_0_arm64_iphoneos", "other", None, ""),
    ],
)
def test_platform_tags(text: str, system: str, libc: tuple[int, int] | None, arch: str) -> None:
    tag = parse_platform(text)
    assert (tag.system, tag.libc, tag.arch) == (system, libc, arch)


def test_names() -> None:
    assert arch_of("linux/amd64") == "x86_64"
    assert arch_of("linux/ppc64le") == "ppc64le"
    assert original_soname("libcudart-1b2c3d4e.so.12.8.57") == "libcudart.so.12.8.57"
    assert original_soname("libgcc_s.so.1") == "libgcc_s.so.1"
    assert printable("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"


GOLDEN = """\
demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl
  size      0.00 MB
  sha256    HASH
  tags      cp311-cp311-manylinux_2_28_x86_64 (Python >=3.9)
  binaries  2 for x86_64, glibc 2.28, GLIBCXX 3.4.24
  bundled   libz-0a1b2c3d.so.1 (0.0 MB)
  external  libc.so.6
  error [glibc-floor] demo/_core.cpython-311-x86_64-linux-gnu.so: needs glibc 2.28, the recipe
allows 2.17
    hint: build in an image with the older glibc, or allow the newer one
  error [glibcxx-floor] demo/_core.cpython-311-x86_64-linux-gnu.so: needs GLIBCXX 3.4.24, the recipe
allows 3.4.19
    hint: use the image's own gcc-toolset, or link with -static-libstdc++
  error [promised-plat] is tagged manylinux_2_28_x86_64, expected glibc 2.17 or older
  skipped [auditwheel-policy] auditwheel runs on Linux only
FAILED  demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl  (3 errors, 1 skipped)
"""


def _text(report: WheelReport, width: int, *, verbose: bool = False) -> str:
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(render(report, verbose=verbose))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_the_text_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = AuditwheelReport(skipped="auditwheel runs on Linux only")
    report = audited(tmp_path, monkeypatch, verdict, ExpectedWheel(max_glibc="2.17"))
    assert _text(report, 100).replace(report.sha256, "HASH") == GOLDEN


def test_a_narrow_terminal_shows_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = audited(tmp_path, monkeypatch, None, ExpectedWheel(max_glibc="2.17"))
    text = _text(report, 40)
    assert max(map(len, text.splitlines())) <= 40
    assert "x86_64" in text
    assert "glibc-floor" in text


def test_many_equal_findings_fit_on_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults())
    versions = {"libstdc++.so.6": ["GLIBCXX_3.4.21"], "libc.so.6": ["GLIBC_2.17"]}
    names = [f"demo/kernels/for_all_devices/_part{number}.cpython-311-x86_64-linux-gnu.so" for number in range(21)]
    needed = [f"libof{number}.so.1" for number in range(30)]
    report = audit_wheel(
        write_wheel(
            tmp_path,
            "cp311-cp311-manylinux2014_x86_64",
            {name: shared_object(needed=[*needed, "libc.so.6"], versions=versions) for name in names},
        )
    )
    lines = _text(report, 80).splitlines()
    assert len(lines) <= 24
    assert lines[-1].startswith("FAILED  demo-1.0-cp311-cp311-manylinux2014_x86_64.whl  (21 errors")
    assert "  error [glibcxx-floor] ×21 needs GLIBCXX 3.4.21, manylinux2014_x86_64 allows" in lines
    assert f"    in …/{names[0].rpartition('/')[2]} and 20 more; -v lists all" in lines
    everything = _text(report, 200, verbose=True)
    assert everything.count("[glibcxx-floor]") == 21
    assert all(everything.count(name) >= 2 for name in names[:20])


def test_findings_that_differ_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = replace(
        audited(tmp_path, monkeypatch),
        findings=(warning("x-y", "has 1"), warning("x-y", "has 2", "a.so"), warning("x-y", "has 2", "b.so")),
    )
    assert "  warning [x-y] ×3 has 2; similar for 1 more\n    in a.so and 1 more; -v lists all\n" in _text(report, 100)


def test_a_wheel_of_no_manylinux_tag_names_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = audited(tmp_path, monkeypatch, shown(overall_tag="linux_x86_64"))
    assert "linux_x86_64 (because of libcublas.so.12, which it needs)" in " ".join(_text(report, 200).split())
