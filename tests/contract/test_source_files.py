"""What of a project's source is sent, how it is told apart from another one, and what git promises about a wheel's files."""

from __future__ import annotations

import hashlib
import os
import posixpath
import time
from collections.abc import Callable
from pathlib import Path

import plans
import pytest
from file_trees import write_files
from hypothesis import given
from hypothesis import strategies as st
from repositories import commit, git

from bakery.core.dockerignore import Ignore, _compiled, _Group, check_ignored, normalised
from bakery.core.errors import RecipeError
from bakery.core.source_manifest import SourceManifest
from bakery.core.text import compile_linear
from bakery.plan.delivery import SourceContext
from bakery.plan.model import Plan
from bakery.resolve.source_context import IGNORED
from bakery.runs.source_files import git_files, scan, source_of, warnings
from bakery.toolchains import facts
from wheel_audit.expected_wheel import SourceFiles

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def planned(tmp_path: Path, text: str = "") -> Plan:
    return plans.written(tmp_path, f'name = "one"\n{text}')


def warned(folder: Path, plan: Plan) -> list[str]:
    return warnings(plan, source_of(folder, plan))


# From the tests of moby/patternmatcher: pattern, path, whether it matches.
MATCHES = [
    ("**", "file", True),
    ("**", "dir/file", True),
    ("**/", "file", True),
    ("**/**", "dir/file", True),
    ("dir/**", "dir/file", True),
    ("dir/**", "dir/dir2/file", True),
    ("**/dir", "dir", True),
    ("**/dir", "dir/file", True),
    ("**/dir2/*", "dir/dir2/file", True),
    ("**/dir2/*", "dir/dir2/dir2/file", True),
    ("**file", "file", True),
    ("**file", "dir/file", True),
    ("**/file", "dir/dir/file", True),
    ("**/file*", "dir/dir/file.txt", True),
    ("**/file*txt", "dir/dir/file.txt", True),
    ("**/**/*.txt", "dir/dir/file.txt", True),
    ("**/**/*.txt2", "dir/dir/file.txt", False),
    ("**/*.txt", "file.txt", True),
    ("a**/*.txt", "a/file.txt", True),
    ("a**/*.txt", "a/dir/dir/file.txt", True),
    ("a/*.txt", "a/dir/file.txt", False),
    ("a/*.txt", "a/file.txt", True),
    ("a/*.txt**", "a/file.txt", True),
    ("a[b-d]e", "ae", False),
    ("a[b-d]e", "ace", True),
    ("a[^b-d]e", "aze", True),
    (".*", ".foo", True),
    (".*", "foo", False),
    ("abc.def", "abcdef", False),
    ("abc.def", "abc.def", True),
    ("abc?def", "abcZdef", True),
    ("a\\*b", "a*b", True),
    ("a\\*b", "axb", False),
    ("**/foo/bar", "foo/bar", True),
    ("**/foo/bar", "dir/dir2/foo/bar", True),
    ("abc/**", "abc", False),
    ("abc/**", "abc/def/ghi", True),
    ("**/.foo", "bar.foo", False),
    ("a(b)c/def", "a(b)c/def", True),
    ("a.|)$(}+{bc", "a.|)$(}+{bc", True),
    ("/docs", "docs/x", True),
    ("docs/", "docs/x", True),
    ("./a/../docs", "docs", True),
    ("docs", "a/docs", False),
    ("*/docs", "a/docs/b", True),
    ("# docs", "docs", False),
    ("", "x", False),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES)
def test_patterns_match_as_buildkit_s_do(pattern: str, path: str, expected: bool) -> None:
    assert Ignore([pattern]).ignores(path) is expected


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["*", "!docs"], "docs/a", False),
        (["*", "!docs"], "other", True),
        (["docs", "!docs/a", "docs/a/b"], "docs/a/c", False),
        (["docs", "!docs/a", "docs/a/b"], "docs/a/b/x", True),
        (["**/*.md", "!README.md"], "README.md", False),
        (["**/*.md", "!README.md"], "docs/README.md", True),
        (["!**/x", "**"], "a/x", True),
    ],
)
def test_the_last_pattern_decides(lines: list[str], path: str, expected: bool) -> None:
    assert Ignore(lines).ignores(path) is expected


