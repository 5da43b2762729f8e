#!/opt/bakery/bin/python -IS
"""Describe a git repository: all that build backends ask git, and no history.

Usage: repository.py GIT FOLDER SOURCE PREFIX CHECKOUT    write ``state/repository.json`` and ``rules/`` into FOLDER

GIT has the git directories of the contexts ``git-checkout`` and ``git-directory``, without configuration. SOURCE is the
folder of the source in the project, PREFIX that of the project in the repository; CHECKOUT is empty if nobody wants git.

``with_repository.py`` makes a repository from the description that answers like this one. The description has the id and
the dates of the commit, the dates and the graph of those before it, the tags, the tracked files with the ids of their
content, and the ignore rules that are in no tracked file. Equal repositories have equal descriptions. Names of people,
messages, other contents, remotes and configuration are no part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

Git = Callable[..., Optional[str]]
"""Runs git with words, and returns its output; None if it fails."""

STATE, RULES = "state/repository.json", "rules"
EXCLUDE, PARENTS, REFUSED, ABSENT = "exclude", "gitignore", "refused", "absent"
"""Files in `RULES`: rules of no tracked file, which exists for each repository; the .gitignore above the source, which
exists, like ``below``, for a source below the top; why a build that asks ends: git cannot read the repository, or there
is none."""

GIVEN = ("git-checkout", "git-directory")
"""Folders in GIT."""

HELP = """
  In a worktree, a submodule or below the top of a repository: build with `wheel-bakery wheel`, or set
  GIT_CHECKOUT (folder with .git) and GIT_DIRECTORY, as README.md says under "With plain Docker".
  In an unpacked archive: set GIT_CHECKOUT to nothing (GIT_CHECKOUT= docker buildx bake ...).
"""

_TAG = "%00".join(
    (
        "%(refname:strip=2)",
        "%(objectname)",
        "%(*objectname)",
        "%(taggerdate:raw)",
        "%(committerdate:raw)",
        "%(*committerdate:raw)",
        "%(objecttype)",
        "%(*objecttype)",
    )
)


def describe(git: Git, changed: Optional[Iterable[str]] = None, prefix: str = "") -> Dict[str, Any]:
    """Return the description of a repository; empty if git cannot read it, or refuses an answer.

    Args:
        git: runs git at the top of the checkout.
        changed: tracked files that differ from the commit, and submodules that do, also outside of the source; relative
            to the top. None: nobody compared them, so their contents tell.
        prefix: the folder of the source in the checkout, with a slash at its end; empty for the top.
    """
    try:
        return _described(git, changed, prefix)
    except RefusedError:
        return {}


class RefusedError(Exception):
    """Git does not answer, or with more than it may."""


def _answer(git: Git, *words: str) -> str:
    """Return what git prints, which may be nothing; RefusedError if it fails."""
    answer = git(*words)
    if answer is None:
        raise RefusedError
    return answer


def _described(git: Git, changed: Optional[Iterable[str]], prefix: str) -> Dict[str, Any]:
    inside = _answer(git, "rev-parse", "--is-shallow-repository")
    head = (git("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or "").strip()
    if not head and not _is_unborn(git):
        raise RefusedError
    files, staged = _files(git, head, prefix)
    differing = {*(changed or ()), *(name for name in staged if not name.startswith(prefix))}
    commits, tags = _history(git, head) if head else ([], [])
    author, committer = _dates(_answer(git, "cat-file", "commit", head)) if head else ("", "")
    return {
        "head": head,
        "hash": "sha256" if len(head) == 64 else "sha1",
        "branch": (git("symbolic-ref", "--quiet", "HEAD") or "").strip(),
        "author": author,
        "committer": committer,
        "abbrev": len(_answer(git, "rev-parse", "--short", "HEAD").strip()) if head else 7,
        "commits": commits,
        "shallow": inside.strip() == "true",
        "tags": tags,
        "prefix": prefix,
        "files": dict(sorted(files.items())),
        "staged": {name: entry for name, entry in sorted(staged.items()) if name.startswith(prefix)},
        "changed": sorted(differing),
        "compared": changed is not None,
    }


def _files(git: Git, head: str, prefix: str) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return file of the source → "MODE ID" in the index, and the same in the commit for those that differ there.

    Of the commit, also files outside of the source; empty if a file is missing.
    """
    files: Dict[str, str] = {}
    staged: Dict[str, str] = {}
    # A large repository has more files than the source.
    below = ("--", ":(top,literal)" + prefix) if prefix else ()
    for entry in _answer(git, "ls-files", "--stage", "-z", *below).split("\0"):
        meta, _, name = entry.partition("\t")
        if name:
            mode, content, stage = meta.split()
            files[name] = mode + " " + content
            if stage != "0":  # A merge with conflicts.
                staged[name] = ""
    raw = _answer(git, "diff-index", "--cached", "--raw", "--no-renames", "-z", head) if head else ""
    words = iter(raw.split("\0"))
    for word in words:
        if word.startswith(":"):
            mode, _, content, _, status = word[1:].split()
            staged[next(words)] = "" if status.startswith("A") else mode + " " + content
    return files, staged


