"""Reads git: the last commit of a source folder, the changes since, and files of a commit.

A checkout and its ``.git`` are not trusted. Git runs programs that a repository's configuration names: the file
system monitor, filters, hooks, diff drivers, helpers that fetch missing objects. Here it runs none of them. Commands that
read objects fetch nothing; commands that read files use another configuration than the repository's.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.core.git_command import LARGEST, git, repository_folder, run
from bakery.core.inside import is_below, leads_out, relative
from bakery.core.source_manifest import MOST_BYTES
from wheel_audit.plain_files import read_plain

_NOT_SOURCE = ("bakery.toml", "bake", "dockerfiles")
"""Recipes and generated files next to a source enter no build: their commits change no wheel."""

_PLAIN = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$"
"""Settings of a repository that decide how contents are compared; none of them names a program."""

_LINK = "160000"
"""The mode of a submodule in a tree."""

_FILES = ("100644", "100755")
"""The modes of files in a tree; a link has another one."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The checked-out commit (40 or 64 hex digits), and the files that differ from it: changed, untracked or missing.

    ``submodules``: folder → commit of those that are as the commit has them.
    """

    commit: str
    changed: tuple[str, ...]
    submodules: Mapping[str, str] = field(default_factory=dict)


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
    commits is that of its oldest commit; `doubt` says so.
    """
    return int(output.split()[0]) if (output := run(folder, *_last_commit()).output) else None


def _last_commit() -> tuple[str, ...]:
    paths = [".", *(f":(exclude,glob)**/{name}{tail}" for name in _NOT_SOURCE for tail in ("", "/**"))]
    return ("rev-list", "--max-count=1", "--timestamp", "HEAD", "--", *paths)


def doubt(folder: Path) -> tuple[str, str]:
    """Return why git does not tell the commit of a folder that is in a checkout, and what to do; two empty texts if it does.

    A folder without a repository, and a repository without commits, are no reason.
    """
    top = repository_folder(folder.resolve())
    if not (top / ".git").exists():
        return "", ""
    if problem := run(folder, "rev-parse", "--git-dir").problem:
        if "dubious ownership" not in problem:
            return problem, "install git, or repair the repository; `git status` says more"
        trust = f"git config --global --add safe.directory {shlex.quote(str(top))}"
        return "it belongs to another user", f"trust it: {trust}"
    last = run(folder, *_last_commit())
    if not run(folder, "rev-parse", "--verify", "--quiet", "HEAD").problem and last.problem:
        return last.problem, "fetch the history: git fetch --unshallow --filter=blob:none"
    repository = _repository(folder)
    if last.output and repository and last.output.split()[1] in _boundaries(repository):
        problem = "the clone is shallow, and its oldest commit seems to have changed the source"
        return problem, "fetch the history: git fetch --unshallow (in GitHub's actions/checkout: fetch-depth: 0)"
    return "", ""


def _boundaries(repository: _Repository) -> Container[str]:
    """Return the commits whose parents a shallow clone does not have."""
    try:
        return read_plain(repository.common / "shallow", LARGEST).decode("ascii").split()
    except (OSError, ValueError):
        return ()


def tracked_files(folder: Path) -> tuple[str, ...]:
    """Return the files and submodules below a folder that git tracks, relative to it; none if it does not tell."""
    return tuple(sorted(_listed(git(folder, "ls-files", "-z")) or ()))


