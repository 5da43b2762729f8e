#!/opt/bakery/bin/python -IS
"""Run a command that may ask the source's git repository, which is made for it only if it does.

Usage: with_repository.py first RESULT [--full] -- COMMAND...    run in an empty repository; stop at the first question
       with_repository.py again RESULT [--full] -- COMMAND...    run with the repository, if the first run had a question

A question is a file of the repository that is opened, by git or by another reader. Then the first run ends well, without
a result, and leaves in /asked what the second one needs: a copy of the source, and a link to the description. Without a
question both are empty, so nothing of the repository is an input of the second run. RESULT is a file or a folder that
the command makes; it is empty where the command did not run to its end. With --full it must not be empty otherwise.

The repository has one commit with the real id and dates, the tracked files, the tags, and for each commit before it an
empty one without names, of the same date and place. Files that are not here are not tracked; files that differ from the
commit still do.

A source below the top of its repository is its folder ``src`` while nobody asked, since the top is above /src. The second
run of a command that names the source gets it at its real place below `TOP`: tools may put the path of the top before
names (``git archive --prefix``), or write files by their names in the repository.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import zlib
from binascii import crc32
from itertools import accumulate
from typing import Any, Dict, Iterator, List, Optional, Tuple

ABOVE, SOURCE, PRISTINE, ASKED = "/", "/src", "/run/source", "/asked"
"""The top of a repository whose source is below it, and the source, which is its folder ``src``."""

TOP = "bakery-repository"
"""The folder of the source with a repository and the source at its place in it."""

EPOCH, VARIABLE = "/run/epoch", "SOURCE_DATE_EPOCH"
"""Handed over, too: as a build argument of the second run, it would make that run again with each commit."""

GIVEN, RULES = "/run/repository/repository.json", "/run/repository-rules"
WHO = b"unknown <unknown>"
ACROSS = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
"""The source is a mount; the repository of a source below the top is outside of it."""

QUESTIONS = ("HEAD", "config", "index", "packed-refs", "shallow", "commondir")
"""Files whose opening is a question. Readers of ignore rules open info/exclude, which is there from the beginning."""

OPENED, IS_FOLDER = 0x20, 0x40000000
"""IN_OPEN and IN_ISDIR of inotify(7)."""

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""

LATE = 4_000_000_000
"""Seconds since 1970, in 2096."""

FOLDER = "src/"
"""The folder of the source in `ABOVE`."""

LINK, GITLINK, PROGRAM = 0o120000, 0o160000, 0o100755


def make_folders(top: str, config: str, prefix: str = "") -> str:
    """Make a git directory without commits, with the ignore rules; return its path.

    ``prefix``: the folder of the source below the top, with a slash at its end; empty if the source is the top.
    """
    git = os.path.join(top, ".git")
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        os.makedirs(os.path.join(git, name))
    write(os.path.join(git, "HEAD"), b"ref: refs/heads/main\n")
    write(os.path.join(git, "config"), config.encode())
    rules, above = (text(os.path.join(RULES, name)) for name in ("exclude", "gitignore"))
    if prefix:
        folder = "/" + re.sub(r"([*?[\\])", r"\\\1", prefix)
        # Rules name the source /src/. All else is the file system of the image, and this .gitignore.
        rules, above = (
            re.sub(r"(?m)^(!?)/src/", lambda found: found.group(1) + folder, item) for item in (rules, above)
        )
        rules = "/*\n!/" + folder.split("/")[1] + "/\n" + rules
        write(os.path.join(top, ".gitignore"), os.fsencode(above))
    write(os.path.join(git, "info", "exclude"), os.fsencode(rules))
    return git


def remove(top: str) -> None:
    """Remove what `make_folders` made outside the source; changes of the source are dropped with its mount."""
    if top != SOURCE:
        shutil.rmtree(os.path.join(top, ".git"), ignore_errors=True)
        if os.path.lexists(os.path.join(top, ".gitignore")):
            os.remove(os.path.join(top, ".gitignore"))


def place_source(prefix: str) -> None:
    """Move the source to its folder below `TOP`; links lead there, for what names files of /src."""
    place = os.path.join(SOURCE, TOP, prefix)
    names = os.listdir(SOURCE)
    os.makedirs(place)
    for name in names:
        shutil.move(os.path.join(SOURCE, name), os.path.join(place, name))
        os.symlink(os.path.join(TOP, prefix, name), os.path.join(SOURCE, name))


def place_back(prefix: str) -> None:
    """Move the source back, with all that is new: what a step writes there may be read after the command."""
    place = os.path.join(SOURCE, TOP, prefix)
    for name in os.listdir(place):
        path = os.path.join(SOURCE, name)
        if os.path.islink(path):
            os.remove(path)
        if not os.path.lexists(path):
            shutil.move(os.path.join(place, name), path)
    shutil.rmtree(os.path.join(SOURCE, TOP))


def write(path: str, data: bytes) -> None:
    """Write a file."""
    with open(path, "wb") as stream:
        stream.write(data)


def text(path: str) -> str:
    """Return what a file says; empty if there is none."""
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def empty(result: str) -> None:
    """Make the result empty: a file if its name has an extension, else a folder."""
    is_file = bool(os.path.splitext(result)[1])
    if os.path.isdir(result):
        shutil.rmtree(result)
    os.makedirs(os.path.dirname(result) if is_file else result, exist_ok=True)
    if is_file:
        write(result, b"")


class Store:
    """The objects of a repository, in one pack."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.entries: Dict[bytes, Tuple[int, int]] = {}
        self.parts: List[bytes] = []
        self.size = 12

    def digest(self, data: bytes) -> bytes:
        """Return a digest."""
        return hashlib.new(self.algorithm, data).digest()

    def name(self, kind: bytes, data: bytes) -> bytes:
        """Return the id of an object."""
        return self.digest(kind + b" %d\0" % len(data) + data)

    def add(self, kind: bytes, data: bytes, name: Optional[bytes] = None) -> bytes:
        """Add an object and return its id. ``name``: another id for it, which a replacement needs to exist."""
        name = name or self.name(kind, data)
        if name not in self.entries:
            number, rest = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}[kind] << 4 | len(data) & 15, len(data) >> 4
            head = bytearray()
            while rest:
                head.append(number | 128)
                number, rest = rest & 127, rest >> 7
            head.append(number)
            entry = bytes(head) + stored(data)
            self.entries[name] = (self.size, crc32(entry))
            self.parts.append(entry)
            self.size += len(entry)
        return name

    def save(self, git: str) -> None:
        """Write the pack and its index (gitformat-pack(5), version 2)."""
        if not self.entries:
            return
        pack = b"PACK" + struct.pack(">II", 2, len(self.entries)) + b"".join(self.parts)
        end = self.digest(pack)
        names = sorted(self.entries)
        counts = [0] * 256
        for name in names:
            counts[name[0]] += 1
        offsets = [self.entries[name][0] for name in names]
        large = [offset for offset in offsets if offset >= 1 << 31]
        small = iter(range(len(large)))
        index = b"\xfftOc" + struct.pack(">I256I", 2, *accumulate(counts)) + b"".join(names)
        index += b"".join(struct.pack(">I", self.entries[name][1]) for name in names)
        index += b"".join(struct.pack(">I", item if item < 1 << 31 else 1 << 31 | next(small)) for item in offsets)
        index += b"".join(struct.pack(">Q", item) for item in large) + end
        path = os.path.join(git, "objects", "pack", "pack-" + end.hex())
        write(path + ".pack", pack + end)
        write(path + ".idx", index + self.digest(index))


