"""A folder of somebody else's, with its .git: nothing that it names is run on this machine."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from file_trees import write_files
from repositories import commit, compared, git
from sample import sampled
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core import git_command
from bakery.core.errors import BakeError, UsageError
from bakery.core.git import clone, committed, compare_files, origin
from bakery.plan.delivery import Cibuildwheel
from bakery.resolve.changed_cells import Change, changes_since, write_old_recipes
from bakery.runs.cibuildwheel import process
from bakery.runs.repository import description

RECIPE = """\
name = "demo"
[ci]
install = ["wheel-bakery==1.0"]
"""

ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


class Trap:
    """A program that leaves a mark for each time that it is run."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder / "marks"
        self.program = folder / "evil"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.marks}\nexit 1\n')
        self.program.chmod(0o755)

    def sprung(self) -> str:
        return self.marks.read_text() if self.marks.exists() else ""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    (tmp_path / "trap").mkdir()
    return Trap(tmp_path / "trap")


def project(folder: Path) -> Path:
    files = {
        "bakery.toml": RECIPE,
        "pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n',
        "demo.py": "",
        ".gitattributes": ATTRIBUTES,
    }
    write_files(folder, files)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def arm(folder: Path, trap: Trap) -> None:
    """Name the program wherever a repository's own configuration can name one."""
    program = str(trap.program)
    for key, value in {
        "core.fsmonitor": program,
        "core.pager": program,
        "core.editor": program,
        "core.sshCommand": program,
        "core.gitProxy": program,
        "core.askPass": program,
        "core.alternateRefsCommand": program,
        "core.hooksPath": str(folder / ".git" / "hooks"),
        "credential.helper": program,
        "diff.external": program,
        "diff.evil.command": program,
        "diff.evil.textconv": program,
        "filter.evil.clean": f"{program} clean",
        "filter.evil.smudge": f"{program} smudge",
        "filter.evil.required": "true",
        "gpg.program": program,
        "log.showSignature": "true",
        "merge.evil.driver": program,
        "uploadpack.packObjectsHook": program,
        "remote.origin.url": f"{folder}",
        "remote.origin.uploadpack": program,
        **{f"alias.{name}": f"!{program}" for name in ("diff", "ls-files", "rev-parse", "rev-list", "clone", "plan")},
        **{f"pager.{name}": program for name in ("diff", "ls-files", "rev-parse", "rev-list", "cat-file")},
    }.items():
        git(folder, "config", key, value)
    (folder / ".git" / "included").write_text(f'[filter "more"]\n\tprocess = {program}\n')
    git(folder, "config", "include.path", "included")
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-commit"):
        shutil.copy2(trap.program, hooks / name)


@pytest.fixture
def hostile(tmp_path: Path, trap: Trap) -> Path:
    folder = project(tmp_path / "theirs")
    arm(folder, trap)
    # Git asks the filters about files that are not as the index says.
    (folder / "demo.py").write_text("x = 1\n")
    os.utime(folder / "pyproject.toml", (1, 1))
    return folder


def commands(folder: Path, place: Path) -> None:
    """Do all that bakery does in a checkout."""
    head = (folder / ".git" / "refs" / "heads" / "main").read_text().strip()
    assert committed(folder) is not None
    found = compared(folder, ["demo.py", "pyproject.toml", "new.py"])
    assert found.commit == head
    assert set(found.changed) >= {"demo.py", "new.py"}
    assert origin(folder) == ""
    there = clone(folder, head, place)
    assert there is not None
    assert (there / "bakery.toml").read_text() == RECIPE
    changed = changes_since(folder, "HEAD")
    assert "demo.py" in changed.files
    write_old_recipes(changed, place / "then")
    assert (place / "then" / "bakery.toml").read_text() == RECIPE