def test_bad_patterns_are_refused(tmp_path: Path) -> None:
    for pattern in ("a[", "[]", "[z-a]"):
        with pytest.raises(ValueError, match=r"bracket|character class range"):
            check_ignored(pattern)
    for pattern in ("", "#x", "..", "a/../..", "a[", "."):
        with pytest.raises(RecipeError):
            planned(tmp_path, f"[source]\nignore = ['{pattern}']\n")
    assert normalised("  !  /a//b/ ") == "!a/b"


def test_patterns_of_the_recipe_are_relative_to_its_source(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    plan = planned(
        tmp_path, '[source]\npath = "sub"\nignore = ["data", "!data/small", "**/*.bin"]\naccept = ["a.pem"]\n'
    )
    assert plan.ignore[-3:] == ("sub/data", "!sub/data/small", "sub/**/*.bin")
    sent = plan.source_context
    assert sent == SourceContext("sub", ("sub/a.pem",), 500, True, sent.default_ignore)
    assert sent.default_ignore[-2:] == ("!sub/data", "!sub/**/*.bin")
    assert planned(tmp_path, '[source]\nignore = ["data"]\n').ignore[-1] == "data"
    assert planned(tmp_path, 'source = "sdist:ujson==5.12.0"\n').source_context == SourceContext()
    with pytest.raises(RecipeError, match="1 problem"):
        planned(tmp_path, '[source]\nsdist = "ujson==5.12.0"\nignore = ["a"]\n')


def test_what_looks_like_a_secret_is_named_before_it_is_sent(tmp_path: Path) -> None:
    files = {
        ".env": "A=1",
        ".env.example": "A=",
        "deploy/id_rsa": "x",
        "deploy/id_rsa.pub": "x",
        "certs/ca.pem": CERTIFICATE,
        "certs/server.pem": CERTIFICATE + KEY,
        "talk.key": "no key at all",
        ".aws/credentials": "x",
        "deploy_key": KEY,
        "README": "no key",
        "notes.txt": KEY,
        "dist/.env": "ignored",
        "tests/test.pem": KEY,
    }
    write_files(tmp_path, files)
    plan = planned(tmp_path, '[source]\naccept = ["tests/*.pem"]\n')
    found = scan(source_of(tmp_path, plan), plan.source_context)
    assert found.secrets == {
        ".env": "environment with values",
        "deploy/id_rsa": "private key",
        "certs/server.pem": "private key",
        ".aws/credentials": "cloud credentials",
        "deploy_key": "private key",
    }
    (line,) = warned(tmp_path, planned(tmp_path, '[source]\naccept = [".env", "certs", "deploy*", ".aws/*"]\n'))
    assert "'tests/test.pem' (private key)" in line
    assert not warned(tmp_path, planned(tmp_path, '[source]\nignore = [".env", "certs", "deploy*", ".aws", "tests"]\n'))


def test_a_large_source_is_told_with_its_largest_folders(tmp_path: Path) -> None:
    sizes = {"data/a/b.bin": 3_000_000, "models/x.bin": 2_000_000, "build/lib/x": 9_000_000}
    write_files(tmp_path, {name: b"0" * size for name, size in sizes.items()})
    (line,) = warned(tmp_path, planned(tmp_path, '[source]\nexpected-size = "4 MB"\n'))
    assert line.startswith("the source is 5 MB in 2 files, more than 4 MB: data 3 MB, models 2 MB; leave out")
    assert warned(tmp_path, planned(tmp_path, '[source]\nexpected-size = "6 MB"\n')) == []
    assert warned(tmp_path, planned(tmp_path, '[source]\nexpected-size = "4 MB"\nignore = ["data"]\n')) == []


def test_the_project_s_own_ignore_file_is_not_read_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("# own\n.git\n\nsecret-data\n")
    (line,) = warned(tmp_path, planned(tmp_path))
    assert line.startswith(".dockerignore is not read")
    assert warned(tmp_path, planned(tmp_path, "[source]\nignore = []\n")) == []
    (tmp_path / ".dockerignore").write_text("# own\n.git\n")
    assert warned(tmp_path, planned(tmp_path)) == []


def test_links_are_not_followed_and_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "key.pem").symlink_to("/etc/passwd")
    (tmp_path / "id_rsa").symlink_to("missing")
    found = scan(SourceManifest.read(tmp_path, ["."], IGNORED), SourceContext(".", (), 1))
    assert found.files == 3 - 1 + 1
    assert list(found.secrets) == ["id_rsa"]


