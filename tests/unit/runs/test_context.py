"""What is sent to the engine: BuildKit's ignore patterns, sizes, and files that look like secrets."""

from __future__ import annotations

import posixpath
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.core.dockerignore import Ignore, _compiled, _Group, check_ignored, normalised
from bakery.core.errors import RecipeError
from bakery.core.source_manifest import SourceManifest
from bakery.core.text import compile_linear
from bakery.plan.model import Plan
from bakery.plan.options import SourceContext
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.source_context import IGNORED
from bakery.runs.source_files import scan, source_of, warnings
from bakery.toolchains import facts

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def planned(tmp_path: Path, text: str = "") -> Plan:
    (tmp_path / "bakery.toml").write_text('name = "one"\n' + text)
    return resolve(load(None, tmp_path)[0])


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
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
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
    for name, size in (("data/a/b.bin", 3_000_000), ("models/x.bin", 2_000_000), ("build/lib/x", 9_000_000)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"0" * size)
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
def test_a_hundred_thousand_files_take_less_than_a_second(tmp_path: Path) -> None:
    for folder in range(100):
        (tmp_path / f"f{folder}" / "src").mkdir(parents=True)
        for number in range(1000):
            (tmp_path / f"f{folder}" / "src" / f"file{number}.py").touch()
    began = time.process_time()
    found = scan(SourceManifest.read(tmp_path, ["."], [*IGNORED, "data/**/*.bin"]), SourceContext(".", (), 1))
    assert found.files == 100_000
    assert time.process_time() - began < 1.0


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
