"""States of a checkout of a small project: its tags, its history, and how it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _exact(folder: Path, tool: str) -> Path:
    checkout = _tagged()(folder, tool)
    git(checkout, "tag", "v2.0.0rc1")
    return checkout


def _dirty(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "data.txt").write_text("dirty\n")
    return checkout


def _without_tags(folder: Path, tool: str) -> Path:
    checkout = _tagged()(folder, tool)
    git(checkout, "tag", "--delete", "v0.1")
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


def _submodule_with_prefix(folder: Path, tool: str) -> Path:
    return _submodule(folder, tool, "sub-v1.0")


def _sha256(folder: Path, tool: str) -> Path:
    return _tagged("v1.0", options=["--object-format=sha256"])(folder, tool)


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


def _detached(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    git(checkout, "checkout", "--quiet", "--detach", "HEAD~1")
    return checkout


def _two_kinds(folder: Path, tool: str) -> Path:
    """An annotated tag beside lightweight ones on one commit, older and newer by name."""
    checkout = _tagged()(folder, tool)
    git(checkout, "tag", "v1.5")
    git(checkout, "tag", "--annotate", "--message", "x", "v1.4", at=1_700_000_500)
    git(checkout, "tag", "v1.3")
    commit(checkout, at=1_700_000_600, text="d\n")
    return checkout


def _two_annotated(folder: Path, tool: str) -> Path:
    """Two annotated tags on one commit; the greater version is the older tag."""
    checkout = _tagged()(folder, tool)
    git(checkout, "tag", "--annotate", "--message", "x", "v1.5", at=1_700_000_400)
    git(checkout, "tag", "--annotate", "--message", "x", "v1.4", at=1_700_000_500)
    return checkout


def _merged(folder: Path, tool: str) -> Path:
    """A tag that only a merged branch has; the main line has an older one."""
    checkout = _tagged("v1.0")(folder, tool)
    git(checkout, "checkout", "--quiet", "-b", "side", "HEAD~1")
    for number in range(3):
        git(checkout, "commit", "--quiet", "--allow-empty", "--message", f"s{number}", at=1_700_000_250 + 10 * number)
        if number == 1:
            git(checkout, "tag", "v1.1rc1")
    git(checkout, "checkout", "--quiet", "main")
    git(checkout, "merge", "--quiet", "--no-ff", "--message", "m", "side", at=1_700_000_700)
    return checkout


def _criss_cross(folder: Path, tool: str) -> Path:
    """Tags on both sides of a merge, and a tag that HEAD does not reach."""
    checkout = _tagged("v1.0")(folder, tool)
    git(checkout, "tag", "v1.2")
    git(checkout, "checkout", "--quiet", "-b", "side", "HEAD~2")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "s", at=1_700_000_800)
    git(checkout, "tag", "v1.3")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "t", at=1_700_000_900)
    git(checkout, "tag", "v1.4", "HEAD")
    git(checkout, "checkout", "--quiet", "main")
    git(checkout, "merge", "--quiet", "--no-ff", "--message", "m", "side~1", at=1_700_001_000)
    commit(checkout, at=1_700_001_100, text="d\n")
    return checkout


def _changed_mode(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "data.txt").chmod(0o755)
    return checkout


def _mode_does_not_count(folder: Path, tool: str) -> Path:
    checkout = _changed_mode(folder, tool)
    git(checkout, "config", "core.fileMode", "false")
    return checkout


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


def _staged(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "new.py").write_text("")
    git(checkout, "add", "--all")
    return checkout


def _untracked(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "new.py").write_text("")
    (checkout / "demo" / "new.local").write_text("")
    return checkout


def _deleted(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "demo" / "data.txt").unlink()
    (checkout / "demo" / "other.txt").write_text("")
    return checkout


def _sparse(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    (checkout / "large").mkdir()
    (checkout / "large" / "file.bin").write_text("large")
    commit(checkout, at=1_700_000_400)
    git(checkout, "sparse-checkout", "set", "demo")
    assert not (checkout / "large").exists()
    return checkout


def _long_ids(folder: Path, tool: str) -> Path:
    checkout = _tagged("v1.0")(folder, tool)
    git(checkout, "config", "core.abbrev", "12")
    return checkout


def _no_versions(folder: Path, tool: str) -> Path:
    """The nearest tags are no versions; one is named as the branch is."""
    checkout = _tagged("v1.0")(folder, tool)
    for name in ("nightly", "main", "release/latest"):
        git(checkout, "tag", name)
    git(checkout, "tag", "--annotate", "--message", "x", "twice", "v1.0")
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

STATES: Mapping[str, Callable[[Path, str], Path]] = {
    "rc": _exact,
    "post": _tagged("v1.0.post2"),
    "calver": _tagged("v2026.11.3"),
    "one number": _tagged("v7"),
    "monorepo": _tagged("v1.2", "other-v9.9.0"),
    "dirty": _dirty,
    "no tag": _without_tags,
    "shallow": _shallow,
    "worktree": _worktree,
    "submodule": _submodule,
    "slash prefix": _tagged("v1.0", "a/b/v1.2.3"),
    "submodule with prefix": _submodule_with_prefix,
    "sha256": _sha256,
    "without blobs": _cloned("--filter=blob:none"),
    "without trees": _cloned("--filter=tree:0"),
    "depth 1 and tags": _cloned("--depth=1", fetched="refs/tags/*:refs/tags/*"),
    "depth 1 at a tag": _shallow_at_tag,
    "detached": _detached,
    "annotated and lightweight": _two_kinds,
    "two annotated": _two_annotated,
    "merged tag": _merged,
    "tags on both sides": _criss_cross,
    "changed mode": _changed_mode,
    "mode does not count": _mode_does_not_count,
    "converted": _converted,
    "staged": _staged,
    "untracked": _untracked,
    "deleted": _deleted,
    "sparse": _sparse,
    "long ids": _long_ids,
    "no versions": _no_versions,
    "below the top": _below,
}
"""State of a checkout → what makes one in a folder, for a tool."""