@pytest.mark.proof
def test_a_hundred_thousand_files_take_a_few_times_as_long_as_to_look_at_them(tmp_path: Path) -> None:
    for folder in range(100):
        (tmp_path / f"f{folder}" / "src").mkdir(parents=True)
        for number in range(1000):
            (tmp_path / f"f{folder}" / "src" / f"file{number}.py").touch()
    began = time.process_time()
    seen = [os.lstat(f"{folder}/{name}") for folder, _, names in os.walk(tmp_path) for name in names]
    floor = time.process_time() - began
    began = time.process_time()
    found = scan(SourceManifest.read(tmp_path, ["."], [*IGNORED, "data/**/*.bin"]), SourceContext(".", (), 1))
    spent = time.process_time() - began
    print(spent / floor)
    assert found.files == len(seen) == 100_000
    assert spent < 6 * floor


def test_every_row_of_the_list_is_in_lower_case() -> None:
    assert all(row.name == row.name.lower() for row in facts.secret_files())


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 100 + "b",
        "**/" + "*a" * 100 + "b",
        "**a*" * 100 + "b",
        "[a-b]*" * 100 + "c",
        "a**" * 500 + "/b",
        "?*" * 200 + "b",
    ],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    ignore = Ignore([pattern, "!**/" + pattern])
    began = time.process_time()
    for name in ("a" * 200, "/".join(["a" * 40] * 5), "ab" * 100):
        ignore.ignores(name)
    assert time.process_time() - began < 1


@given(st.text("ab*?/", max_size=12), st.text("ab/", min_size=1, max_size=12))
def test_both_engines_match_alike(pattern: str, path: str) -> None:
    """Simple patterns go to Python's engine; an empty range beside them sends the same to RE2."""
    text, name = normalised(pattern), posixpath.normpath(path).strip("/")
    if not text.startswith("!") and text and ".." not in text and name not in ("", "."):
        kind, regex = _compiled(text)
        linear = kind == "regex" and compile_linear(regex).fullmatch(name) is not None
        simple = _Group([text]).matches(name, name.rpartition("/")[2])
        assert kind != "regex" or simple is linear