def _dates(commit: str) -> Tuple[str, str]:
    """Return the dates of a commit's author and committer, ``SECONDS ZONE``."""
    lines = commit.partition("\n\n")[0].splitlines()
    found = {line.partition(" ")[0]: " ".join(line.split()[-2:]) for line in reversed(lines)}
    return found.get("author", ""), found.get("committer", "")


def _history(git: Git, head: str) -> Tuple[List[str], List[List[Any]]]:
    """Return the commits of HEAD, each before its parents, and the tags.

    A commit is its date, and how many places after it each parent comes. Tags of one commit are one row: the place of the
    commit (-1: HEAD does not reach it), then its date, and name and tagger's date (empty for a lightweight tag) of each tag.
    """
    lines = _answer(git, "rev-list", "--topo-order", "--date=raw", "--format=%P|%cd", head).splitlines()
    places = {line.partition(" ")[2]: place for place, line in enumerate(lines[::2])}
    commits = []
    for place, line in enumerate(lines[1::2]):
        parents, _, date = line.partition("|")
        steps = [places[parent] - place for parent in parents.split() if parent in places]
        commits.append(" ".join([date or "0 +0000", *map(str, steps)]))
    rows: Dict[str, List[List[str]]] = {}
    dates: Dict[str, str] = {}
    for line in _answer(git, "for-each-ref", "--format=" + _TAG, "refs/tags").splitlines():
        name, ident, peeled, tagger, committed, peeled_committed, kind, peeled_kind = line.split("\0")
        commit, date = (ident, committed) if kind == "commit" else (peeled, peeled_committed)
        if peeled_kind == "tag":  # A tag of a tag; older versions of git say no more.
            commit = (git("rev-parse", "--verify", "--quiet", "refs/tags/" + name + "^{commit}") or "").strip()
        if commit and (peeled_kind or kind) in ("commit", "tag"):
            dates[commit] = date or "0 +0000"
            rows.setdefault(commit, []).append([name, (tagger or "0 +0000") if kind == "tag" else ""])
    tags = [
        [places.get(commit, -1), "" if commit in places else dates[commit], sorted(names)]
        for commit, names in rows.items()
    ]
    return commits, sorted(tags)


def rules(texts: Iterable[str], parents: Iterable[Tuple[str, str]], prefix: str) -> Dict[str, str]:
    """Return the files with the ignore rules that are in no file of the source.

    Args:
        texts: of ignore files for the whole checkout.
        parents: (folder with a slash at its end, or empty for the top; text) of each .gitignore above the source.
        prefix: the folder of the source, as in `describe`.
    """
    lines = [line for text in texts for line in _moved(text, "", prefix)]
    above = [line for folder, text in parents for line in _moved(text, folder, prefix)]
    return {
        RULES + "/" + EXCLUDE: "".join(line + "\n" for line in lines),
        **({RULES + "/" + PARENTS: "".join(line + "\n" for line in above), RULES + "/below": ""} if prefix else {}),
    }


def _moved(text: str, folder: str, prefix: str) -> List[str]:
    """Return the rules of an ignore file in ``folder`` for the source, whose folder is ``src`` in the new repository."""
    path = prefix[len(folder) :].split("/")[:-1]
    lines = []
    for line in text.splitlines():
        rule = line.lstrip("!")
        if not rule.strip() or rule.startswith("#"):
            continue
        sign, pieces = line[: len(line) - len(rule)], rule.strip("/").split("/")
        is_anchored = "/" in rule.rstrip("/")
        if not prefix or not is_anchored:
            lines.append(line)
        if prefix:
            rests = _rests(pieces if is_anchored else ["**", *pieces], path)
            slash = "/" if rule.endswith("/") else ""
            found = ["/src/" + "/".join(rest) + (slash if rest else "") for rest in rests if is_anchored or not rest]
            lines += [sign + item for item in dict.fromkeys(found)]
    return lines


