"""What git says of a source folder: its last commit, and what was changed since.

A checkout may be anybody's, and so may its ``.git``. Git runs programs that a repository's configuration names: the file
system monitor, filters, hooks, differs, what fetches a missing object. Here it runs none of them. What only reads
objects may fetch nothing; what looks at files does so with a configuration in place of the repository's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_NOT_SOURCE = ("bakery.toml", "bake", "dockerfiles")
"""Recipes and the files made of them stand beside a source and enter no build: their commits change no wheel."""

_FIXED = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A missing object would be fetched by a program that the repository's configuration names.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_OVERRIDES = (
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Set while a hook runs; they would lead git to another repository than the folder's."""

_TIMEOUT_S = 600.0

_PLAIN = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|checkstat|trustctime|sparsecheckout)$"
"""What of a repository's configuration says how its files are to be compared; none of it names a program."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files in a git repository.

    Attributes:
        commit: the checked-out commit, 40 or 64 hex digits.
        changed: which of the files are not as in the commit: changed, unknown to git, or missing.
    """

    commit: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Repository:
    """Where the parts of a folder's repository are.

    Attributes:
        top: the root of the work tree.
        own: the git directory of this work tree.
        common: the git directory that all work trees share.
        objects: the hash that names objects: ``sha1`` or ``sha256``.
    """

    top: Path
    own: Path
    common: Path
    objects: str


def committed(folder: Path) -> int | None:
    """Return when a folder was last changed by a commit, in seconds since 1970; None where git knows none.

    What is changed since does not count: work in progress would else be another moment for each build.
    A shallow clone knows only its newest commits, and gives the time of the oldest of these for what is older.
    """
    paths = [".", *(f":(exclude,glob)**/{name}{tail}" for name in _NOT_SOURCE for tail in ("", "/**"))]
    said = git(folder, "rev-list", "--max-count=1", "--timestamp", "HEAD", "--", *paths)
    return int(said.split()[0]) if said else None


def look(folder: Path, names: Iterable[str]) -> Checkout | None:
    """Return what git says of files below a folder; None where it is no checkout, or knows none of the files.

    Args:
        names: the files, relative to the folder.
    """
    sent = set(names)
    commit = (git(folder, "rev-parse", "HEAD") or "").strip()
    with _compared(folder) as environment:
        if not commit or environment is None:
            return None
        tracked = _listed(git(folder, "ls-files", "-z", environment=environment))
        if not tracked or not sent & tracked:
            return None
        differ = _listed(git(folder, *_DIFF, "--relative", commit, "--", environment=environment))
    if differ is None:
        return None
    beside = {str(Path(name).parent) for name in sent}
    gone = {name for name in differ - sent if str(Path(name).parent) in beside and not (folder / name).exists()}
    return Checkout(commit, tuple(sorted((sent - tracked) | (sent & differ) | gone)))


_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "--name-only", "-z")
"""Git looks into a submodule by a process of its own, with that submodule's configuration."""


def top_of(folder: Path) -> Path | None:
    """Return the root of the checkout that a folder is in; None where it is in none."""
    found = _repository(folder)
    return found.top if found else None


def differing(top: Path, commit: str) -> set[str] | None:
    """Return the files of a checkout that are not as in a commit, untracked ones among them; None where git fails.

    A submodule in which anything is not as committed is one of them.

    Args:
        top: the root of the checkout.
    """
    with _compared(top) as environment:
        if environment is None:
            return None
        changed = _listed(git(top, *_DIFF, commit, "--", environment=environment))
        others = _listed(git(top, "ls-files", "--others", "--exclude-standard", "-z", environment=environment))
        staged = _listed(git(top, "ls-files", "--stage", "-z", environment=environment))
    if changed is None or others is None or staged is None:
        return None
    modules = [entry.partition("\t")[2] for entry in staged if entry.startswith("160000 ")]
    return changed | others | {name for name in modules if _is_dirty(top / name)}


