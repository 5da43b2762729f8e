"""States of a checkout of a small project: its tags, its history, and how it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from helpers.repositories import git
from helpers.version_tools import commit, write


def _tagged(*tags: str, options: Sequence[str] = ()) -> Callable[[Path, str], Path]:
    """Return what makes a checkout with tags, two commits before the last one; the last tag is annotated."""

    def make(folder: Path, tool: str) -> Path:
        checkout = folder / "checkout"
        checkout.mkdir(parents=True)
        git(checkout, "init", "--quiet", "--initial-branch", "main", *options)
        write(checkout, tool)
        commit(checkout, at=1_700_000_000)
        git(checkout, "tag", "v0.1")
        commit(checkout, at=1_700_000_100, text="a\n")
        for tag in tags:
            words = ("--annotate", "--message", "x") if tag == tags[-1] else ()
            git(checkout, "tag", *words, tag, at=1_700_000_100)
        commit(checkout, at=1_700_000_200, text="b\n")
        commit(checkout, at=1_700_000_300, text="c\n")
        return checkout

    return make


def _changed(*steps: str | Mapping[str, str | None], tags: Sequence[str] = ("v1.0",)) -> Callable[[Path, str], Path]:
    """Return what makes a checkout with tags, and then takes steps.

    A step is the words of a command of git, after the time of what it makes, or files of the package, None for none.
    """

    def make(folder: Path, tool: str) -> Path:
        checkout = _tagged(*tags)(folder, tool)
        for step in steps:
            if isinstance(step, str):
                time, *words = step.split() if step[0].isdigit() else ("0", *step.split())
                git(checkout, *words, at=int(time))
                continue
            for name, text in step.items():
                path = checkout / "demo" / name
                path.unlink() if text is None else path.write_text(text)
        return checkout

    return make


def _changed_mode(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "data.txt").chmod(0o755)
    return checkout


def _mode_does_not_count(folder: Path, tool: str) -> Path:
    checkout = _changed_mode(folder, tool)
    git(checkout, "config", "core.fileMode", "false")
    return checkout


def _shallow(folder: Path, tool: str) -> Path:
    whole = _tagged("v1.0")(folder / "whole", tool)
    git(folder, "clone", "--quiet", "--depth", "2", f"file://{whole}", "checkout")
    return folder / "checkout"


def _worktree(folder: Path, tool: str) -> Path:
    whole = _tagged("v1.0")(folder / "whole", tool)
    git(whole, "worktree", "add", "--quiet", "--detach", str(folder / "tree"), "HEAD~1")
    return folder / "tree"


def _submodule(folder: Path, tool: str, tag: str = "v1.0") -> Path:
    part = _tagged(tag)(folder / "part", tool)
    whole = folder / "whole"
    whole.mkdir()
    git(whole, "init", "--quiet")
    git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "sub")
    git(whole, "commit", "--quiet", "--message", "x", at=1_700_000_400)
    git(whole, "tag", "v77.0")
    return whole / "sub"


def _cloned(*options: str, fetched: str = "") -> Callable[[Path, str], Path]:
    """Return what makes a clone, with one more fetch."""

    def make(folder: Path, tool: str) -> Path:
        whole = _tagged("v1.0")(folder / "whole", tool)
        git(whole, "config", "uploadpack.allowFilter", "true")
        git(folder, "clone", "--quiet", *options, f"file://{whole}", "checkout")
        if fetched:
            git(folder / "checkout", "fetch", "--quiet", "--depth=1", "origin", fetched)
        return folder / "checkout"

    return make


def _shallow_at_tag(folder: Path, tool: str) -> Path:
    whole = _tagged("v1.0")(folder / "whole", tool)
    git(whole, "tag", "v1.1")
    git(folder, "clone", "--quiet", "--depth=1", "--branch=v1.1", f"file://{whole}", "checkout")
    return folder / "checkout"


def _converted(folder: Path, tool: str) -> Path:
    """Files that git writes otherwise than it stores them."""
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / ".gitattributes").write_text("demo/data.txt ident\nwide.txt working-tree-encoding=UTF-16LE eol=crlf\n")
    (checkout / "wide.txt").write_bytes("wide\r\n".encode("utf-16-le"))
    commit(checkout, at=1_700_000_400, text="$Id$\n")
    for name in ("demo/data.txt", "wide.txt"):
        (checkout / name).unlink()
    git(checkout, "checkout", "--quiet", ".")
    assert b"$Id: " in (checkout / "demo" / "data.txt").read_bytes()
    return checkout


def _sparse(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "large").mkdir()
    (checkout / "large" / "file.bin").write_text("large")
    commit(checkout, at=1_700_000_400)
    git(checkout, "sparse-checkout", "set", "demo")
    assert not (checkout / "large").exists()
    return checkout


def _below(folder: Path, tool: str) -> Path:
    """A project in a folder of its repository, whose top has the ignore rules."""
    whole = folder / "whole"
    project = whole / "python"
    project.mkdir(parents=True)
    git(whole, "init", "--quiet", "--initial-branch", "main")
    write(project, tool)
    (project / ".gitignore").rename(whole / ".gitignore")
    (whole / "README").write_text("")
    path = project / "pyproject.toml"
    text = path.read_text().replace('write_to = "', 'write_to = "python/')
    for table, key in _ROOTS.items():
        text = text.replace(f"{table}\n", f"{table}\n{key}\n")
    path.write_text(text)
    commit(whole, at=1_700_000_000)
    git(whole, "tag", "v1.0")
    commit(whole, at=1_700_000_100)
    return project


_ROOTS = {
    "[tool.setuptools_scm]": 'root = ".."',
    "[tool.vcs-versioning]": 'root = ".."',
    "[tool.hatch.version]": 'raw-options.root = ".."',
}
"""Table → what tells the tool where the repository is; the others look for it."""

_COMMIT = "commit --quiet --allow-empty --message"

STATES: Mapping[str, Callable[[Path, str], Path]] = {
    "rc": _changed("tag v2.0.0rc1", tags=()),
    "post": _tagged("v1.0.post2"),
    "calver": _tagged("v2026.11.3"),
    "one number": _tagged("v7"),
    "monorepo": _tagged("v1.2", "other-v9.9.0"),
    "dirty": _changed({"data.txt": "dirty\n"}),
    "no tag": _changed("tag --delete v0.1", tags=()),
    "shallow": _shallow,
    "worktree": _worktree,
    "submodule": _submodule,
    "slash prefix": _tagged("v1.0", "a/b/v1.2.3"),
    "submodule with prefix": partial(_submodule, tag="sub-v1.0"),
    "sha256": _tagged("v1.0", options=["--object-format=sha256"]),
    "without blobs": _cloned("--filter=blob:none"),
    "without trees": _cloned("--filter=tree:0"),
    "depth 1 and tags": _cloned("--depth=1", fetched="refs/tags/*:refs/tags/*"),
    "depth 1 at a tag": _shallow_at_tag,
    "detached": _changed("checkout --quiet --detach HEAD~1"),
    # An annotated tag beside lightweight ones on one commit, older and newer by name.
    "annotated and lightweight": _changed(
        "tag v1.5",
        "1700000500 tag --annotate --message x v1.4",
        "tag v1.3",
        {"data.txt": "d\n"},
        "add --all",
        f"1700000600 {_COMMIT} x",
        tags=(),
    ),
    # The greater version is the older tag.
    "two annotated": _changed(
        "1700000400 tag --annotate --message x v1.5", "1700000500 tag --annotate --message x v1.4", tags=()
    ),
    # Only a merged branch has the tag; the main line has an older one.
    "merged tag": _changed(
        "checkout --quiet -b side HEAD~1",
        f"1700000250 {_COMMIT} s0",
        f"1700000260 {_COMMIT} s1",
        "tag v1.1rc1",
        f"1700000270 {_COMMIT} s2",
        "checkout --quiet main",
        "1700000700 merge --quiet --no-ff --message m side",
    ),
    # And a tag that HEAD does not reach.
    "tags on both sides": _changed(
        "tag v1.2",
        "checkout --quiet -b side HEAD~2",
        f"1700000800 {_COMMIT} s",
        "tag v1.3",
        f"1700000900 {_COMMIT} t",
        "tag v1.4 HEAD",
        "checkout --quiet main",
        "1700001000 merge --quiet --no-ff --message m side~1",
        {"data.txt": "d\n"},
        "add --all",
        f"1700001100 {_COMMIT} x",
    ),
    "changed mode": _changed_mode,
    "mode does not count": _mode_does_not_count,
    "converted": _converted,
    "staged": _changed({"new.py": ""}, "add --all"),
    "untracked": _changed({"new.py": "", "new.local": ""}),
    "deleted": _changed({"data.txt": None, "other.txt": ""}),
    "sparse": _sparse,
    "long ids": _changed("config core.abbrev 12"),
    # The nearest tags are no versions; one is named as the branch is.
    "no versions": _changed("tag nightly", "tag main", "tag release/latest", "tag --annotate --message x twice v1.0"),
    "below the top": _below,
}
"""State of a checkout → what makes one in a folder, for a tool."""
