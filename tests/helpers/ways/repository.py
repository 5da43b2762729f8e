"""A ``.git`` whose settings run programs, and whose objects and files lead elsewhere."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
from contextlib import suppress

from repositories import git

from ways import RECIPE, Scene, way


def _touch(s: Scene, name: str) -> str:
    return str(s.program(f".git/programs/{name}"))


@way("repository")
def lists_of_ignored_files_are_links(s: Scene) -> None:
    """Lists of ignored files are copied for the build."""
    for name in (".git/info/exclude", ".gitignore"):
        (s.checkout / name).unlink(missing_ok=True)
        s.link(name, s.key)
    s.git("config", "core.excludesFile", str(s.key))
    s.git("config", "core.attributesFile", str(s.key))


@way("repository")
def objects_of_another_repository(s: Scene) -> None:
    """Objects of the victim's private repository become those of the checkout."""
    s.write(".git/objects/info/alternates", f"{s.victim}/repository/.git/objects\n")
    secret = git(s.victim / "repository", "rev-parse", "HEAD")
    s.write(".git/refs/heads/private", f"{secret}\n")
    folder = s.repository("alternates")
    s.write(f"{folder}/.git/objects/info/alternates", f"{s.victim}/repository/.git/objects\n")
    s.write(f"{folder}/.git/refs/heads/main", f"{secret}\n")


@way("repository")
def replaced_and_grafted_commits(s: Scene) -> None:
    """Another commit takes the place of one."""
    old, new = s.git("rev-parse", "main~1"), s.git("rev-parse", "main")
    s.write(f".git/refs/replace/{new}", f"{old}\n")
    s.write(".git/info/grafts", f"{new} {old}\n{old} {new}\n")


def _tree(s: Scene, *entries: tuple[str, bytes, str]) -> str:
    data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(digest) for mode, name, digest in entries)
    command = ["git", "-C", str(s.checkout), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode().strip()


TREES = {
    "up": [b"a", b"..", b"..", b"..", b"home"], "git": [b".git"], "git_case": [b"a", b".GIT"], "git_short": [b"GIT~1"],
    "absolute": [b"/tmp/pwned"], "controls": [b"\x1b]0;pwned\x07"], "lines": [b"::set-output name=pwned::1"], "dot": [b"."],
    "git_unshown": ["\u200c.git".encode()], "empty": [b""], "backslash": [b"..\\..\\home"], "raw": [b"\xff\xfe"],
}  # fmt: skip


@way("repository")
def trees_with_odd_names(s: Scene) -> None:
    """Names in a tree object are checked only when git fills an index."""
    blob = s.git("hash-object", "-w", str(s.write(".git/evil", RECIPE.replace("demo", "pwned"))))
    for branch, names in TREES.items():
        found = ("100644", b"bakery.toml", blob)
        for name in reversed(names):
            found = ("40000", name, _tree(s, found))
        with suppress(subprocess.CalledProcessError):
            s.git("update-ref", f"refs/heads/tree-{branch}", s.git("commit-tree", _tree(s, found), "-m", "pwned"))
            s.revisions.append(f"tree-{branch}")


@way("repository")
def recipes_of_a_revision_that_are_links(s: Scene) -> None:
    """A link that is named like a recipe, in an old commit."""
    blob = subprocess.run(
        ["git", "-C", s.checkout, "hash-object", "-w", "--stdin"], input=str(s.key).encode(), capture_output=True, check=True
    ).stdout.decode().strip()  # fmt: skip
    tree = _tree(s, ("120000", b"bakery.toml", blob), ("160000", b"sub", "1" * 40))
    s.git("update-ref", "refs/heads/tree-link", s.git("commit-tree", tree, "-m", "pwned"))
    s.revisions.append("tree-link")


@way("repository")
def odd_names_of_references(s: Scene) -> None:
    """Names of branches and tags that are options, commands or control characters."""
    head = s.git("rev-parse", "main")
    lines = "".join(
        f"{head} refs/{name}\n"
        for name in (
            "tags/v1$(touch${IFS}pwned)", "tags/--output=pwned", "heads/../../../pwned", "tags/v2\x1b]0;pwned\x07",
            "tags/::x::pwned",
        )
    )  # fmt: skip
    s.write(".git/packed-refs", f"# pack-refs with: peeled fully-peeled sorted\n{lines}")


@way("repository")
def an_index_that_leads_out(s: Scene) -> None:
    """Names in the index: git writes files to them at a checkout."""
    folder = s.repository("index")
    entries = b""
    names = [f"{s.out(2)}/home/.bashrc".encode(), b".git/config", b"/tmp/pwned"]
    for name in sorted(names):
        entry = struct.pack(">10I20sH", *[0] * 6, 0o100644, 0, 0, 0, bytes(20), len(name)) + name
        entries += entry + b"\0" * (8 - len(entry) % 8)
    data = b"DIRC" + struct.pack(">II", 2, len(names)) + entries
    s.write(f"{folder}/.git/index", data + hashlib.sha1(data).digest())


@way("repository")
def a_work_tree_elsewhere(s: Scene) -> None:
    """The repository says that its files are the victim's."""
    folder = s.repository("worktree")
    git(s.checkout / folder, "config", "core.worktree", str(s.victim / "repository"))


@way("repository")
def a_repository_elsewhere(s: Scene) -> None:
    """``.git`` is a file or a link that names the victim's repository."""
    s.write(f"{s.project('gitfile')}/.git", f"gitdir: {s.victim}/repository/.git\n")
    s.link(f"{s.project('gitlink')}/.git", s.victim / "repository" / ".git")
    folder = s.project("commondir")
    s.write(f"{folder}/.git/HEAD", "ref: refs/heads/main\n")
    s.write(f"{folder}/.git/commondir", f"{s.victim}/repository/.git\n")
    s.write(f"{folder}/.git/gitdir", f"{s.victim}/repository/.git\n")


@way("repository")
def a_submodule(s: Scene) -> None:
    """A submodule has settings of its own, and one that is to be fetched has an address."""
    program = _touch(s, "submodule")
    inner = s.checkout / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet", "--initial-branch=main")
    s.write("inner/x.py", "")
    git(inner, "add", "--all")
    git(inner, "commit", "--quiet", "--message", "x")
    s.write(
        ".gitmodules", f'[submodule "inner"]\n\tpath = inner\n\turl = http://{s.address}/x\n\tupdate = !{program}\n'
    )
    for key in ("core.fsmonitor", "filter.evil.clean", "diff.external"):
        git(inner, "config", key, program)
    s.write("inner/.gitattributes", "* filter=evil\n")
    s.write(".git/index.lock", "")
    (s.checkout / ".git" / "index.lock").unlink()


@way("pipes")
def pipes_in_a_repository(s: Scene) -> None:
    """Git waits for a writer, and so does who waits for git."""
    for name in (".git/HEAD", ".gitignore", ".git/info/exclude", "src/.gitattributes"):
        folder = s.checkout / s.repository(f"pipe_{name.rpartition('/')[2].strip('.')}")
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / name)


