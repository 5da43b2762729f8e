"""Warnings about the platform tags and the git tag of wheels."""

from __future__ import annotations

from pathlib import Path

from elfs import shared_object
from wheels import EXTENSION, write_wheel

from bakery.cli.tables.run import markdown, warnings
from bakery.runs.run_report import RunReport
from bakery.runs.wheel_tags import tag_differences

LOW, HIGH = "cp311-cp311-manylinux_2_34_x86_64", "cp313-cp313-manylinux_2_39_x86_64"


def wheel(folder: Path, tag: str, versions: dict[str, list[str]]) -> Path:
    return write_wheel(folder, tag, {EXTENSION: shared_object(versions=versions)})


def test_the_symbol_that_raised_the_floor_is_named(tmp_path: Path) -> None:
    low = wheel(tmp_path, LOW, {"libc.so.6": ["GLIBC_2.34"], "libstdc++.so.6": ["GLIBCXX_3.4.29"]})
    high = wheel(tmp_path, HIGH, {"libc.so.6": ["GLIBC_2.38"], "libstdc++.so.6": ["GLIBCXX_3.4.32"]})
    (text,) = tag_differences([("cp311", low), ("cp313", high), ("cp314", high)])
    assert "manylinux_2_39 on cp313, cp314, manylinux_2_34 on cp311" in text
    assert f"GLIBCXX_3.4.32 needed by {EXTENSION}" in text


def test_glibc_may_be_what_raised_it(tmp_path: Path) -> None:
    low = wheel(tmp_path, LOW, {"libc.so.6": ["GLIBC_2.34"]})
    high = wheel(tmp_path, HIGH, {"libc.so.6": ["GLIBC_2.38"], "libstdc++.so.6": ["GLIBCXX_3.4.29"]})
    (text,) = tag_differences([("cp311", low), ("cp313", high)])
    assert f"GLIBC_2.38 needed by {EXTENSION}" in text


def test_what_is_no_difference(tmp_path: Path) -> None:
    tags = [
        "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "cp313-cp313-manylinux2014_x86_64",
        "cp311-cp311-manylinux_2_28_aarch64", "cp311-cp311-musllinux_1_2_x86_64", "cp311-cp311-macosx_11_0_arm64",
        "py3-none-any", "cp311-cp311-manylinux_2_17_x86_64.musllinux_1_2_x86_64",
    ]  # fmt: skip
    assert tag_differences([(tag, tmp_path / f"demo-1.0-{tag}.whl") for tag in tags]) == ()


def test_a_wheel_that_is_gone_still_differs(tmp_path: Path) -> None:
    (text,) = tag_differences([(tag[:5], tmp_path / f"demo-1.0-{tag}.whl") for tag in (LOW, HIGH)])
    assert "manylinux_2_39 on cp313, manylinux_2_34 on cp311; build all on one base" in text


def test_reports_have_the_warning(tmp_path: Path) -> None:
    report = RunReport("demo", (), tmp_path, tmp_path, 1.0, warnings=("tags differ",))
    assert report.to_json()["warnings"] == ["tags differ"]
    assert warnings(report) == ("tags differ",)
    assert "⚠️ tags differ" in markdown([report])
