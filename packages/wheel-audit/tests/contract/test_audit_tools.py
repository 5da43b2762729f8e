"""abi3audit, check-wheel-contents and readme-renderer: what they write is read, and a failure of theirs is no verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from elfs import shared_object
from sample import sampled
from wheels import write_wheel

from wheel_audit import tools
from wheel_audit.auditor import audit_wheel
from wheel_audit.checks import check_ids
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity
from wheel_audit.tools import AuditwheelReport, ToolRemark, ToolResult, ToolResults

OWN = ExpectedWheel(name="demo")
MARKDOWN = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nDescription-Content-Type: text/markdown\n\n# Demo\n"
RST = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nDescription-Content-Type: text/x-rst\n\n{}\n"
BROKEN = "Title\n==\n\n.. nonsense::\n"


def pure(folder: Path, files: Mapping[str, bytes], metadata: str = MARKDOWN) -> Path:
    return write_wheel(folder, "py3-none-any", files, metadata=metadata)


def said(path: Path, expected: ExpectedWheel = OWN) -> dict[str, Severity]:
    return {finding.check: finding.severity for finding in audit_wheel(path, expected).findings}


def answered(
    path: Path, expected: ExpectedWheel, monkeypatch: pytest.MonkeyPatch, **answers: ToolResult
) -> list[object]:
    """Audit with given answers of the tools."""
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults(**answers))
    return [(item.check, item.severity, item.file) for item in audit_wheel(path, expected).findings]


@pytest.mark.parametrize(
    ("tag", "symbols", "claim"),
    [
        ("manylinux_2_5_x86_64.musllinux_1_1_x86_64", "manylinux_2_5_x86_64", ""),
        ("manylinux_2_5_x86_64.musllinux_1_1_x86_64", "musllinux_1_2_x86_64", ""),
        ("manylinux_2_5_x86_64.musllinux_1_1_x86_64", "manylinux_2_17_x86_64", "manylinux_2_5_x86_64"),
        ("musllinux_1_1_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64"),
    ],
)
def test_tags_of_both_c_libraries(
    tag: str, symbols: str, claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = AuditwheelReport(symbols, symbols)
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: answer)
    files = {"demo/bin/tool": shared_object(needed=[], versions={}, kind=2)}
    found = [
        item.message
        for item in audit_wheel(write_wheel(tmp_path, f"py3-none-{tag}", files)).findings
        if item.check == "auditwheel-policy"
    ]
    assert found == ([f"by its symbols it is {symbols}, tagged is {claim}"] if claim else [])


@pytest.mark.parametrize(
    ("check", "severity", "files"),
    sampled(
        [
            ("wheel-contents-W001", Severity.ERROR, {"demo/core.pyc": b"1"}),
            ("wheel-contents-W002", Severity.INFO, {"demo/a.py": b"x = 1\n", "demo/b.py": b"x = 1\n"}),
            ("wheel-contents-W003", Severity.INFO, {"notes.txt": b"1"}),
            ("wheel-contents-W004", Severity.INFO, {"demo/not-importable.py": b"x = 1\n"}),
            ("wheel-contents-W005", Severity.WARNING, {"tests/__init__.py": b"x = 1\n"}),
            ("wheel-contents-W006", Severity.ERROR, {"__init__.py": b"1"}),
            ("wheel-contents-W009", Severity.INFO, {"other/__init__.py": b"x = 1\n"}),
            ("wheel-contents-W010", Severity.INFO, {"data/table.csv": b"1"}),
        ],
        4,
    ),
)
def test_check_wheel_contents(check: str, severity: Severity, files: dict[str, bytes], tmp_path: Path) -> None:
    assert said(pure(tmp_path, files))[check] is severity


def test_the_same_of_somebody_elses_wheel_is_a_warning(tmp_path: Path) -> None:
    assert said(pure(tmp_path, {"demo/core.pyc": b"1"}), ExpectedWheel())["wheel-contents-W001"] is Severity.WARNING


@pytest.mark.parametrize("code", ["W007", "W008"])
def test_an_empty_wheel(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ToolResult((ToolRemark(code, "Wheel is empty"),))
    assert answered(pure(tmp_path, {}), OWN, monkeypatch, contents=answer) == [
        (f"wheel-contents-{code}", Severity.WARNING, None)
    ]


def test_grafted_libraries_are_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remarks = (
        ToolRemark("W004", "Module is not located at importable path", ("demo.libs/libz-1a2b3c4d.so",)),
        ToolRemark("W009", "Wheel contains multiple toplevel library entries", ("demo/", "demo.libs/")),
        ToolRemark("W010", "Toplevel library directory contains no Python modules", ("demo.libs/",)),
    )
    assert answered(pure(tmp_path, {}), OWN, monkeypatch, contents=ToolResult(remarks)) == []


def test_every_code_of_the_tool_has_an_id() -> None:
    from check_wheel_contents.checks import Check

    always = {check.name for check in Check if check.name[1] == "0"}  # the others compare with a source folder
    ids = {name for name in check_ids() if name.startswith("wheel-contents-")}
    assert ids == {f"wheel-contents-{code}" for code in always}


@pytest.mark.parametrize(
    ("metadata", "expected", "severity"),
    [
        (RST.format("Title\n=====\n\nText."), ExpectedWheel(public_index=True), None),
        (RST.format(BROKEN), ExpectedWheel(public_index=True), Severity.ERROR),
        (RST.format(BROKEN), OWN, Severity.WARNING),
        (MARKDOWN + BROKEN, ExpectedWheel(public_index=True), None),
    ],
)
def test_the_description(metadata: str, expected: ExpectedWheel, severity: Severity | None, tmp_path: Path) -> None:
    found = said(pure(tmp_path, {}, metadata), expected)
    assert found == ({} if severity is None else {"readme-render": severity})


def test_only_what_can_fail_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(tools, "render_readme", lambda text: asked.append(text) or ToolResult())
    monkeypatch.setattr(tools, "run_check_wheel_contents", lambda path: ToolResult())
    for text in (MARKDOWN, MARKDOWN.partition("Description")[0], RST.format("Text.")):
        audit_wheel(pure(tmp_path, {}, text))
    assert asked == ["Text."]


@pytest.mark.parametrize("output", ["", "Traceback (most recent call last):\n  File", "W001 without a wheel"])
def test_what_cannot_be_read_is_no_verdict(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(stdout="", stderr=output)
    monkeypatch.setattr("wheel_audit.tools.subprocess.run", lambda *command, **how: done)
    path = pure(tmp_path, {}, RST.format("Text."))
    answers = tools.run_tools(path, stable_abi="3.9")
    assert answers.abi3.failure.startswith("abi3audit failed")
    assert answers.contents.failure.startswith("check-wheel-contents failed")
    assert not any(answer.remarks for answer in (answers.abi3, answers.contents))


def test_a_tool_that_takes_too_long_is_stopped_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_SECONDS", 0.01)
    began = time.monotonic()
    assert said(pure(tmp_path, {})) == {"wheel-contents": Severity.SKIPPED}
    assert time.monotonic() - began < 10


def test_a_tool_that_is_missing_is_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    report = audit_wheel(pure(tmp_path, {}), OWN)
    (finding,) = report.findings
    assert (finding.severity, finding.message) == (Severity.INFO, "check-wheel-contents is not installed")
    assert report.ok


def test_tools_that_fail_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ToolResult(failure="no")
    found = answered(pure(tmp_path, {}), OWN, monkeypatch, abi3=failed, contents=failed, readme=failed)
    assert found == [(check, Severity.SKIPPED, None) for check in ("abi3-violation", "wheel-contents", "readme-render")]


def test_no_tool_sees_an_unsafe_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: pytest.fail("asked"))
    assert "archive-path" in said(write_wheel(tmp_path, unlisted={"../evil.py": b""}))


def test_abi3audits_report() -> None:
    result = {
        "is_abi3": False,
        "is_abi3_baseline_compatible": False,
        "baseline": "3.9",
        "computed": "3.10",
        "non_abi3_symbols": ["_PyB", "PyA", "PyA"],
        "future_abi3_objects": {"PyType_GetModule": "3.10"},
    }
    report = {"specs": {"demo.whl": {"kind": "wheel", "wheel": [{"name": "_core.abi3.so", "result": result}]}}}
    assert tools.parse_abi3audit(json.dumps(report)).remarks == (
        ToolRemark("not-abi3", "uses PyA, _PyB, not part of the stable ABI", ("_core.abi3.so",)),
        ToolRemark("newer-abi3", "uses PyType_GetModule (3.10), newer than the stable ABI of 3.9", ("_core.abi3.so",)),
    )


def test_modules_for_one_python_are_none_of_abi3audits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ToolResult(
        (ToolRemark("not-abi3", "uses PyA", ("_core.abi3.so",)), ToolRemark("not-abi3", "uses PyB", ("_x.so",)))
    )
    found = answered(write_wheel(tmp_path), OWN, monkeypatch, abi3=answer)
    assert found == [("abi3-violation", Severity.ERROR, "_core.abi3.so")]


@pytest.mark.parametrize(
    ("expected", "tool", "severity"),
    [
        (OWN, "abi3", Severity.SKIPPED),
        (OWN, "contents", Severity.SKIPPED),
        (OWN, "readme", Severity.SKIPPED),
        (ExpectedWheel(abi3=True), "abi3", Severity.ERROR),
        (ExpectedWheel(abi3=True), "readme", Severity.SKIPPED),
        (ExpectedWheel(public_index=True), "abi3", Severity.ERROR),
        (ExpectedWheel(public_index=True), "contents", Severity.ERROR),
        (ExpectedWheel(public_index=True), "readme", Severity.ERROR),
    ],
)
def test_no_verdict_is_an_error_where_the_promise_needs_one(
    expected: ExpectedWheel, tool: str, severity: Severity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path, "cp39-abi3-manylinux_2_28_x86_64", {"demo/_core.abi3.so": shared_object()})
    failed = ToolResult(failure="abi3audit took more than 900 seconds")
    found = answered(wheel, expected, monkeypatch, **{tool: failed})
    assert [severity for _, severity, _ in found] == [severity]


def test_the_tools_have_versions() -> None:
    assert all(version for _, version in tools.versions())


def test_a_field_that_is_older_than_its_version_is_no_defect(tmp_path: Path) -> None:
    early = MARKDOWN.replace("Name:", "License-File: LICENSE\nName:")
    info = "demo-1.0.dist-info/LICENSE"
    assert said(pure(tmp_path, {info: b""}, early)) == {}
    wrong = MARKDOWN.replace("Name:", "Requires-Dist: numpy>=>1\nName:")
    assert said(pure(tmp_path, {}, wrong)) == {"metadata-field": Severity.ERROR}