def _is_dirty(submodule: Path) -> bool:
    if not (submodule / ".git").exists():
        return False
    commit = (git(submodule, "rev-parse", "HEAD") or "").strip()
    # A link, or a repository that git does not know as one, leads elsewhere.
    return top_of(submodule) != submodule or differing(submodule, commit) != set()


def _listed(text: str | None) -> set[str] | None:
    return None if text is None else {name for name in text.split("\0") if name}


def clone(folder: Path, commit: str, place: Path) -> Path | None:
    """Check a commit of the folder's repository out into an empty folder; return where ``folder`` is in it.

    Nothing is fetched, no hook runs, and the repository and its checkout stay as they are. Filters run where the
    person's own configuration names them. None where the repository lacks the commit.
    """
    found = _repository(folder)
    if found is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        return None
    inside = place / "source"
    if git(place, "init", "--quiet", "--template=", f"--object-format={found.objects}", "source") is None:
        return None
    information = inside / ".git" / "objects" / "info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "alternates").write_bytes(os.fsencode(found.common / "objects") + b"\n")
    if (found.common / "shallow").is_file():
        shutil.copyfile(found.common / "shallow", inside / ".git" / "shallow")
    # LFS takes files from there.
    git(inside, "config", "remote.origin.url", str(found.top))
    if git(inside, "checkout", "--quiet", "--detach", commit) is None:
        return None
    return inside / folder.resolve().relative_to(found.top)


def origin(folder: Path) -> str:
    """Return the address of a checkout's remote ``origin``; empty where there is none or it is on this machine."""
    found = (git(folder, "remote", "get-url", "origin") or "").strip()
    return found if re.match(r"(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:", found) else ""


def _repository(folder: Path) -> _Repository | None:
    """Return the repository of a folder; None where it is in none, or in one whose work tree is elsewhere."""
    asked = ("--show-object-format", "--show-toplevel", "--git-dir", "--git-common-dir")
    said = git(folder, "rev-parse", "--path-format=absolute", *asked)
    lines = (said or "").splitlines()
    if len(lines) != len(asked):
        return None
    top, own, common = (Path(line).resolve() for line in lines[1:])
    if not folder.resolve().is_relative_to(top) or not (top / ".git").exists():
        return None
    return _Repository(top, own, common, lines[0])


@contextmanager
def _compared(folder: Path) -> Iterator[Mapping[str, str] | None]:
    """Give the environment in which git compares a folder's files under a configuration that names no program.

    Git takes objects and the index from the repository, and all else from a folder that is made here. The person's
    own configuration counts: LFS is a filter there. None where the folder is in no checkout.
    """
    found = _repository(folder)
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bakery-git-") as made:
        place = Path(made)
        (place / "refs").mkdir()
        (place / "config").write_text(_configuration(found), encoding="utf-8")
        if (found.common / "info").is_dir():
            # Patterns of files to ignore, and attributes.
            (place / "info").symlink_to(found.common / "info")
        yield {
            "GIT_DIR": str(found.own),
            "GIT_COMMON_DIR": made,
            "GIT_OBJECT_DIRECTORY": str(found.common / "objects"),
            "GIT_WORK_TREE": str(found.top),
        }


def _configuration(repository: _Repository) -> str:
    """Return what of a repository's configuration counts when its files are compared."""
    file = str(repository.common / "config")
    said = git(repository.top, "config", "--file", file, "--no-includes", "-z", "--get-regexp", _PLAIN) or ""
    pairs = [entry.partition("\n") for entry in said.split("\0") if entry]
    kept = [f"\t{key.partition('.')[2]} = {value}" for key, _, value in pairs if re.fullmatch("[A-Za-z0-9]+", value)]
    extensions = ["[extensions]", f"\tobjectFormat = {repository.objects}"]
    return "\n".join(["[core]", "\trepositoryFormatVersion = 1", "\tbare = false", *kept, *extensions, ""])


def git(folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return what git prints when it runs in a folder; None when it fails or is missing.

    It is for commands that only read objects and references. What looks at files needs the environment of `_compared`.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _OVERRIDES}
    try:
        done = subprocess.run(
            ["git", *_FIXED, "-C", str(folder), *words],
            env={**inherited, **_QUIET, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
