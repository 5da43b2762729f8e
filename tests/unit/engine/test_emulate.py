"""QEMU for programs of another architecture: how it is registered with the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.core.errors import UnavailableError
from bakery.engine import debian_packages, qemu

LINE = r":qemu-aarch64:M::\x7fELF\x02\x01\x01:\xff\xff\xff:/usr/libexec/qemu-binfmt/aarch64-binfmt-P:OPF"
"""As in Debian's package, with a shorter magic number."""


def test_the_interpreter_is_the_unpacked_one() -> None:
    made = qemu.registration(LINE + "\n", Path("/cache/qemu"))
    assert made == LINE.replace("/usr/libexec", "/cache/qemu/usr/libexec")


@pytest.mark.parametrize("line", [LINE.removesuffix("F"), LINE.replace(":/usr", ":usr")])
def test_an_interpreter_that_containers_would_not_find_is_refused(line: str) -> None:
    with pytest.raises(UnavailableError, match="cannot use this registration"):
        qemu.registration(line, Path("/cache/qemu"))


def test_nothing_is_done_for_the_machine_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_packages, "architecture", lambda: "arm64")
    assert qemu.enable("linux/arm64", print) is False


def test_what_is_registered_already_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(debian_packages, "architecture", lambda: "amd64")
    monkeypatch.setattr(qemu, "BINFMT", tmp_path)
    (tmp_path / "qemu-aarch64").touch()
    assert qemu.enable("linux/arm64", print) is False


def test_it_needs_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(debian_packages, "architecture", lambda: "amd64")
    monkeypatch.setattr(qemu, "BINFMT", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UnavailableError, match="needs root") as caught:
        qemu.enable("linux/arm64", print)
    assert "qemu-user-static" in caught.value.hint
