"""Passed audits are remembered, with the tools that were asked; incomplete ones are not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from elfs import shared_object
from fatbins import for_archs
from wheels import write_wheel

from bakery.runs import audited
from wheel_audit.auditor import audit_wheel
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.tools import AuditwheelReport, ToolResult, ToolResults

OWN = ExpectedWheel(name="demo")
MARKDOWN = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nDescription-Content-Type: text/markdown\n\n# Demo\n"


def pure(folder: Path, files: Mapping[str, bytes]) -> Path:
    return write_wheel(folder, "py3-none-any", files, metadata=MARKDOWN)


def test_a_memory_is_of_the_tools_that_were_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pure(tmp_path, {})
    folder = tmp_path / "memories"
    for _ in range(2):
        assert audited.audit(path, OWN, folder).faults == ()
    assert len(os.listdir(folder)) == 1  # noqa: PTH208
    monkeypatch.setattr(audited, "versions", lambda: (("readme-renderer", "99"),))
    audited.audit(path, OWN, folder)
    assert len(os.listdir(folder)) == 2  # noqa: PTH208


def test_an_audit_without_every_verdict_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = pure(tmp_path, {}), tmp_path / "memories"
    with monkeypatch.context() as patch:
        failed = ToolResults(contents=ToolResult(failure="check-wheel-contents failed: no"))
        patch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())
        patch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: failed)
        patch.setattr("wheel_audit.auditor.audit_in_worker", audit_wheel)
        verdict = audited.audit(path, OWN, folder)
    assert (verdict.faults, verdict.warnings) == ((), ("not checked: check-wheel-contents failed: no",))
    assert not folder.exists()
    assert audited.audit(path, OWN, folder).warnings == ()
    assert len(list(folder.iterdir())) == 1


def test_a_memory_holds_the_bytes_of_device_code(tmp_path: Path) -> None:
    sections = {".nv_fatbin": for_archs("compute_90", "sm_80"), "__nv_relfatbin": for_archs("sm_80")}
    path = write_wheel(tmp_path, files={"demo/_core.so": shared_object(sections=sections)})
    found = audited.audit(path, ExpectedWheel(), tmp_path / "memories")
    assert list(found.device) == ["sm_80", "compute_90"]
    assert found.device["sm_80"] > found.device["compute_90"] > 0
    again = audited.audit(path, ExpectedWheel(), tmp_path / "memories")
    assert (again.device, list(again.device)) == (found.device, list(found.device))


def test_a_memory_holds_the_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = pure(tmp_path, {"tests/__init__.py": b"x = 1\n"}), tmp_path / "memories"
    first = audited.audit(path, OWN, folder)
    assert first.faults == ()
    assert len(first.warnings) == 1
    assert first.warnings[0].endswith("(tests/)")
    (kept,) = folder.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr("wheel_audit.auditor.audit_in_worker", lambda *given: pytest.fail("looked into again"))
        assert audited.audit(path, OWN, folder) == first
    for cut in (b"", b"[", b"{}", b"[1]", b"\xff"):
        kept.write_bytes(cut)
        assert audited.audit(path, OWN, folder) == first
        assert json.loads(kept.read_text()) == {"warnings": list(first.warnings), "device": {}}