IGNORE = (
    ".git", "**/.bakery", "**/__pycache__", "**/*.egg-info", "dist", "build/lib", "docs/*", "!docs/keep.md", "a?c",
    "x[0-9]",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write_files(tmp_path, {name: name for name in ("src/core.cpp", "src/deep/mod.py", "docs/keep.md", "setup.py")})
    (tmp_path / "link").symlink_to("setup.py")
    return tmp_path


def digest(tree: Path, *sources: str) -> str:
    return SourceManifest.read(tree, sources or (".",), IGNORE).digest


def add(name: str) -> Callable[[Path], object]:
    return lambda tree: write_files(tree, {name: "new"})


CHANGES: dict[str, Callable[[Path], object]] = {
    "content of the same size": lambda tree: (tree / "setup.py").write_text("SETUP.py"),
    "a new file": add("src/new.py"),
    "a removed file": lambda tree: (tree / "src/deep/mod.py").unlink(),
    "another name": lambda tree: (tree / "setup.py").rename(tree / "setup2.py"),
    "a mode": lambda tree: (tree / "setup.py").chmod(0o755),
    "a link's target": lambda tree: ((tree / "link").unlink(), (tree / "link").symlink_to("src")),
    "what an exception brings back": lambda tree: (tree / "docs/keep.md").write_text("other"),
    "a name like an ignored one": add("src/dist/x"),
    "a name that is no UTF-8": lambda tree: (Path(os.fsdecode(os.fsencode(tree) + b"/\xff"))).write_text(""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(tree: Path, name: str) -> None:
    before = digest(tree)
    CHANGES[name](tree)
    assert digest(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        "dist/a.whl", ".git/HEAD", "src/deep/__pycache__/x.pyc", ".bakery/runs/x", "p.egg-info/PKG-INFO",
        "build/lib/x", "docs/other.md", "abc", "x7",
    ],
)  # fmt: skip
def test_what_is_ignored_changes_nothing(tree: Path, name: str) -> None:
    before = digest(tree)
    add(name)(tree)
    os.utime(tree / "setup.py", (1, 1))
    assert digest(tree) == before


def test_only_what_steps_read_counts(tree: Path) -> None:
    before = digest(tree, "src/deep", "missing")
    add("src/new.py")(tree)
    assert digest(tree, "src/deep", "missing") == before
    add("src/deep/new.py")(tree)
    assert digest(tree, "src/deep", "missing") != before


SECRET = "password"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with a file that git ignores, one that it does not know, and a link that leads out of the source."""
    ignored = "*.local\n*.so\n_version.py\n*_pb2.py\n"
    files = {".gitignore": ignored, "py/demo/__init__.py": "", "py/demo/data.csv": "1", "LICENSE": "A licence.\n"}
    write_files(tmp_path, files)
    (tmp_path / "py/LICENSE").symlink_to("../LICENSE")
    (tmp_path / "py/demo/same.csv").symlink_to("data.csv")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    made = {"_c.so": "\x7fELF", "_version.py": "v", "x_pb2.py": "# Generated by the protocol buffer compiler."}
    write_files(tmp_path / "py" / "demo", {"new.json": "2", "secret.local": SECRET, **made})
    return tmp_path


def read(project: Path, *accepted: str, inside: str = "py") -> SourceFiles:
    known = git_files(SourceManifest.read(project, [inside], [".git"]), accepted, inside)
    assert known is not None
    return known


def test_what_git_says(project: Path) -> None:
    known = read(project)
    assert [path for path, _ in known.tracked] == ["LICENSE", "demo/__init__.py", "demo/data.csv", "demo/same.csv"]
    assert known.ignored == (("demo/secret.local", hashlib.sha256(SECRET.encode()).hexdigest()),)
    assert known.links == (("LICENSE", "../LICENSE", hashlib.sha256(b"A licence.\n").hexdigest()),)


def test_with_the_whole_checkout_no_link_leads_out(project: Path) -> None:
    known = read(project, inside=".")
    assert known.links == ()
    assert [path for path, _ in known.ignored] == ["py/demo/secret.local"]


def test_what_the_recipe_accepts(project: Path) -> None:
    assert read(project, "py/demo/*.local").ignored == ()


def test_other_repositories_inside_say_nothing_here(project: Path) -> None:
    nested = project / "py" / "third"
    nested.mkdir()
    git(nested, "init", "--quiet")
    write_files(nested, {"x.local": SECRET})
    assert [path for path, _ in read(project).ignored] == ["demo/secret.local"]


def test_a_tracked_file_is_not_ignored(project: Path) -> None:
    git(project, "add", "--force", "py/demo/secret.local")
    assert read(project).ignored == ()


def test_no_checkout(tmp_path: Path) -> None:
    write_files(tmp_path, {"demo.py": ""})
    assert git_files(SourceManifest.read(tmp_path, ["."], []), (), ".") is None