def compare_files(
    folder: Path, names: Iterable[str], is_used: Callable[[str], bool] = lambda _: False
) -> Checkout | None:
    """Compare files with the checked-out commit; None if there is none, or it has none of the files.

    Contents are compared, not what the index says of them. ``names`` are relative to ``folder``, those of empty folders
    end with a slash. ``is_used``: whether a file of the commit that is not among ``names`` is missing.
    """
    sent, commit = set(names), (git(folder, "rev-parse", "HEAD") or "").strip()
    tree = (_tree(folder, commit) if commit else None) or {}
    changed: set[str] = set()
    submodules: dict[str, str] = {}
    for link in filter(tree.get, tree):
        own = os.path.lexists(folder / link / ".git")
        inside = {name for name in sent if name.startswith(f"{link}/")} if own else set()
        if not inside:
            # Empty, as in a clone, or no repository: its files are not tracked.
            sent.discard(f"{link}/")
            continue
        sent -= inside
        found = _compare_submodule(folder, link, inside, is_used)
        if found is None or found.commit != tree[link]:
            changed.add(link)
        else:
            submodules[link] = found.commit
        if found:
            changed.update(f"{link}/{name}" for name in found.changed)
            submodules.update({f"{link}/{name}": one for name, one in found.submodules.items()})
    tracked = {name for name, link in tree.items() if not link}
    if (not sent & tracked and not submodules) or not _is_read(folder, tracked):
        return None
    with _compared(folder, commit) as environment:
        differ = (
            None
            if environment is None
            else _listed(git(folder, *_DIFF, "--ignore-submodules=all", "--relative", "--", environment=environment))
        )
    if differ is None:
        return None
    missing = {name for name in tracked - sent if is_used(name)}
    return Checkout(commit, tuple(sorted(changed | (sent - tracked) | (sent & differ) | missing)), submodules)


def _is_read(folder: Path, names: Iterable[str]) -> bool:
    """Whether git can read these files: all of those that a build may have, but not one of terabytes."""
    size = 0
    for name in names:
        with suppress(OSError):
            size += (folder / name).lstat().st_size
    return size <= MOST_BYTES


def _compare_submodule(
    folder: Path, link: str, names: Iterable[str], is_used: Callable[[str], bool]
) -> Checkout | None:
    inside = folder / link
    if top_of(inside) != inside.resolve():
        # A link, or a folder that is not a repository of its own.
        return None
    return compare_files(
        inside, [name.removeprefix(f"{link}/") for name in names], lambda name: is_used(f"{link}/{name}")
    )


_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only", "-z")
"""Git compares a submodule in a separate process, with the configuration of that submodule, unless told to ignore it."""


def _tree(folder: Path, commit: str) -> dict[str, str] | None:
    """Return file → "" and submodule → its commit, for those of a commit below a folder and relative to it.

    None if git does not tell: the commit may have more files than any disk.
    """
    rows = _listed(git(folder, "ls-tree", "-r", "-z", commit))
    parts = (row.partition("\t") for row in rows or ())
    # Git checks names only when it fills an index: a tree may have entries named "..".
    found = {name: facts.split()[2] if facts.startswith(_LINK) else "" for facts, _, name in parts if is_below(name)}
    return None if rows is None else found


def blobs(top: Path, commit: str, names: Container[str]) -> dict[str, str | None]:
    """Return path → text of the files of a commit that are named so, in any folder; None for one that git cannot read.

    Links are left out. Raises UsageError for a path that a stranger may use to leave the folder, and for a commit whose
    files git does not list.
    """
    found: dict[str, str] = {}
    listed = git(top, "ls-tree", "-r", "-z", "--full-tree", commit)
    if listed is None:
        raise UsageError(f"git does not list the files of commit {commit[:12]}", hint="it has too many, or is damaged")
    for row in filter(None, listed.split("\0")):
        facts, _, path = row.partition("\t")
        mode, _, blob = facts.split()
        if path.rpartition("/")[2] in names and mode in _FILES:
            try:
                found[relative(path)] = blob
            except OSError as error:
                raise UsageError(f"commit {commit[:12]}: {error.strerror}", hint="git could not check it out") from None
    texts = _texts(top, set(found.values()))
    return {path: texts.get(blob) for path, blob in sorted(found.items())}