def _rests(pattern: List[str], path: List[str]) -> List[List[str]]:
    """Return what may be left of a pattern below a folder; nothing is left if it matches the folder or one above it."""
    places = {0}
    for name in path:
        # Two stars match any number of folders, also none.
        for place, piece in enumerate(pattern):
            if place in places and piece == "**":
                places.add(place + 1)
        if len(pattern) in places:
            return [[]]
        stay = {place for place in places if pattern[place] == "**"}
        places = stay | {place + 1 for place in places - stay if fnmatchcase(name, pattern[place])}
    return [pattern[place:] for place in sorted(places)]


def encoded(description: Dict[str, Any]) -> str:
    """Return a description as text; names that are no UTF-8 keep their bytes."""
    return json.dumps(description, indent=0, sort_keys=True) + "\n"


def _git_of(folder: str) -> Git:
    """Return what runs git on a git directory, without its configuration, hooks and programs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment.update(GIT_DIR=folder, GIT_CONFIG_NOSYSTEM="1", HOME="/nonexistent", LC_ALL="C", GIT_NO_LAZY_FETCH="1")

    def git(*words: str) -> Optional[str]:
        done = subprocess.run(["git", *words], env=environment, stdout=subprocess.PIPE, check=False)
        return os.fsdecode(done.stdout) if done.returncode == 0 else None

    return git


def _readable(git: Git) -> bool:
    """Return whether git reads the commit and the index of a git directory, or the index of one without commits."""
    if git("ls-files", "-z") is None:
        return False
    return git("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is not None or _is_unborn(git)


def _is_unborn(git: Git) -> bool:
    """Return whether HEAD is a branch without commits."""
    branch = (git("symbolic-ref", "--quiet", "HEAD") or "").strip()
    return bool(branch) and git("rev-parse", "--verify", "--quiet", branch) is None


def _opened(own: str, common: str, folder: str) -> Optional[Git]:
    """Return what runs git on a new git directory of the files of one; None if git cannot read them.

    ``own``: HEAD and the index. ``common``: what all worktrees share; the same folder if there is only one.
    """
    os.makedirs(os.path.join(folder, "info"))
    shared = ("refs", "objects", "packed-refs", "shallow")
    links = {name: own for name in os.listdir(own) if name.startswith(("index", "sharedindex."))}
    links.update({name: common for name in shared if os.path.exists(os.path.join(common, name))})
    for name, place in links.items():
        os.symlink(os.path.join(place, name), os.path.join(folder, name))
    for name in ("refs", "objects"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    shutil.copyfile(os.path.join(own, "HEAD"), os.path.join(folder, "HEAD"))
    for algorithm in ("sha1", "sha256"):
        with open(os.path.join(folder, "config"), "w", encoding="ascii") as stream:
            stream.write("[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = " + algorithm + "\n")
        git = _git_of(folder)
        if _readable(git):
            return git
    return None


def _text(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def _files_of(given: str, prefix: str) -> Dict[str, str]:
    """Return path → text of the description of a repository that a plain bake has; why not, if git cannot read it."""
    checkout, directory = (os.path.join(given, name) for name in GIVEN)
    own = directory if os.path.isfile(os.path.join(directory, "HEAD")) else checkout
    common = checkout if os.path.isfile(os.path.join(own, "commondir")) else own
    if not os.path.isfile(os.path.join(own, "HEAD")):
        return {RULES + "/" + EXCLUDE: "", RULES + "/" + ABSENT: "there is no git directory." + HELP}
    with tempfile.TemporaryDirectory() as folder:
        git = _opened(own, common, os.path.join(folder, "git"))
        described = describe(git, prefix=prefix) if git else {}
        if git is None or not described or (described["head"] and not described["commits"]):
            return {RULES + "/" + EXCLUDE: "", RULES + "/" + REFUSED: "git cannot read the git directory." + HELP}
        names = prefix.split("/")[:-1]
        folders = ["".join(name + "/" for name in names[:depth]) for depth in range(len(names))]
        above = [(place, git("cat-file", "blob", ":" + place + ".gitignore") or "") for place in folders]
        exclude = _text(os.path.join(common, "exclude"))
        return {STATE: encoded(described), **rules([exclude], above, prefix)}


def main(words: List[str]) -> None:
    """Describe what is in the git directory; write empty folders if nobody wants git."""
    given, target, source, project, checkout = words
    prefix = "".join(part + "/" for part in (project, source) if part not in ("", "."))
    for name in ("state", "rules"):
        os.makedirs(os.path.join(target, name), exist_ok=True)
    for name, text in _files_of(given, prefix).items() if checkout else ():
        with open(os.path.join(target, name), "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
