"""Build backends get the same answers from the repository that Bakery makes as from the checkout; the tools are real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers import git_questions
from helpers.checkout_states import STATES
from helpers.leaking_projects import BACKENDS, PASSWORD, leaking
from helpers.repositories import commit
from helpers.version_tools import TOOLS, environment_of
from sample import sampled

from bakery.core import git_command
from bakery.core.source_manifest import SourceManifest
from bakery.runs.repository import description
from bakery.runs.source_files import git_files
from bakery.toolchains.programs import repository, with_repository
from wheel_audit.checks import source
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.wheel import read_wheel

PROGRAM = Path(with_repository.__file__)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with all tools."""
    return environment_of(tmp_path_factory.mktemp("tools") / "environment")


def sent(checkout: Path, target: Path) -> Path:
    """Copy what a build is sent of a checkout: no git."""
    shutil.copytree(checkout, target, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.egg-info"))
    return target


class Step:
    """The two runs of a step for a checkout, as the stages of a Dockerfile have them."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in {"rules/": "", **description(checkout, {})}.items():
            (folder / "described" / name).parent.mkdir(parents=True, exist_ok=True)
            if text or not name.endswith("/"):
                (folder / "described" / name).write_text(text)
        self.pristine = sent(checkout, folder / "pristine")

    def run(self, which: str, command: list[str], result: Path) -> subprocess.CompletedProcess[str]:
        """Run the program in fresh places, and return how it ended."""
        source = self.folder / which / "src"
        shutil.copytree(self.folder / "asked" / "source" if which == "again" else self.pristine, source, symlinks=True)
        places = {
            "ABOVE": source.parent,
            "SOURCE": source,
            "PRISTINE": self.pristine,
            "ASKED": self.folder / "asked",
            "GIVEN": self.folder / ("described/state" if which == "again" else "nothing") / "repository.json",
            "RULES": self.folder / "described" / "rules",
            "EPOCH": self.folder / "asked" / "epoch",
        }
        code = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import with_repository as program\n"
        code += "".join(f"program.{name} = {str(path)!r}\n" for name, path in places.items())
        named = [str(source) if word == "." else word for word in command]
        words = [sys.executable, "-c", f"{code}program.main()", which, str(result), "--", *named]
        return subprocess.run(words, cwd=source, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    @property
    def asked(self) -> bool:
        """Whether the first run had a question."""
        return (self.folder / "asked" / "choice" / "repository").is_symlink()


CARGO = shutil.which("cargo")
HOMES = {
    name: os.environ.get(name, str(Path.home() / f".{name[:-5].lower()}")) for name in ("CARGO_HOME", "RUSTUP_HOME")
}
ENVIRONMENT = {
    **HOMES,
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


def command(python: Path, out: Path) -> list[str]:
    path = f"{python.parent}:{ENVIRONMENT['PATH']}"
    words = ["-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(out), "."]
    return ["env", f"PATH={path}", str(python), *words]


def packed(folder: Path) -> Mapping[str, Mapping[str, int]]:
    """Return wheel → file → checksum; of RECORD, only that it is there."""
    wheels = {}
    for path in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            wheels[path.name] = {
                info.filename: 0 if info.filename.endswith("/RECORD") else info.CRC for info in archive.infolist()
            }
    return wheels


# A build file of meson names each file: without one, pip builds nothing of the checkout either.
CASES = [(tool, state) for tool in TOOLS for state in STATES if (tool, state) != ("meson", "deleted")]
"""Their number of states has no common divisor with what is sampled: each case of the sample has another tool and state."""


@pytest.mark.parametrize(("tool", "state"), sampled(CASES, 121))
def test_tools_answer_as_in_the_checkout(python: Path, tmp_path: Path, tool: str, state: str) -> None:
    checkout = STATES[state](tmp_path / "made", tool)
    step = Step(checkout, tmp_path / "step")
    first = step.run("first", command(python, tmp_path / "ours"), tmp_path / "ours")
    assert step.asked, first.stdout + first.stderr
    assert first.returncode == 0
    assert not packed(tmp_path / "ours")
    ours = step.run("again", command(python, tmp_path / "ours"), tmp_path / "ours")
    words = command(python, tmp_path / "theirs")
    theirs = subprocess.run(words, cwd=checkout, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert theirs.returncode == 0, theirs.stdout + theirs.stderr
    assert ours.returncode == 0, ours.stdout + ours.stderr
    assert packed(tmp_path / "ours") == packed(tmp_path / "theirs")


@pytest.mark.parametrize("state", sampled(STATES, 2))
def test_git_answers_as_in_the_checkout(tmp_path: Path, state: str) -> None:
    checkout = STATES[state](tmp_path / "made", "setuptools-scm")
    step, given, ours, theirs = Step(checkout, tmp_path / "step"), tmp_path / "given", *("ours.json", "theirs.json")
    for which in ("first", "again"):
        # A command that names the source has it at its place in the repository.
        done = step.run(which, [sys.executable, git_questions.__file__, str(tmp_path / ours), "."], given)
        assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(
        [sys.executable, git_questions.__file__, tmp_path / theirs, "."], cwd=checkout, env=ENVIRONMENT, check=True
    )
    answers = [json.loads((tmp_path / name).read_text()) for name in (ours, theirs)]
    if state == "sparse":
        # Files that are not here are not tracked: nobody can pack them.
        answers[1] = {question: answer.replace("large/file.bin\n", "") for question, answer in answers[1].items()}
    assert answers[0] == answers[1]


def built(python: Path, checkout: Path, folder: Path) -> tuple[Path, Path]:
    """Build a checkout with the two runs of a step, and with pip; return the folders of both wheels."""
    ours, theirs = folder / "ours", folder / "theirs"
    step = Step(checkout, folder / "step")
    done = step.run("first", command(python, ours), ours)
    assert done.returncode == 0, done.stdout + done.stderr
    if step.asked:
        done = step.run("again", command(python, ours), ours)
        assert done.returncode == 0, done.stdout + done.stderr
    words = command(python, theirs)
    subprocess.run(words, cwd=checkout, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return ours, theirs


PACKED = ("pdm-backend", "flit-core", "meson-python")
"""Backends that pack what git ignores, also in the checkout: the audit refuses their wheel."""


@pytest.mark.parametrize("backend", sampled(BACKENDS, len(BACKENDS)))
def test_password_in_an_ignored_file_is_published_by_no_backend(python: Path, tmp_path: Path, backend: str) -> None:
    if backend == "maturin" and not CARGO:
        pytest.skip("needs cargo")
    checkout = leaking(tmp_path / "checkout", backend)
    promised = git_files(SourceManifest.read(checkout, ["."], [".git"]), (), ".")
    ours, theirs = built(python, checkout, tmp_path)
    (wheel,), (names,) = [*ours.glob("*.whl")], packed(ours).values()
    assert packed(theirs)[wheel.name].keys() == names.keys()
    assert "pkg/data.txt" in names
    with zipfile.ZipFile(wheel) as archive:
        leaked = [name for name in names if PASSWORD.encode() in archive.read(name)]
    assert leaked == (["pkg/settings.local"] if backend in PACKED else [])
    found = [
        item.file
        for item in source.check(read_wheel(wheel), ExpectedWheel(source=promised))
        if item.check == "ignored-file"
    ]
    assert found == leaked


BELOW = {
    "root": ("setuptools", "root = '..'\n"),
    "write_to": ("setuptools", "root = '..'\nwrite_to = 'sub/pkg/_version.py'\n"),
    "search": ("setuptools", "search_parent_directories = true\n"),
    "poetry": ("poetry-core", ""),
    "hatchling": ("hatchling", ""),
}


@pytest.mark.parametrize("hashing", [pytest.param("sha1", marks=pytest.mark.proof), "sha256"])
@pytest.mark.parametrize("case", sampled(BELOW, len(BELOW)))
def test_source_below_the_top_is_built_as_in_the_checkout(
    python: Path, tmp_path: Path, case: str, hashing: str
) -> None:
    backend, more = BELOW[case]
    ours, theirs = built(python, leaking(tmp_path / "checkout", backend, "sub", more, hashing), tmp_path)
    assert packed(ours) == packed(theirs)
    (names,) = packed(ours).values()
    assert "pkg/data.txt" in names
    assert "pkg/settings.local" not in names


def answers(checkout: Path, folder: Path, *commands: str, word: str = "") -> tuple[str, str]:
    """Return what commands print in the repository that is made, and in the checkout.

    ``word``: how they name the source.
    """
    texts = []
    step = Step(checkout, folder / "step")
    for name in ("first", "again", ""):
        out = folder / (name or "theirs")
        words = ["sh", "-c", f'mkdir -p {out}; cd "${{1:-.}}"; ({"; ".join(commands)}) > {out}/text', "sh", word]
        if name:
            assert step.run(name, words, out).returncode == 0
        else:
            subprocess.run(words, cwd=checkout, env=ENVIRONMENT, check=True)
        texts += [(out / "text").read_text()] if name != "first" else []
    return texts[0], texts[1]


@pytest.mark.parametrize(
    "rules",
    [
        "/s?b/*.local", "**/sub/**/*.local", "sub", "/s*/", "*.local\n!/sub/pkg/*.local", "/sub/*\n!/sub/pkg/",
        "/[r-t]ub/pkg/x.*",
    ],
)  # fmt: skip
def test_rules_above_the_source_ignore_the_same_files(tmp_path: Path, rules: str) -> None:
    checkout = leaking(tmp_path / "checkout", "setuptools", "sub")
    (checkout.parent / ".gitignore").write_text(f"{rules}\n")
    (checkout / "pkg/x.local").write_text("x")
    (checkout / "new.txt").write_text("x")
    listed = "git ls-files --others --ignored --exclude-standard"
    ours, theirs = answers(checkout, tmp_path, listed)
    assert ours == theirs


@pytest.mark.parametrize(("word", "prefix"), [("", "src/"), (".", "a/s[u]b !/")])
def test_source_below_the_top_is_clean_and_has_its_place(tmp_path: Path, word: str, prefix: str) -> None:
    """A command that names the source has it below its real top; another one sees nothing of the image's files."""
    checkout = leaking(tmp_path / "checkout", "setuptools", "a/s[u]b !")
    texts = answers(checkout, tmp_path, "git status --porcelain", "git rev-parse --show-prefix", word=word)
    assert texts == (f"{prefix}\n", "a/s[u]b !/\n")


def test_files_that_git_does_not_list_end_a_build_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of very many files: its list is refused, not taken for empty. The source may have few of them."""
    project = leaking(tmp_path / "checkout", "setuptools", "sub")
    for number in range(200):
        (project.parent / f"file {number} {'x' * 100}").write_text("")
    commit(project.parent, 1_700_000_200)
    monkeypatch.setattr(git_command, "_LONGEST_LIST", 10_000)
    assert set(json.loads(description(project, {})[repository.STATE])["files"]) == {
        f"sub/{name}" for name in ("pkg/__init__.py", "pkg/data.txt", "pyproject.toml")
    }
    step = Step(project.parent, tmp_path / "step")
    done = step.run("first", ["git", "describe"], tmp_path / "out")
    assert (done.returncode, step.asked) == (1, False)
    assert "the build asks git, and git does not tell the files" in done.stderr


def test_a_repository_says_nothing_of_a_folder_that_it_ignores(tmp_path: Path) -> None:
    checkout = leaking(tmp_path / "checkout", "setuptools")
    (checkout / ".gitignore").write_text("work/\n")
    (checkout / "work").mkdir()
    (checkout / "work/data.txt").write_text("x")
    assert git_files(SourceManifest.read(checkout / "work", ["."], [".git"]), (), ".") is None