def _texts(top: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return id → text of some blobs: those that git has, each once."""
    with tempfile.TemporaryFile() as asked:
        asked.write("".join(f"{item}\n" for item in ids).encode())
        asked.seek(0)
        answer = os.fsencode(git(top, "cat-file", "--batch", stdin=asked) or "")
    texts: dict[str, str] = {}
    at = 0
    while (end := answer.find(b"\n", at)) >= 0:
        # What git does not have is `ID missing`.
        name, kind, size = (*answer[at:end].decode().split(), "0")[:3]
        at = end + 1
        if kind != "missing":
            if kind == "blob":
                texts[name] = os.fsdecode(answer[at : at + int(size)])
            at += int(size) + 1
    return texts


def top_of(folder: Path) -> Path | None:
    """Return the root of the checkout that a folder is in; None if it is in none."""
    repository = _repository(folder)
    return repository.top if repository else None


def differing(top: Path, commit: str, *, for_version: bool = False) -> set[str] | None:
    """Return the files of a checkout that differ from a commit, including untracked ones; None if git fails.

    A submodule with any difference is one of the files.

    Args:
        top: the root of the checkout.
        commit: its commit, or another one.
        for_version: what makes a version dirty (`git describe --dirty`): no untracked file, nor what
            ``submodule.NAME.ignore`` leaves out (gitmodules(5)).
    """
    tracked = _listed(git(top, "ls-files", "-z"))
    # First, because an index of too many files fills the memory.
    then, now = _tree(top, commit), _tree(top, "HEAD")
    if then is None or now is None or tracked is None:
        return None
    with _compared(top, commit) as environment:
        if environment is None or not _is_read(top, tracked):
            return None
        changed = _listed(git(top, *_DIFF, "--ignore-submodules=dirty", "--", environment=environment))
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        others = set() if for_version else _listed(git(top, *words, environment=environment))
    if changed is None or others is None:
        return None
    modules = {name for tree in (then, now) for name in filter(tree.get, tree)}
    ignored = _ignored_changes(top) if for_version else {}
    changed -= {name for name in modules if ignored.get(name) == "all"}
    dirty = {
        name
        for name in modules
        if ignored.get(name) not in ("all", "dirty")
        and _is_dirty(top / name, for_version=for_version and ignored.get(name) != "none")
    }
    return changed | others | (tracked - then.keys()) | dirty


def _ignored_changes(top: Path) -> dict[str, str]:
    """Return submodule → its ``ignore``: as the index has .gitmodules, unless the repository's configuration says more."""
    repository = _repository(top)
    found: dict[tuple[str, str], str] = {}
    for place in ("--blob=:.gitmodules", f"--file={repository.common / 'config'}") if repository else ():
        words = ("--no-includes", "-z", "--get-regexp", r"^submodule\..*\.(path|ignore)$")
        for entry in (git(top, "config", place, *words) or "").split("\0"):  # None of them is a failure, too.
            key, _, value = entry.partition("\n")
            name, _, field = key.removeprefix("submodule.").rpartition(".")
            found[name, field] = value
    return {path: found.get((name, "ignore"), "") for (name, field), path in found.items() if field == "path"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a folder as git sees them, relative to it.

    ``others`` are neither tracked nor ignored; ``modules`` are folders, with a slash, of submodules and other
    repositories, about which this one says nothing.
    """

    tracked: frozenset[str]
    others: frozenset[str]
    modules: tuple[str, ...]

    def ignores(self, name: str) -> bool:
        """Whether git ignores a file that exists."""
        return name not in self.tracked and name not in self.others and not name.startswith(self.modules)


def listing(folder: Path) -> Listing | None:
    """Return what git says of the files in a folder; None if it is in no checkout with a commit, or git fails."""
    tracked, tree = _listed(git(folder, "ls-files", "-z")), _tree(folder, "HEAD")
    if tracked is None or tree is None:
        return None
    with _compared(folder, "HEAD") as environment:
        if environment is None:
            return None
        others = _listed(git(folder, "ls-files", "--others", "--exclude-standard", "-z", environment=environment))
    if others is None:
        return None
    modules = [f"{name}/" for name in filter(tree.get, tree)]
    files = {name for name, link in tree.items() if not link} | tracked
    return Listing(frozenset(files), frozenset(others), (*modules, *(name for name in others if name.endswith("/"))))


def _is_dirty(submodule: Path, *, for_version: bool) -> bool:
    # Whatever its name is, which a tree has: pathlib raises an error for one that is too long.
    if not os.path.lexists(submodule / ".git"):
        return False
    commit = (git(submodule, "rev-parse", "HEAD") or "").strip()
    # A link, or a folder that is not a repository of its own.
    return top_of(submodule) != submodule or differing(submodule, commit, for_version=for_version) != set()


def _listed(text: str | None) -> set[str] | None:
    return None if text is None else {name for name in text.split("\0") if name}


def clone(folder: Path, commit: str, target: Path) -> Path | None:
    """Check out a commit of the folder's repository below ``target``; return the path of ``folder`` in it.

    Nothing is fetched, no hook runs, and the repository and its checkout do not change. Filters run if the user's own
    configuration names them. Submodules come along if the checkout has their commits. None if the repository does not
    have the commit.
    """
    repository = _repository(folder)
    if repository is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        return None
    inside = target / "source"
    inside.mkdir()
    return inside / folder.resolve().relative_to(repository.top) if _check_out(repository, commit, inside) else None


def _check_out(repository: _Repository, commit: str, inside: Path) -> bool:
    if git(inside, "init", "--quiet", "--template=", f"--object-format={repository.objects}") is None:
        return False
    information = inside / ".git" / "objects" / "info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "alternates").write_bytes(os.fsencode(repository.common / "objects") + b"\n")
    with suppress(OSError):
        (inside / ".git" / "shallow").write_bytes(read_plain(repository.common / "shallow", LARGEST))
    # LFS takes files from there.
    git(inside, "config", "remote.origin.url", str(repository.top))
    tree = _tree(inside, commit)
    if tree is None or git(inside, "checkout", "--quiet", "--detach", commit) is None:
        return False
    for name, link in tree.items():
        is_own = link and os.path.lexists(repository.top / name / ".git")
        own = _repository(repository.top / name) if is_own else None
        if own and own.top == repository.top / name:
            _check_out(own, link, inside / name)
    return True


def origin(folder: Path) -> str:
    """Return the URL of a checkout's remote ``origin``; empty without one, or if it is on this machine."""
    url = (git(folder, "remote", "get-url", "origin") or "").strip()
    return url if re.match(r"(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:", url) else ""


def _repository(folder: Path) -> _Repository | None:
    """Return the repository of a folder; None if it is in none, or in one of another work tree."""
    options = ("--show-object-format", "--show-toplevel", "--git-dir", "--git-common-dir")
    lines = (git(folder, "rev-parse", "--path-format=absolute", *options) or "").splitlines()
    if len(lines) != len(options):
        return None
    top, git_dir, common = (Path(line).resolve() for line in lines[1:])
    if not folder.resolve().is_relative_to(top) or not (top / ".git").exists() or not _is_own(top, git_dir, common):
        return None
    return _Repository(top, git_dir, common, lines[0])


def _is_own(top: Path, git_dir: Path, common: Path) -> bool:
    """Whether a repository knows the work tree: ``.git`` of a checkout may name any repository of this user.

    That of a second work tree names it in ``gitdir``, that of a submodule in ``core.worktree``.
    """
    here = top / ".git"
    if git_dir == here == common:
        return not any(leads_out(here / name, top) for name in ("HEAD", "objects", "packed-refs", "refs"))
    if git_dir.parent == common / "worktrees":
        with suppress(OSError):
            return bool((git_dir / os.fsdecode(read_plain(git_dir / "gitdir", 4096)).strip()).resolve() == here)
    place = git(top, "config", "--file", str(git_dir / "config"), "--no-includes", "--get", "core.worktree")
    return git_dir == common and bool(place) and (git_dir / str(place).strip()).resolve() == top


@contextmanager
def _compared(folder: Path, commit: str) -> Iterator[Mapping[str, str] | None]:
    """Yield the environment in which git compares a folder's files with a commit, by a configuration that names no program.

    Git reads objects from the repository, and everything else from a temporary folder. Its index is that of the commit,
    so that no flag and no time in the checkout's index hides a change. The user's own configuration is used: it has the
    filter of LFS. Yields None if the folder is not in a checkout, or it does not have the commit.
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
        environment = {
            "GIT_DIR": str(repository.git_dir),
            "GIT_COMMON_DIR": common,
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
            "GIT_WORK_TREE": str(repository.top),
            "GIT_INDEX_FILE": str(Path(common) / "index"),
        }
        known = (git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") or "").strip()
        yield environment if known and git(folder, "read-tree", known, environment=environment) is not None else None


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