def stored(data: bytes) -> bytes:
    """Return data as zlib stores it; for small data, much faster than zlib."""
    if len(data) >= 1 << 16:
        return zlib.compress(data, 1)
    size = len(data)
    return b"\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF) + data + struct.pack(">I", zlib.adler32(data))


class Repository:
    """Makes the repository of a description."""

    def __init__(self, given: Dict[str, Any], top: str, folder: str) -> None:
        self.given = given
        self.prefix = os.fsencode(given["prefix"])
        self.top = top
        self.folder = folder
        self.store = Store(given["hash"])
        self.refs: Dict[str, str] = {}
        self.peeled: Dict[str, str] = {}

    def make(self) -> None:
        """Write the repository."""
        given = self.given
        is_sha256 = given["hash"] == "sha256"
        # A file of another mode has another content, too, where modes count. Nobody wants to read of the replacement.
        lines = ["[core]", "repositoryformatversion = %d" % is_sha256, "bare = false", "filemode = false"]
        lines += ["abbrev = %d" % max(4, given["abbrev"]), "[log]", "excludeDecoration = refs/replace/*"]
        lines += ["[extensions]", "objectformat = sha256"] if is_sha256 else []
        git = make_folders(self.top, "\n".join(lines) + "\n", self.folder)
        index, head = self.files()
        write(os.path.join(git, "index"), index)
        # Git reads again what is not older than the index, and takes contents that it would encode for others.
        os.utime(os.path.join(git, "index"), (LATE, LATE))
        if given["head"]:
            oldest = self.history(self.tree(head))
            if given["shallow"]:
                write(os.path.join(git, "shallow"), "".join(ident + "\n" for ident in oldest).encode())
        branch = given["branch"]
        head_text = "ref: " + branch if branch else given["head"]
        write(os.path.join(git, "HEAD"), os.fsencode(head_text) + b"\n")
        if given["head"] and branch:
            self.refs[branch] = given["head"]
        self.store.save(git)
        lines = ["# pack-refs with: peeled fully-peeled sorted "]
        for name, ident in sorted(self.refs.items(), key=lambda item: os.fsencode(item[0])):
            lines += [ident + " " + name] + (["^" + self.peeled[name]] if name in self.peeled else [])
        write(os.path.join(git, "packed-refs"), os.fsencode("\n".join(lines) + "\n"))

    def files(self) -> Tuple[bytes, Dict[bytes, Tuple[int, bytes]]]:
        """Return the index and the files of the commit, both with the files that are here or must differ."""
        given = self.given
        changed = set(map(os.fsencode, given["changed"]))
        staged = {os.fsencode(name): entry for name, entry in given["staged"].items()}
        other = self.store.add(b"blob", b"not here\n")
        entries: Dict[bytes, Tuple[int, bytes, bytes]] = {}
        head: Dict[bytes, Tuple[int, bytes]] = {}
        for name, entry in ((os.fsencode(name), entry) for name, entry in given["files"].items()):
            place = self.place(name)
            mode, ident = int(entry.split()[0], 8), bytes.fromhex(entry.split()[1])
            if mode == GITLINK:
                entries[place] = (mode, ident, bytes(40))
                head[place] = (mode, other if name in changed else ident)
                continue
            # What is staged differs from the commit in any case, but perhaps not from the index.
            known = given["compared"] and name not in staged
            here, stat = self.content(place, mode, ident, name not in changed if known else None)
            if not here and name not in changed:
                continue
            ident = here or other
            entries[place] = (mode, ident, stat)
            if name not in staged:
                head[place] = (mode, ident)
            elif staged[name]:
                head[place] = (int(staged[name].split()[0], 8), other)
        for name in changed | set(staged):
            # Removed from the index, or outside the source: what is left is that something differs.
            if os.fsdecode(name) not in given["files"] and staged.get(name, "-"):
                head[self.place(name)] = (0o100644, other)
        return self.index(entries), head

    def place(self, name: bytes) -> bytes:
        """Return the name that a file of the checkout has here."""
        return os.fsencode(self.folder) + name[len(self.prefix) :] if name.startswith(self.prefix) else name

    def content(
        self, place: bytes, mode: int, ident: bytes, same: Optional[bool] = None
    ) -> Tuple[Optional[bytes], bytes]:
        """Return the id for a file that is here, and its status for the index; no status if it differs from the commit.

        ``same``: whether it is as in the commit, which has it in another encoding perhaps; None if its content tells.
        """
        path = os.path.join(os.fsencode(self.top), place)
        try:
            stat = os.lstat(path)
            if mode == LINK:
                data = os.readlink(path)
            elif os.path.islink(path):
                return self.store.add(b"blob", b"differs\n"), bytes(40)
            else:
                with open(path, "rb") as stream:
                    data = stream.read()
        except OSError:
            return None, bytes(40)
        if same is None:
            same = mode == LINK or bool(stat.st_mode & 0o100) == (mode == PROGRAM)
            same = same and self.is_content(data, ident)
        if not same:
            return self.store.add(b"blob", b"differs\n" if data != b"differs\n" else b""), bytes(40)
        times = [int(item) & 0xFFFFFFFF for ns in (stat.st_ctime_ns, stat.st_mtime_ns) for item in divmod(ns, 10**9)]
        numbers = (stat.st_dev, stat.st_ino, mode, stat.st_uid, stat.st_gid, stat.st_size)
        return self.store.add(b"blob", data), struct.pack(">10I", *times, *(item & 0xFFFFFFFF for item in numbers))

    def is_content(self, data: bytes, ident: bytes) -> bool:
        """Return whether a file has the content of an id, also with other line ends, or as a pointer of LFS."""
        if self.store.name(b"blob", data) == ident:
            return True
        if self.store.name(b"blob", data.replace(b"\r\n", b"\n")) == ident:
            return True
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
        digest = hashlib.sha256(data).hexdigest().encode()
        return self.store.name(b"blob", pointer % (digest, len(data))) == ident

    def index(self, entries: Dict[bytes, Tuple[int, bytes, bytes]]) -> bytes:
        """Return an index file (gitformat-index(5), version 2)."""
        parts = [b"DIRC" + struct.pack(">II", 2, len(entries))]
        for name, (mode, ident, stat) in sorted(entries.items()):
            status = stat[:24] + struct.pack(">I", mode) + stat[28:]
            entry = status + ident + struct.pack(">H", min(len(name), 0xFFF)) + name
            parts.append(entry + bytes(8 - len(entry) % 8))
        data = b"".join(parts)
        return data + self.store.digest(data)

    def tree(self, files: Dict[bytes, Tuple[int, bytes]]) -> bytes:
        """Add the trees of files, and return the id of the top one."""
        folders: Dict[bytes, Dict[bytes, Tuple[int, bytes]]] = {}
        entries: List[Tuple[bytes, bytes, int, bytes]] = []
        for name, (mode, ident) in files.items():
            first, slash, rest = name.partition(b"/")
            if slash:
                folders.setdefault(first, {})[rest] = (mode, ident)
            else:
                entries.append((first, first, mode, ident))
        entries += [(name + b"/", name, 0o40000, self.tree(below)) for name, below in folders.items()]
        return self.store.add(
            b"tree", b"".join(b"%o %s\0" % (mode, name) + ident for _, name, mode, ident in sorted(entries))
        )

    def commit(
        self, tree: bytes, parents: List[bytes], dates: Tuple[str, str], *, text: str = "", name: bytes = b""
    ) -> bytes:
        """Add a commit without names of people, and return its id; the object has ``name`` as a second id.

        ``text`` is its message: two commits with nothing else of their own need two.
        """
        above = b"".join(b"parent " + item.hex().encode() + b"\n" for item in parents)
        author, committer = (WHO + b" " + date.encode() + b"\n" for date in dates)
        data = b"tree " + tree.hex().encode() + b"\n" + above + b"author " + author + b"committer " + committer
        data += b"\n" + text.encode()
        if name:
            self.store.add(b"commit", data, name)
        return self.store.add(b"commit", data)

    def history(self, tree: bytes) -> List[str]:
        """Add the commits and the tags; return the ids of the commits without parents."""
        given, none = self.given, self.store.add(b"tree", b"")
        head, commits = bytes.fromhex(given["head"]), given["commits"]
        at, oldest = [b""] * len(commits), []
        for place in range(len(commits) - 1, -1, -1):
            seconds, zone, *steps = commits[place].split()
            date, parents = seconds + " " + zone, [at[place + int(step)] for step in steps]
            if place:
                at[place] = self.commit(none, parents, (date, date), text="%d\n" % place)
            else:
                # The real id is replaced by the new commit. Without an object of this id, git takes references for damaged.
                made = self.commit(tree, parents, (given["author"], given["committer"]), name=head)
                self.refs["refs/replace/" + head.hex()] = made.hex()
                at[place] = head
            oldest += [] if parents else [at[place].hex()]
        for number, (place, date, names) in enumerate(given["tags"]):
            target = at[place] if place >= 0 else self.commit(none, [], (date, date), text="tag %d\n" % number)
            for name, tagger in names:
                self.tag(name, target.hex(), tagger)
        return oldest

    def tag(self, name: str, target: str, tagger: str) -> None:
        """Add a tag; without a tagger's date, a lightweight one."""
        ref = "refs/tags/" + name
        self.refs[ref] = target
        if tagger:
            text = "object %s\ntype commit\ntag %s\ntagger %s %s\n\n" % (target, name, WHO.decode(), tagger)
            self.refs[ref] = self.store.add(b"tag", os.fsencode(text)).hex()
            self.peeled[ref] = target


