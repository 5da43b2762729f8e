"""The files of a wheel against those of its source: each planted defect is found, what projects do on purpose is not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from wheels import Make, made, without, write_wheel

from wheel_audit.auditor import audit_wheel
from wheel_audit.expected_wheel import ExpectedWheel, SourceFiles
from wheel_audit.finding import Severity

pytestmark = pytest.mark.usefixtures("no_tools")

PURE = "py3-none-any"
SECRET = b"password = 'hunter2'\n"
LICENCE = b"A licence.\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def source(
    tracked: Mapping[str, bytes],
    ignored: Mapping[str, bytes] | None = None,
    links: tuple[tuple[str, str, str], ...] = (),
) -> SourceFiles:
    rows = [tuple((path, sha256(data)) for path, data in files.items()) for files in (tracked, ignored or {})]
    return SourceFiles(rows[0], rows[1], links)


def found(folder: Path, files: Mapping[str, bytes], known: SourceFiles) -> list[tuple[str, Severity, str | None, str]]:
    path = write_wheel(folder, PURE, files)
    findings = audit_wheel(path, ExpectedWheel(source=known)).findings
    return [(item.check, item.severity, item.file, item.message) for item in findings]


CODE = {"demo/core.py": b"x = 1\n", "demo/__init__.py": b""}


def empty(folder: Path) -> Path:
    path = write_wheel(folder, PURE, {}, edit_record=lambda text: text.partition("\n")[2])
    return without(path, "demo/__init__.py")


DEFECTS: dict[str, tuple[str, Make, ExpectedWheel]] = {
    "ignored": (
        "ignored-file",
        made(PURE, {**CODE, "demo/settings.local": SECRET}),
        ExpectedWheel(source=source(CODE, {"src/demo/settings.local": SECRET})),
    ),
    "link": (
        "source-link",
        made(PURE, CODE),
        ExpectedWheel(source=source(CODE, links=(("LICENSE", "../LICENSE", sha256(LICENCE)),))),
    ),
    "empty": (
        "wheel-empty",
        empty,
        ExpectedWheel(source=source({"src/demo/__init__.py": b"", "tests/__init__.py": b""})),
    ),
    "missing": (
        "tracked-file-missing",
        made(PURE, CODE),
        ExpectedWheel(source=source({**CODE, "demo/table.csv": b"1"})),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, tmp_path: Path) -> None:
    check, make, expected = DEFECTS[name]
    report = audit_wheel(make(tmp_path), expected)
    severity = Severity.WARNING if name == "missing" else Severity.ERROR
    assert [(item.check, item.severity) for item in report.findings] == [(check, severity)]


def test_an_ignored_file_is_named_where_it_is(tmp_path: Path) -> None:
    known = source(CODE, {"conf/.env": SECRET})
    assert found(tmp_path, {**CODE, "demo/default.env": SECRET}, known) == [
        ("ignored-file", Severity.ERROR, "demo/default.env", "is conf/.env of the checkout, which git ignores")
    ]


@pytest.mark.parametrize(
    ("member", "ignored"),
    [
        ({"demo/new.py": b""}, {"build/touched": b""}),  # any two empty files are alike
        ({"demo/core.py": b"x = 1\n"}, {"build/lib/demo/core.py": b"x = 1\n"}),  # a copy of a tracked file
        ({"demo/settings.local": b"made by the build"}, {"demo/settings.local": SECRET}),
    ],
)
def test_what_is_no_ignored_file(tmp_path: Path, member: dict[str, bytes], ignored: dict[str, bytes]) -> None:
    assert found(tmp_path, {**CODE, **member}, source(CODE, ignored)) == []


@pytest.mark.parametrize(
    ("lost", "folder"),
    [
        ("src/demo/tables/table.csv", ""),
        ("src/demo/py.typed", ""),
        ("src/demo/core.pyi", ""),
        ("src/demo/sub/mod.py", ""),
        ("src/demo/templates/a/page.html", ""),
        ("src/demo/table.csv", "demo-1.0.data/purelib/"),
    ],
)
def test_a_lost_file_is_named(tmp_path: Path, lost: str, folder: str) -> None:
    known = source({**{f"src/{path}": data for path, data in CODE.items()}, lost: b"1", "src/other/x.csv": b"2"})
    ((check, severity, _, message),) = found(tmp_path, {f"{folder}demo/core.py": b"x = 1\n"}, known)
    assert (check, severity) == ("tracked-file-missing", Severity.WARNING)
    assert message == f"does not have {lost}, which git tracks beside files that it has"


def test_lost_files_of_a_renamed_package(tmp_path: Path) -> None:
    known = source({"lib/core.py": b"x = 1\n", "lib/__init__.py": b"", "lib/a.json": b"1", "lib/b.json": b"2"})
    ((_, _, _, message),) = found(tmp_path, {"demo/core.py": b"x = 1\n"}, known)
    assert message == "does not have lib/a.json, lib/b.json, which git tracks beside files that it has"


@pytest.mark.parametrize(
    "path",
    [
        "src/demo/_core.c", "src/demo/_core.pyx", "src/demo/core.h", "src/demo/CMakeLists.txt",
        "src/demo/meson.build", "src/demo/requirements.txt", "src/demo/README.txt", "src/demo/test_core.py",
        "src/demo/conftest.py", "src/demo/tests/data/table.csv", "src/demo/_tests/__init__.py",
        "src/demo/docs/index.html", "src/demo/.coveragerc.toml", "src/demo/ruff.toml",
        "src/demo/third_party/lib/data.json", "src/demo/plugin/setup.py", "README.txt", "data/table.csv",
    ],
)  # fmt: skip
def test_what_projects_leave_out(tmp_path: Path, path: str) -> None:
    known = source({**{f"src/{name}": data for name, data in CODE.items()}, path: b"1"})
    assert found(tmp_path, CODE, known) == []


def test_a_project_inside_is_another_one(tmp_path: Path) -> None:
    known = source({**CODE, "demo/plugin/pyproject.toml": b"1", "demo/plugin/plugin.json": b"2"})
    assert found(tmp_path, CODE, known) == []


def test_a_file_that_is_elsewhere_in_the_wheel_is_not_lost(tmp_path: Path) -> None:
    files = {**CODE, "demo-1.0.data/data/share/table.csv": b"1"}
    assert found(tmp_path, files, source({**CODE, "demo/table.csv": b"1"})) == []
    # The build may change it.
    assert found(tmp_path, {**CODE, "demo/table.csv": b"2"}, source({**CODE, "demo/table.csv": b"1"})) == []


@pytest.mark.parametrize(
    ("link", "files", "is_wrong"),
    [
        (("LICENSE", "../LICENSE", sha256(LICENCE)), {"demo-1.0.dist-info/licenses/LICENSE": LICENCE}, False),
        (("COPYING.txt", "../COPYING.txt", sha256(LICENCE)), {}, True),
        (("Makefile", "../Makefile", sha256(b"1")), {}, False),
        (("demo/data", "../../data", ""), {}, True),
        (("demo/data", "../../data", ""), {"demo/data/x.csv": b"1"}, False),
        (("demo/schema.json", "../../schema.json", sha256(b"1")), {}, True),
        (("demo/schema.json", "../../schema.json", sha256(b"1")), {"demo/schema.json": b"1"}, False),
        (("demo/tests/data", "../../data", ""), {}, False),
        (("docs/guide", "../../guide", ""), {}, False),
    ],
)
def test_links_out_of_the_source(
    tmp_path: Path, link: tuple[str, str, str], files: dict[str, bytes], is_wrong: bool
) -> None:
    said = found(tmp_path, {**CODE, **files}, source(CODE, links=(link,)))
    assert [item[:2] for item in said] == [("source-link", Severity.ERROR)] * is_wrong
    assert all(link[0] in item[3] and link[1] in item[3] for item in said)


def test_a_wheel_of_metadata_alone_is_fine_for_a_source_without_packages(tmp_path: Path) -> None:
    path = empty(tmp_path)
    assert audit_wheel(path, ExpectedWheel(source=source({"README.md": b"", "tests/__init__.py": b""}))).ok
