"""docs/security.md names tests for its promises: each of them is there, and each way to build has one or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
WAYS = ["bake, lock", "nodes", "cibuildwheel", "gpu-test", "reproduce", "IREE"]
_NAMED = re.compile(r"`((?:[a-z_]+/)*test_\w+\.py)(?:::(test_\w+))?`")


def missing(text: str) -> list[str]:
    """Return the tests that a text names and nobody wrote; a name of several files needs a folder."""
    wrong = []
    for file, test in _NAMED.findall(text):
        found = [
            path
            for path in (*TESTS.rglob("test_*.py"), *TESTS.parent.glob("packages/*/tests/**/test_*.py"))
            if path.as_posix().endswith(f"/{file}")
        ]
        if not found or (test and len(found) > 1):
            wrong.append(f"{file}: {len(found)} files")
        elif test and not re.search(rf"(?m)^def {test}\(", found[0].read_text()):
            wrong.append(f"{file}::{test}")
    return wrong


def rows() -> list[list[str]]:
    """Return the cells of the table of promises, its head first."""
    section = PAGE.partition("### Every promise")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|--")]


def test_the_defects_of_the_first_review_have_tests() -> None:
    page = (TESTS.parent / "docs" / "reviewers.md").read_text()
    found = re.findall(r"(?m)^\| (\d+) \|.*`([\w/-]+\.py)::(test_\w+)` \|$", page)
    assert [int(number) for number, _, _ in found] == [*range(1, 18)]
    files = {file: TESTS.parent / file if file.startswith("packages/") else TESTS / file for _, file, _ in found}
    assert [name for _, file, name in found if f"def {name}(" not in files[file].read_text()] == []


def test_every_test_that_the_page_names_is_there() -> None:
    assert len(_NAMED.findall(PAGE)) > 100
    assert missing(PAGE) == []


@pytest.mark.parametrize(
    "text", ["`test_nobody.py`", "`test_trust.py::test_nobody`", "`test_lock.py::test_nothing_has_changed`"]
)
def test_one_that_is_not_there_is_found(text: str) -> None:
    assert missing(text)


def test_each_promise_has_a_test_or_a_reason_for_each_way() -> None:
    head, *promises = rows()
    assert head == ["Promise", *WAYS]
    assert len(promises) >= 12
    for promise, *cells in promises:
        assert len(cells) == len(WAYS), promise
        assert _NAMED.search(cells[0]), promise
        for cell in cells:
            assert _NAMED.search(cell) or len(cell.split()) > 2, (promise, cell)