class Watch:
    """Sees which files of a git directory are opened (inotify(7))."""

    def __init__(self, git: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.handle = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.handle < 0 or libc.inotify_add_watch(self.handle, os.fsencode(git), OPENED) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def names(self) -> Iterator[str]:
        """Yield the names of the files that were opened since the last call."""
        try:
            data = os.read(self.handle, 1 << 16)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            _, mask, _, length = struct.unpack_from("iIII", data, place)
            name = data[place + 16 : place + 16 + length].rstrip(b"\0")
            place += 16 + length
            if not mask & IS_FOLDER:
                yield os.fsdecode(name)


def asks(command: List[str], git: str) -> Tuple[int, bool]:
    """Run a command up to its first question; return its exit status, and whether it had one."""
    try:
        watch = Watch(git)
    except (OSError, AttributeError):
        return 0, True  # Nobody can tell.
    # What its children leave behind becomes a child of this process.
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    ended, end = os.pipe()
    with subprocess.Popen(command) as process:
        threading.Thread(target=lambda: (process.wait(), os.write(end, b".")), daemon=True).start()
        asked = over = False
        while not asked and not over:
            ready, _, _ = select.select([watch.handle, ended], [], [])
            over = ended in ready
            asked = any(name in QUESTIONS for name in watch.names())
        while asked and (below := descendants()):
            for item in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(item, signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
    return process.returncode, asked


def descendants() -> List[int]:
    """Return the processes that this one and its children started."""
    parents: Dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open("/proc/" + name + "/stat", "rb") as stream:
                parents[int(name)] = int(stream.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
    below = {os.getpid()}
    for _ in range(len(parents)):
        more = {item for item, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    return sorted(below - {os.getpid()})


def first(command: List[str], result: str) -> int:
    """Run a command in an empty repository, if the source has one, and leave in /asked whether it had a question."""
    # The command may run again, in a shell.
    shutil.rmtree(ASKED, ignore_errors=True)
    os.makedirs(ASKED + "/source")
    os.makedirs(ASKED + "/choice")
    status, asked, top = 0, False, SOURCE
    absent = text(os.path.join(RULES, "absent"))  # In a source distribution, nobody looks for git.
    refused = text(os.path.join(RULES, "refused")) or absent
    if os.path.isfile(GIVEN):
        status = again(command)
    elif os.path.isfile(os.path.join(RULES, "exclude")) and not (absent and os.path.isfile(SOURCE + "/PKG-INFO")):
        top = ABOVE if os.path.isfile(os.path.join(RULES, "below")) else SOURCE
        os.environ.update(ACROSS)
        folder = "" if top == SOURCE else FOLDER
        git = make_folders(top, "[core]\n\trepositoryformatversion = 0\n\tbare = false\n", folder)
        status, asked = asks(command, git)
        remove(top)
    else:
        status = subprocess.run(command, check=False).returncode
    if asked and refused:
        print("bakery: the build asks git, and " + refused, file=sys.stderr)
        return 1
    write(ASKED + "/epoch", os.environ.get(VARIABLE, "").encode() if asked else b"")
    if not asked:
        if not os.path.isfile(GIVEN):
            print("bakery: git was not asked")
        os.mkdir(ASKED + "/choice/repository")
        return status
    print("bakery: git was asked: this runs again, with a repository", flush=True)
    empty(result)
    subprocess.run(["cp", "-a", PRISTINE + "/.", ASKED + "/source"], check=True)
    os.symlink("state", ASKED + "/choice/repository")
    return 0


def again(command: List[str]) -> int:
    """Run a command with the repository of the description."""
    with open(GIVEN, encoding="utf-8") as stream:
        given = json.load(stream)
    print("bakery: git was asked: this runs with a repository", flush=True)
    os.environ.update(ACROSS)
    prefix, names_source = given["prefix"], any(map(is_in_source, command))
    if not prefix or not names_source:
        top = ABOVE if prefix else SOURCE
        Repository(given, top, FOLDER if prefix else "").make()
        status = subprocess.run(command, check=False).returncode
        remove(top)
        return status
    top = os.path.join(SOURCE, TOP)
    if os.path.isdir(top):
        place_back(prefix)  # The command runs again, in a shell, after it was killed.
    place_source(prefix)
    place = os.path.normpath(os.path.join(top, prefix))
    Repository(given, top, prefix).make()
    command = [place + word[len(SOURCE) :] if is_in_source(word) else word for word in command]
    status = subprocess.run(command, check=False).returncode
    place_back(prefix)
    return status


def is_in_source(word: str) -> bool:
    """Return whether a word of a command is the source or a folder of it."""
    return (word + "/").startswith(SOURCE + "/") and os.path.isdir(word)


def main() -> None:
    """Run the first or the second run."""
    words = sys.argv[1 : sys.argv.index("--")]
    command = sys.argv[sys.argv.index("--") + 1 :]
    which, result = words[:2]
    sys.stdout.flush()
    if which == "first":
        status = first(command, result)
    elif os.path.isfile(GIVEN):
        with open(EPOCH, encoding="ascii") as stream:
            os.environ.update({VARIABLE: epoch} if (epoch := stream.read()) else {})
        status = again(command)
    else:
        empty(result)
        return
    if status:
        sys.exit(status if status > 0 else 128 - status)
    if "--full" in words and not os.path.islink(ASKED + "/choice/repository") and not os.listdir(result):
        sys.exit("bakery: the native command put nothing into " + result)


if __name__ == "__main__":
    main()
