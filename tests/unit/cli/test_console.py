"""What a person sees of failures that are no fault of a recipe."""

from __future__ import annotations

import errno
import io
import os

import pytest

from bakery.cli.console import columns_of
from bakery.cli.failures import OF_THE_MACHINE, failures


@pytest.mark.parametrize("number", OF_THE_MACHINE, ids=errno.errorcode.__getitem__)
def test_what_the_machine_lacks_is_no_defect(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, failures():
        raise OSError(number, os.strerror(number), "dist/x.whl")
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "internal error" not in said
    assert "dist/x.whl" in said
    assert OF_THE_MACHINE[number] in said


def test_another_failure_is_a_defect(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), failures():
        raise OSError(errno.ECHILD, "no child")
    assert "this is a bug in bakery" in capsys.readouterr().err


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("columns", "terminal", "width"), [("", False, 140), ("0", False, 140), ("90", False, None), ("", True, None)]
)
def test_a_log_is_wide_enough_for_tables(
    columns: str, terminal: bool, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert columns_of(Stream(terminal)) == width
