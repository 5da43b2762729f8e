"""Repositories as one input each, in JSON: objects that git itself would not make, references, and files of ``.git``."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bakery.core import git, git_command
from bakery.core.inside import remove_tree
from bakery.resolve.changed_cells import Change, changes_since, write_old_recipes
from bakery.runs.repository import description
from fuzz.mutate import any_bytes, any_tree, count, text
from fuzz.refusals import refusals

_RECIPE = 'name = "demo"\nsource = "."\n[matrix]\npython = ["3.11"]\n[builder]\ntoolkit = "none"\n'
_WHOLE = 32
"""For one repository in so many, its files are compared, too, for which git runs twenty times."""

_TYPES = ("blob", "tree", "commit", "tag")
_NAMES = (
    *("..", ".", ".git", ".GIT", "git~1", "/", "a/b", "../x", "bakery.toml", "pyproject.toml", "", "a\nb", "\x1b[31m"),
    *("a\\b", "C:", ".git ", ".g\u200cit", "CON", "a" * 300, "\udcff", " ", "-", "bakery.toml\n", "*", ":(top)"),
)
_MODES = ("100644", "100755", "120000", "160000", "40000", "040000", "0", "100664", "140000", "7777777777777", "x", "")


def seeds() -> list[bytes]:
    """Return repositories with recipes, folders, links and a submodule."""
    objects: list[Any] = [
        ["blob", _RECIPE],
        ["blob", "int a;\n"],
        ["blob", "src/a.c"],
        ["tree", [["100644", "a.c", 1], ["120000", "link", 2], ["160000", "vendored", 0]]],
        ["tree", [["100644", "bakery.toml", 0], ["40000", "src", 3]]],
        ["commit", 4, [], "1700000000 +0000", "first\n"],
        ["tree", [["100644", "bakery.toml", 0], ["40000", "other", 4], ["40000", "src", 3]]],
        ["commit", 6, [5], "1700000001 +0000", "second\n"],
        ["tag", 5, "v1.0"],
    ]
    files = {
        "HEAD": "ref: refs/heads/main\n",
        "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfilemode = true\n",
        "refs/heads/main": "@7\n",
        "packed-refs": "# pack-refs with: peeled fully-peeled sorted \n@8 refs/tags/v1.0\n^@5\n",
        "info/exclude": "*.o\n",
    }
    return [json.dumps({"objects": objects, "files": files, "old": old}).encode() for old in (5, 7)]


def mutate_tree(rng: random.Random, data: bytes) -> bytes:
    """Change objects: names and modes of entries, their number, what they name, or their bytes."""
    told = json.loads(data)
    objects = told["objects"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        match rng.randrange(7):
            case 0 | 1 | 2:
                rows = _rows(rng, objects)
                name = rng.choice((*_NAMES, text(rng)[:2000].replace("\0", "")))
                new = [rng.choice((*_MODES[:5], rng.choice(_MODES))), name, rng.randrange(len(objects))]
                rows[(at := rng.randrange(len(rows) + 1)) : at + rng.randrange(2)] = [new]
            case 3:
                rows = _rows(rng, objects)
                row = next((row for row in rows if isinstance(row, list) and len(row) == 3), ["100644", "a", 0])
                rows += [[row[0], f"{row[1]}{at}", row[2]] for at in range(min(count(rng), 2000))]
            case 4:
                # Trees in trees: deeper than Python calls itself and than a path is long, or a few that stand for billions.
                wide = rng.choice((1, 1, 1, 2, 10))
                names = rng.choice((["..", ".git", "a"], [f"{at}" for at in range(wide)]))[:wide]
                inner = rng.choice([at for at, item in enumerate(objects) if item[0] in ("tree", "blob")])
                for _ in range(min(count(rng), 2100 if wide == 1 else 12)):
                    objects.append(["tree", [["40000", name, inner] for name in names]])
                    inner = len(objects) - 1
                objects.append(["commit", inner, [], "1 +0000", ""])
                told["old"] = len(objects) - 1
            case 5:
                item = rng.choice(objects)
                item[1:] = any_tree(rng, item[1:])
            case 6:
                told.setdefault("raw", {})[str(rng.randrange(len(objects)))] = rng.randrange(1 << 30)
    return json.dumps(told).encode()


def _rows(rng: random.Random, objects: list[Any]) -> list[Any]:
    """Return the entries of a tree, which may be a new one."""
    known: list[list[Any]] = [
        item[1] for item in objects if item[:1] == ["tree"] and len(item) == 2 and isinstance(item[1], list)
    ]
    if not known:
        objects.append(["tree", known])
        return known
    return rng.choice(known)


def mutate_folder(rng: random.Random, data: bytes) -> bytes:
    """Change the files of ``.git``, and what they are: pipes are few, as git waits for them."""
    told = json.loads(data)
    files = told["files"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice((*files, *_MORE))
        old = files.get(name, "")
        old = old if isinstance(old, str) else ""
        match rng.randrange(8):
            case 0:
                files[name] = rng.choice(_CONTENTS)
            case 1:
                files[name] = old + rng.choice(_CONFIG) * min(count(rng), 500)
            case 2 | 3:
                changed = any_bytes(rng, old.encode("latin-1", "replace") or b"x")
                files[name] = changed[: 1 << 18].decode("latin-1")
            case 4:
                files.pop(name, None)
            case 5:
                kind = rng.choice(("folder", "link", "link", "socket", "pipe" if rng.random() < 0.02 else "folder"))
                files[name] = [kind, rng.choice(("/etc/passwd", "HEAD", "..", "nothing", "/dev/zero", "config"))]
            case 6:
                files["index"] = _index(rng)
            case 7:
                rows = "".join(f"@7 refs/tags/{rng.choice(('v', 'demo-'))}{at}.0\n" for at in range(count(rng)))
                files["packed-refs"] = rows
    return json.dumps(told).encode()


_MORE = (
    *(
        "shallow", "commondir", "objects/info/alternates", "refs/heads/other", "index", "info/attributes",
        "config.worktree",
    ),
    *("refs/tags/v2", "FETCH_HEAD", "info/grafts", "refs/replace/x", "gitdir", "modules/a/config", "worktrees/a/HEAD"),
)  # fmt: skip
_CONTENTS = (
    *(
        "",
        "ref: refs/heads/main",
        "ref: ../../../etc/passwd\n",
        "ref: refs/heads/" + "a" * 5000,
        "@7",
        "\0" * 100,
        "@5\n",
    ),
    *(
        "gitdir: /etc\n",
        "../..\n",
        "/\n",
        ".\n",
        "0" * 40 + "\n",
        "[",
        "x" * 200_000,
        "ref: HEAD\n",
        "/dev/zero\n",
        "@8\n",
    ),
    *("../objects\n", "[include]\n\tpath = config\n", "[core]\n\tworktree = /\n", "[core]\n\tbare = true\n"),
)
_CONFIG = (
    *(
        "[core]\n\tfsmonitor = touch RAN\n",
        "[include]\n\tpath = /dev/zero\n",
        "[core]\n\trepositoryformatversion = 1\n",
    ),
    *(
        "[extensions]\n\tobjectFormat = sha256\n",
        "[extensions]\n\tworktreeConfig = true\n",
        "[core]\n\tautocrlf = $(id)\n",
    ),
    *('[filter "a"]\n\tclean = touch RAN\n', "[core]\n\teol = a\\nb\n", '[remote "origin"]\n\turl = ext::touch RAN\n'),
    *(
        "[a",
        "[core]\n\tignorecase = maybe\n",
        '[remote "origin"]\n\turl = https://e.org/\x1b[31m\n',
        "[alias]\n\tdiff = !touch RAN\n",
    ),
    *(
        "[core]\n\texcludesFile = /dev/zero\n",
        "[diff]\n\texternal = touch RAN\n",
        "[core]\n\thooksPath = /\n",
        "[x]\n" * 99,
    ),
)


def _index(rng: random.Random) -> str:
    """Return an index with entries that are not sorted, not there, or more than it says."""
    entries = b""
    for number in range(min(count(rng), 1000)):
        name = rng.choice((*_NAMES, f"a{number}")).encode("utf-8", "surrogateescape")
        entry = bytes(24) + struct.pack(">I", rng.choice((0o100644, 0o120000, 0o160000, 0))) + bytes(12)
        entry += hashlib.sha1(b"blob 0\0").digest() + struct.pack(">H", min(len(name), 0xFFF)) + name
        entries += entry + bytes(8 - len(entry) % 8)
    head = b"DIRC" + struct.pack(">II", rng.choice((2, 3, 4, 9)), rng.choice((entries.count(b"\0\xed"), 0, 0xFFFFFFFF)))
    body = head + entries
    return (body + hashlib.sha1(body).digest()).decode("latin-1")


def _written(repository: Path, told: dict[str, Any]) -> tuple[list[str], Iterator[Path]]:
    """Write the objects of an input; return their ids, and the files."""
    ids: list[str] = []
    files: list[Path] = []
    for number, item in enumerate(told["objects"]):
        kind, raw = _raw(item, ids)
        if str(number) in told.get("raw", {}):
            raw = any_bytes(random.Random(told["raw"][str(number)]), raw)
        data = b"%b %d\0%b" % (kind.encode("utf-8", "surrogateescape"), len(raw), raw)
        ids.append(hashlib.sha1(data).hexdigest())
        path = repository / "objects" / ids[-1][:2] / ids[-1][2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(data, 1))
        files.append(path)
    return ids, iter(files)


def _raw(item: Any, ids: list[str]) -> tuple[str, bytes]:
    """Return type and content of an object; what cannot be one is a blob."""

    def named(at: object) -> str:
        return ids[at] if isinstance(at, int) and 0 <= at < len(ids) else "0" * 40

    try:
        match item:
            case ["tree", rows]:
                return "tree", b"".join(
                    f"{mode} {name}".encode("utf-8", "surrogateescape") + b"\0" + bytes.fromhex(named(at))
                    for mode, name, at in rows
                )
            case ["commit", tree, parents, moment, message]:
                lines = [f"tree {named(tree)}", *(f"parent {named(at)}" for at in parents)]
                lines += [f"author a <a@b> {moment}", f"committer a <a@b> {moment}", "", str(message)]
                return "commit", "\n".join(lines).encode("utf-8", "surrogateescape")
            case ["tag", at, name]:
                return "tag", f"object {named(at)}\ntype commit\ntag {name}\ntagger a <a@b> 1 +0000\n\nx\n".encode(
                    "utf-8", "surrogateescape"
                )
            case [kind, *content]:
                return (kind if kind in _TYPES else "blob"), "".join(map(str, content)).encode(
                    "utf-8", "surrogateescape"
                )
    except (TypeError, ValueError):
        pass
    return "blob", str(item).encode("utf-8", "surrogateescape")


@cache
def _repository(folder: Path) -> Path:
    """Return a work tree with an empty repository, made once."""
    top = folder / "project"
    subprocess.run(["git", "init", "--quiet", "--template=", "--initial-branch=main", str(top)], check=True)
    (top / "bakery.toml").write_text(_RECIPE)
    (top / "src").mkdir(exist_ok=True)
    (top / "src/a.c").write_text("int a;\n")
    return top


def read_trees(folder: Path, data: bytes) -> str:
    """Read the recipes of a commit, and its files, as `--since` does."""
    return _read(folder, data, whole=not hashlib.sha256(data).digest()[0] % _WHOLE)


def read_folder(folder: Path, data: bytes) -> str:
    """Compare a checkout with its commit, and describe its repository for the build."""
    return _read(folder, data, whole=not hashlib.sha256(data).digest()[0] % 8)


def _read(folder: Path, data: bytes, *, whole: bool) -> str:
    try:
        told = json.loads(data)
        told |= {"objects": list(told["objects"]) or [""], "files": dict(told["files"]), "old": int(told["old"])}
    except (ValueError, LookupError, TypeError):
        return "refused"
    top = _repository(folder)
    own = top / ".git"
    git_command._SILENT.clear()
    ids, objects = _written(own, told)
    made = list(_made(own, told["files"], ids))
    commit = ids[told["old"] % len(ids)]
    # New ones: what is too deep is not removed in every system.
    target, old = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
    outcome = "refused"
    try:
        with refusals():
            write_old_recipes(Change("old", commit, top, ()), target)
            outcome = "right" if any(target.rglob("bakery.toml")) else "nothing"
        git.committed(top)
        if whole:
            git.origin(top)
            description(top, {"HOME": str(folder)})
            git.clone(top, commit, old)
            with refusals():
                changes_since(top, commit)
        ran = [path for path in (*top.iterdir(), *folder.iterdir(), *target.iterdir()) if path.name == "RAN"]
    finally:
        for path in (*objects, *made, target, old):
            remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    assert not ran
    assert sorted(path.name for path in top.iterdir()) == [".git", "bakery.toml", "src"]
    return outcome


def _made(own: Path, files: dict[str, Any], ids: list[str]) -> Iterator[Path]:
    """Write the files of ``.git``; ``@7`` stands for the id of object 7."""
    for name in ("HEAD", "config", "index", "packed-refs"):
        (own / name).unlink(missing_ok=True)
    for name, content in files.items():
        path = own / name
        if not isinstance(name, str) or ".." in path.parts or "\0" in name or not path.is_relative_to(own):
            continue
        with suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            match content:
                case str():
                    written = re.sub("@([0-9]{1,4})", lambda match: ids[int(match[1]) % len(ids)], content)
                    path.write_bytes(written.encode("latin-1", "replace"))
                case ["folder", _]:
                    path.mkdir()
                case ["link", str(to)]:
                    path.symlink_to(to)
                case ["pipe", _]:
                    os.mkfifo(path)
            yield path