# From here on, git would run programs of the checkout: nothing calls it there but to configure it.


@way("repository")
def settings_that_run_at_every_call(s: Scene) -> None:
    """Programs that git asks about files and shows output with."""
    program = _touch(s, "always")
    for key in ("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.alternateRefsCommand", "pager.log",
                "pager.diff", "pager.rev-list", "gpg.program", "sequence.editor", "interactive.diffFilter"):  # fmt: skip
        s.git("config", key, program)
    s.git("config", "log.showSignature", "true")


@way("repository")
def filters(s: Scene) -> None:
    """Attributes choose a filter, which the settings define."""
    program = _touch(s, "filter")
    for key in ("clean", "smudge", "process"):
        s.git("config", f"filter.evil.{key}", program)
    s.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
    os.utime(s.checkout / "demo.py", (1, 1))


@way("repository")
def drivers_of_diffs(s: Scene) -> None:
    """What compares two files is a program of the settings."""
    program = _touch(s, "diff")
    for key in ("diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "difftool.evil.cmd"):
        s.git("config", key, program)
    s.write(".git/info/attributes", "* diff=evil filter=evil\n")


@way("repository")
def hooks(s: Scene) -> None:
    """Hooks in their usual folder, and in one that the settings name."""
    for folder in (".git/hooks", "hooks"):
        for name in (
            "post-checkout",
            "post-index-change",
            "fsmonitor-watchman",
            "reference-transaction",
            "pre-auto-gc",
        ):
            s.program(f"{folder}/{name}")
    s.git("config", "core.hooksPath", str(s.checkout / "hooks"))


@way("repository")
def aliases(s: Scene) -> None:
    """Commands that Bakery calls have other meanings."""
    program = _touch(s, "alias")
    for name in (
        "diff",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "rev-list",
        "clone",
        "log",
        "describe",
        "status",
        "cat-file",
    ):
        s.git("config", f"alias.{name}", f"!{program}")


@way("repository")
def remotes_that_run_programs(s: Scene) -> None:
    """A missing object is fetched from a remote, by a program or from a server."""
    program = _touch(s, "remote")
    for key, value in {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}", "remote.origin.uploadpack": program, "remote.origin.vcs": "ext",
        "protocol.ext.allow": "always", "core.sshCommand": program, "core.gitProxy": program,
        "credential.helper": f"!{program}", "uploadpack.packObjectsHook": program, "url.ext::sh.insteadOf": "https://",
        "http.proxy": s.address, "remote.other.url": f"http://{s.address}/repository",
    }.items():  # fmt: skip
        s.git("config", key, value)


@way("repository")
def settings_in_other_files(s: Scene) -> None:
    """Included files are settings, too; one is private and would be shown in an error."""
    program = _touch(s, "included")
    s.write(".git/more", f"[core]\n\tfsmonitor = {program}\n[diff]\n\texternal = {program}\n")
    s.git("config", "--add", "include.path", "more")
    s.git("config", "--add", "includeIf.gitdir:/.path", str(s.checkout / ".git" / "more"))


@way("repository")
def settings_that_are_private(s: Scene) -> None:
    """Git's message about a file that is no configuration has a line of it."""
    folder = s.repository("include_private")
    git(s.checkout / folder, "config", "include.path", str(s.key))
