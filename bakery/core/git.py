"""Reads git: the last commit of a source folder, and the changes since.

A checkout and its ``.git`` are not trusted. Git runs programs that a repository's configuration names: the file
system monitor, filters, hooks, diff drivers, helpers that fetch missing objects. Here it runs none of them. Commands that
read objects fetch nothing; commands that read files use another configuration than the repository's.
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
"""Recipes and generated files next to a source enter no build: their commits change no wheel."""

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
"""Set while a hook runs; with them, git would use another repository than the folder's."""

_TIMEOUT_S = 600.0

_PLAIN = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|checkstat|trustctime|sparsecheckout)$"
"""Settings of a repository that decide how files are compared; none of them names a program."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The checked-out commit (40 or 64 hex digits), and the files that differ from it: changed, untracked or missing."""

    commit: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Repository:
    """The parts of a folder's repository."""

    top: Path  # the root of the work tree
    git_dir: Path  # the git directory of this work tree
    common: Path  # the git directory that all work trees share
    objects: str  # the hash that names objects: ``sha1`` or ``sha256``


def committed(folder: Path) -> int | None:
    """Return the time of the last commit that changed a folder, in seconds since 1970; None without one.

    Uncommitted changes do not count: they would give each build another time. In a shallow clone, the time of older
    commits is that of its oldest commit.
    """
    paths = [".", *(f":(exclude,glob)**/{name}{tail}" for name in _NOT_SOURCE for tail in ("", "/**"))]
    output = git(folder, "rev-list", "--max-count=1", "--timestamp", "HEAD", "--", *paths)
    return int(output.split()[0]) if output else None


def compare_files(folder: Path, names: Iterable[str]) -> Checkout | None:
    """Compare files, relative to a folder, with the commit; None if it is no checkout, or none of the files is tracked."""
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
    parents = {str(Path(name).parent) for name in sent}
    missing = {name for name in differ - sent if str(Path(name).parent) in parents and not (folder / name).exists()}
    return Checkout(commit, tuple(sorted((sent - tracked) | (sent & differ) | missing)))


_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "--name-only", "-z")
"""Git compares a submodule in a separate process, with the configuration of that submodule."""


def top_of(folder: Path) -> Path | None:
    """Return the root of the checkout that a folder is in; None if it is in none."""
    repository = _repository(folder)
    return repository.top if repository else None


def differing(top: Path, commit: str) -> set[str] | None:
    """Return the files of a checkout that differ from a commit, including untracked ones; None if git fails.

    ``top`` is the root of the checkout. A submodule with any difference is one of the files.
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
    # A link, or a folder that is not a repository of its own.
    return top_of(submodule) != submodule or differing(submodule, commit) != set()


def _listed(text: str | None) -> set[str] | None:
    return None if text is None else {name for name in text.split("\0") if name}


def clone(folder: Path, commit: str, target: Path) -> Path | None:
    """Check out a commit of the folder's repository below ``target``; return the path of ``folder`` in it.

    Nothing is fetched, no hook runs, and the repository and its checkout do not change. Filters run if the user's own
    configuration names them. None if the repository does not have the commit.
    """
    repository = _repository(folder)
    if repository is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        return None
    inside = target / "source"
    if git(target, "init", "--quiet", "--template=", f"--object-format={repository.objects}", "source") is None:
        return None
    information = inside / ".git" / "objects" / "info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "alternates").write_bytes(os.fsencode(repository.common / "objects") + b"\n")
    if (repository.common / "shallow").is_file():
        shutil.copyfile(repository.common / "shallow", inside / ".git" / "shallow")
    # LFS takes files from there.
    git(inside, "config", "remote.origin.url", str(repository.top))
    if git(inside, "checkout", "--quiet", "--detach", commit) is None:
        return None
    return inside / folder.resolve().relative_to(repository.top)


def origin(folder: Path) -> str:
    """Return the URL of a checkout's remote ``origin``; empty without one, or if it is on this machine."""
    url = (git(folder, "remote", "get-url", "origin") or "").strip()
    return url if re.match(r"(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:", url) else ""


def _repository(folder: Path) -> _Repository | None:
    """Return the repository of a folder; None if it is in none, or in one with another work tree."""
    options = ("--show-object-format", "--show-toplevel", "--git-dir", "--git-common-dir")
    lines = (git(folder, "rev-parse", "--path-format=absolute", *options) or "").splitlines()
    if len(lines) != len(options):
        return None
    top, git_dir, common = (Path(line).resolve() for line in lines[1:])
    if not folder.resolve().is_relative_to(top) or not (top / ".git").exists():
        return None
    return _Repository(top, git_dir, common, lines[0])


@contextmanager
def _compared(folder: Path) -> Iterator[Mapping[str, str] | None]:
    """Yield the environment in which git compares a folder's files with a configuration that names no program.

    Git reads objects and the index from the repository, and everything else from a temporary folder. The user's own
    configuration is used: it has the filter of LFS. Yields None if the folder is not in a checkout.
    """
    repository = _repository(folder)
    if repository is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bakery-git-") as common:
        (Path(common) / "refs").mkdir()
        (Path(common) / "config").write_text(_configuration(repository), encoding="utf-8")
        if (repository.common / "info").is_dir():
            # Ignore patterns and attributes.
            (Path(common) / "info").symlink_to(repository.common / "info")
        yield {
            "GIT_DIR": str(repository.git_dir),
            "GIT_COMMON_DIR": common,
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
            "GIT_WORK_TREE": str(repository.top),
        }


def _configuration(repository: _Repository) -> str:
    """Return the settings of a repository that decide how files are compared."""
    file = str(repository.common / "config")
    output = git(repository.top, "config", "--file", file, "--no-includes", "-z", "--get-regexp", _PLAIN) or ""
    pairs = [entry.partition("\n") for entry in output.split("\0") if entry]
    settings = [
        f"\t{key.partition('.')[2]} = {value}" for key, _, value in pairs if re.fullmatch("[A-Za-z0-9]+", value)
    ]
    extensions = ["[extensions]", f"\tobjectFormat = {repository.objects}"]
    return "\n".join(["[core]", "\trepositoryFormatVersion = 1", "\tbare = false", *settings, *extensions, ""])


def git(folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Run git in a folder and return its output; None if it fails or is not installed.

    For commands that only read objects and references. Commands that read files need the environment of `_compared`.
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