def test_git_runs_nothing_that_a_checkout_names(hostile: Path, trap: Trap, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    commands(hostile, tmp_path / "place")
    assert trap.sprung() == ""


def test_the_trap_is_one(hostile: Path, trap: Trap) -> None:
    subprocess.run(["git", "-C", hostile, "diff", "--name-only", "HEAD"], capture_output=True, check=False)
    assert trap.sprung()


@pytest.mark.parametrize("words", [("plan",), ("plan", "--since", "HEAD"), ("generate",), ("generate", "--check")])
def test_commands_in_a_hostile_checkout(
    hostile: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(hostile)
    CliRunner().invoke(app, list(words), catch_exceptions=True)
    assert trap.sprung() == ""


def test_a_missing_object_is_not_fetched(hostile: Path, trap: Trap, tmp_path: Path) -> None:
    """A partial clone fetches what it lacks from the remote that its configuration names, by the program it names."""
    git(hostile, "config", "core.repositoryformatversion", "1")
    git(hostile, "config", "extensions.partialClone", "origin")
    git(hostile, "config", "remote.origin.promisor", "true")
    head = git(hostile, "rev-parse", "HEAD")
    shutil.rmtree(hostile / ".git" / "objects" / head[:2])
    assert committed(hostile) is None
    assert compare_files(hostile, ["demo.py"]) is None
    assert clone(hostile, head, tmp_path) is None
    with pytest.raises(UsageError):
        changes_since(hostile, "HEAD")
    assert trap.sprung() == ""


def test_a_hostile_submodule_runs_nothing(tmp_path: Path, trap: Trap) -> None:
    folder = project(tmp_path / "theirs")
    inner = project(folder / "inner")
    git(folder, "add", "inner")
    git(folder, "commit", "--quiet", "--message", "a submodule")
    assert changes_since(folder, "HEAD").files == ()
    arm(inner, trap)
    (inner / "demo.py").write_text("x = 1\n")
    assert "inner/demo.py" in compared(folder, ["demo.py", "inner/demo.py"]).changed
    # What is not as committed in a submodule counts.
    assert changes_since(folder, "HEAD").files == ("inner",)
    assert trap.sprung() == ""
    shutil.rmtree(inner)
    inner.symlink_to(".")
    assert "inner" in changes_since(folder, "HEAD").files


def test_a_work_tree_elsewhere_is_no_checkout_of_the_folder(tmp_path: Path) -> None:
    victim = project(tmp_path / "private")
    hostile = project(tmp_path / "theirs")
    git(hostile, "config", "core.worktree", str(victim))
    head = (hostile / ".git" / "refs" / "heads" / "main").read_text().strip()
    assert compare_files(hostile, ["demo.py"]) is None
    assert clone(hostile, head, tmp_path) is None
    with pytest.raises(UsageError):
        changes_since(hostile, "HEAD")


def gitfile(folder: Path, git_dir: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {git_dir}\n")


def common_folder(folder: Path, git_dir: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "commondir").write_text(f"{git_dir}\n")


def links(folder: Path, git_dir: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (folder / ".git" / name).symlink_to(git_dir / name)


def worktree_of_another(folder: Path, git_dir: Path) -> None:
    git(git_dir.parent, "worktree", "add", "--quiet", str(git_dir.parent.parent / "second"))
    gitfile(folder, git_dir / "worktrees" / "second")


@pytest.mark.parametrize(
    "kind", [gitfile, common_folder, links, worktree_of_another, lambda a, b: (a / ".git").symlink_to(b)]
)
def test_a_repository_elsewhere_is_not_that_of_the_folder(tmp_path: Path, kind: Callable[[Path, Path], None]) -> None:
    """Names of files and tags of a private repository would get into the build."""
    victim = project(tmp_path / "private")
    git(victim, "tag", "v1-topsecret")
    hostile = tmp_path / "theirs"
    hostile.mkdir()
    (hostile / "bakery.toml").write_text(RECIPE)
    kind(hostile, victim / ".git")
    assert git(hostile, "tag") == "v1-topsecret"
    assert description(hostile, {}) == {}
    assert compare_files(hostile, ["bakery.toml"]) is None
    with pytest.raises(UsageError):
        changes_since(hostile, "HEAD")


def linked(folder: Path) -> Path:
    """Give a second work tree of a repository, whose .git is a file."""
    git(folder, "worktree", "add", "--quiet", str(folder.parent / "linked"))
    return folder.parent / "linked"


def shallow(folder: Path) -> Path:
    for number in range(2):
        (folder / "other.txt").write_text(str(number))
        git(folder, "add", "other.txt")
        git(folder, "commit", "--quiet", "--message", str(number))
    git(folder.parent, "clone", "--quiet", "--depth", "1", f"file://{folder}", "shallow")
    return folder.parent / "shallow"


def below(folder: Path) -> Path:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "demo.py").write_text("")
    git(folder, "add", "pkg")
    git(folder, "commit", "--quiet", "--message", "a folder")
    return folder / "pkg"


def submodule(folder: Path) -> Path:
    inner = project(folder.parent / "inner")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    assert (folder / "sub" / ".git").is_file()
    return folder / "sub"


@pytest.mark.parametrize("kind", [linked, shallow, below, submodule])
def test_checkouts_of_other_kinds_are_understood(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    folder = kind(project(tmp_path / "mine"))
    assert committed(folder) is not None
    found = compared(folder, ["demo.py"])
    assert found.changed == ()
    assert changes_since(folder, "HEAD").files == ()
    (tmp_path / "place").mkdir()
    there = clone(folder, found.commit, tmp_path / "place")
    assert there is not None
    assert compare_files(there, ["demo.py"]) == found
    assert committed(there) == committed(folder)
    (folder / "demo.py").write_text("x = 1\n")
    assert compared(folder, ["demo.py"]).changed == ("demo.py",)


def test_what_the_checkout_says_of_line_ends_and_modes_counts(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    project(folder)
    (folder / ".gitattributes").write_text("* text\n")
    commit(folder)
    git(folder, "config", "core.autocrlf", "true")
    git(folder, "config", "core.filemode", "false")
    (folder / "demo.py").write_bytes(b"x\r\n")
    (folder / "demo.py").chmod(0o755)
    git(folder, "commit", "--quiet", "--all", "--message", "crlf")
    os.utime(folder / "demo.py", (1, 1))
    assert compared(folder, ["demo.py"]).changed == ()


def test_a_filter_of_the_person_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As LFS has them: configured by who works here, chosen by the checkout's attributes."""
    config = tmp_path / "gitconfig"
    config.write_text('[filter "evil"]\n\tclean = sed s/here/there/\n\tsmudge = sed s/there/here/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    folder = project(tmp_path / "mine")
    (folder / "demo.py").write_text("x = 'here'\n")
    environment = {
        **os.environ,
        **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    subprocess.run(["git", "-C", folder, "commit", "-qam", "x"], env=environment, check=True)
    assert "there" in git(folder, "show", "HEAD:demo.py")
    os.utime(folder / "demo.py", (1, 1))
    found = compared(folder, ["demo.py"])
    assert found.changed == ()
    (tmp_path / "place").mkdir()
    there = clone(folder, found.commit, tmp_path / "place")
    assert there is not None
    assert (there / "demo.py").read_text() == "x = 'here'\n"


# --- Python and PATH ------------------------------------------------------------------------------


def modules(folder: Path, trap: Trap) -> None:
    """Put modules into a folder that leave a mark when they are imported."""
    text = f"open({str(trap.marks)!r}, 'a').write(__name__ + chr(10))\nraise ImportError(__name__)\n"
    for name in (
        "typer",
        "rich",
        "pydantic",
        "typing",
        "json",
        "tomllib",
        "sitecustomize",
        "usercustomize",
        "pip",
        "re2",
    ):
        (folder / f"{name}.py").write_text(text)
    for name in ("cibuildwheel", "auditwheel", "abi3audit"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)


SCRIPT = Path(sys.executable).parent / "wheel-bakery"


COMMANDS = {
    "script": (str(SCRIPT),),
    "module": (sys.executable, "-m", "bakery"),
    "module-P": (sys.executable, "-P", "-m", "bakery"),
}


@pytest.mark.parametrize(
    ("command", "words"),
    sampled(((command, words) for words in ("--version", "plan", "generate", "rules") for command in COMMANDS), 4),
)
def test_no_module_of_the_working_folder_is_imported(tmp_path: Path, trap: Trap, command: str, words: str) -> None:
    folder = project(tmp_path / "theirs")
    modules(folder, trap)
    done = subprocess.run([*COMMANDS[command], words], cwd=folder, capture_output=True, text=True, check=False)
    assert trap.sprung() == ""
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_programs_of_python_import_no_module_of_the_working_folder(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "theirs")
    modules(folder, trap)
    monkeypatch.chdir(folder)
    subprocess.run([*process.command(os.environ), "--help"], check=True, capture_output=True)
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9/\n")
    environment = {**os.environ, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    # Beside the program, too.
    (tmp_path / "stage").mkdir()
    modules(tmp_path / "stage", trap)
    with pytest.raises(BakeError, match="the source cannot be fetched") as caught:
        process.fetch(Cibuildwheel(sdist="demo==1.0"), tmp_path / "stage" / "source", environment)
    # It came as far as the index that pip's configuration names.
    assert "Connection refused" in str(caught.value.details)
    assert trap.sprung() == ""


def test_a_program_of_the_working_folder_is_not_run(tmp_path: Path, trap: Trap) -> None:
    folder = project(tmp_path / "theirs")
    for name in ("git", "docker"):
        shutil.copy2(trap.program, folder / name)
    environment = {**os.environ, "PATH": os.pathsep.join(["", ".", "bin", os.environ["PATH"]])}
    for words in (("plan",), ("doctor",)):
        subprocess.run([SCRIPT, *words], cwd=folder, env=environment, capture_output=True, check=False)
    assert trap.sprung() == ""


def tree(folder: Path, *entries: tuple[str, str, str]) -> str:
    """Write a tree object as no git command would, from mode, name and id; return its id."""
    data = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(digest) for mode, name, digest in entries)
    command = ["git", "-C", str(folder), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize(
    "names",
    [["a", "..", "..", "victim"], ["..", "victim"], [".git"], ["a", ".GIT"], ["a\nb"], [".", "a"]],
    ids="/".join,
)
def test_the_names_of_a_tree_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    folder, victim = project(tmp_path / "theirs"), tmp_path / "victim"
    victim.mkdir()
    (victim / "bakery.toml").write_text("mine")
    (folder / "evil").write_text('name = "evil"\n')
    found = ("100644", "bakery.toml", git(folder, "hash-object", "-w", "evil"))
    (folder / "evil").unlink()
    for name in reversed(names):
        found = ("40000", name, tree(folder, found))
    commit = git(folder, "commit-tree", tree(folder, found), "-m", "x")
    git(folder, "update-ref", "refs/heads/old", commit)
    temporary = tmp_path / "tmp" / "deep" / "er"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(folder)
    before = sorted(path for path in tmp_path.rglob("*") if ".git" not in path.parts)
    # Some releases of git refuse such a tree before.
    assert isinstance(CliRunner().invoke(app, ["plan", "--since", "old"]).exception, UsageError)
    (temporary / "old").mkdir()
    with pytest.raises(UsageError, match="refusing the name"):
        write_old_recipes(Change("old", commit, folder, ()), temporary / "old")
    (temporary / "old").rmdir()
    assert sorted(path for path in tmp_path.rglob("*") if ".git" not in path.parts) == before
    assert (victim / "bakery.toml").read_text() == "mine"


def test_a_link_named_like_a_recipe_is_no_recipe_of_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path / "theirs")
    (folder / "sub").mkdir()
    (folder / "sub" / "bakery.toml").symlink_to("/etc/passwd")
    commit(folder)
    monkeypatch.chdir(folder)
    write_old_recipes(changes_since(folder, "HEAD"), tmp_path / "old")
    assert [path.relative_to(tmp_path / "old").as_posix() for path in (tmp_path / "old").rglob("*.toml")] == [
        "bakery.toml",
        "pyproject.toml",
    ]


@pytest.mark.parametrize(
    "name",
    ["HEAD", "config", "refs/heads/main", "index", "packed-refs", "info/exclude", "info/attributes", "../.gitignore",
     "../sub/.gitattributes"],
)  # fmt: skip
def test_a_pipe_in_a_repository_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = project(tmp_path / "theirs")
    path = folder / ".git" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    monkeypatch.setattr(git_command, "_ANSWER_S", 1.0)
    monkeypatch.chdir(folder)
    began = time.monotonic()
    CliRunner().invoke(app, ["plan"])
    CliRunner().invoke(app, ["plan", "--since", "HEAD"])
    assert time.monotonic() - began < 12


def test_git_ends_with_the_command(tmp_path: Path) -> None:
    """A signal that ends Bakery also ends a git that waits."""
    folder = project(tmp_path / "theirs")
    (folder / ".gitignore").unlink(missing_ok=True)
    os.mkfifo(folder / ".gitignore")
    with subprocess.Popen([SCRIPT, "plan", "--since", "HEAD"], cwd=folder, stderr=subprocess.PIPE) as child:
        time.sleep(4)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 130


def test_a_configuration_that_includes_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path / "theirs")
    os.mkfifo(folder / "pipe")
    with (folder / ".git" / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {folder / 'pipe'}\n")
    monkeypatch.setattr(git_command, "_ANSWER_S", 1.0)
    monkeypatch.setattr(git_command, "_TIMES_S", {})
    monkeypatch.chdir(folder)
    began = time.monotonic()
    CliRunner().invoke(app, ["plan", "--since", "HEAD"])
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("words", [["plan"], ["plan", "--since", "HEAD"], ["plan", "--since", "HEAD~1"]])
def test_a_commit_with_more_files_than_there_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """A few kilobytes of trees that name each other have 10^10 recipes."""
    folder = project(tmp_path / "theirs")
    blob = git(folder, "rev-parse", "HEAD:bakery.toml").strip()
    rows = "".join(f"100644 blob {blob}\t{name}\n" for name in ("bakery.toml", "pyproject.toml"))
    for _ in range(10):
        tree = tree_of(folder, rows)
        rows = "".join(f"040000 tree {tree}\t{number}\n" for number in range(10))
    rows += f"100644 blob {blob}\tbakery.toml\n"
    commit = git(folder, "commit-tree", tree_of(folder, rows), "-p", "HEAD", "-m", "bomb").strip()
    git(folder, "update-ref", "HEAD", commit)
    monkeypatch.setattr(git_command, "_ANSWER_S", 2.0)
    monkeypatch.setattr(git_command, "_TIMES_S", {})
    monkeypatch.setattr(git_command, "_FILES_S", 2.0)
    monkeypatch.chdir(folder)
    began = time.monotonic()
    # A process of its own: the memory of children is that of the largest one that a process ever had.
    child = os.fork()
    if child == 0:
        CliRunner().invoke(app, words)
        os._exit(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >= 1 << 20)
    assert os.waitpid(child, 0)[1] == 0
    assert time.monotonic() - began < 20


def tree_of(folder: Path, rows: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "mktree"], input=rows, capture_output=True, text=True, check=True
    ).stdout.strip()


def committed_run(folder: Path, report: str = "{}") -> Path:
    run = folder / ".bakery" / "runs" / "20260101T000000Z-1"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "wheel-cp311.log").write_text("\x1b]52;c;evil\x07")
    (run / "report.json").write_text(report)
    return run


@pytest.mark.parametrize(
    "words", [["report"], ["report", "20260101T000000Z-1"], ["logs"], ["profile", "cp311"], ["why", "cp311"]]
)
def test_a_run_that_a_checkout_brings_is_not_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    folder, victim = project(tmp_path / "theirs"), tmp_path / "rcfile"
    victim.write_text("mine")
    run = committed_run(folder, '{"recipe": "demo", "targets": [[]], "failures": [], "seconds": 1, "started": 1}')
    (run / "report.html").symlink_to(victim)
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, UsageError)
    assert "evil" not in result.output
    assert victim.read_text() == "mine"


def test_links_to_private_files_do_not_get_into_a_build(tmp_path: Path) -> None:
    top, secret = project(tmp_path / "theirs"), tmp_path / "id_rsa"
    secret.write_text("topsecret\n")
    (top / "sub").mkdir()
    (top / "sub" / "a.py").write_text("")
    commit(top)
    (top / ".git" / "info").mkdir(exist_ok=True)
    for path in (top / ".git" / "info" / "exclude", top / ".gitignore"):
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
    assert "topsecret" not in repr(description(top / "sub", {"HOME": str(tmp_path)}))
