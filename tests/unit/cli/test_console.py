"""What a person sees of failures that are no fault of a recipe."""

from __future__ import annotations

import errno
import os

import pytest

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
