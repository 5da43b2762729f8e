#!/opt/bakery/bin/python -IS
"""Run a build with the build folder of the last one, so that it compiles only what changed.

Usage: incremental.py NAME FOLDER SUFFIXES COMMAND...

- NAME: of the cell, whose builds take turns.
- FOLDER: the build folder, or the name of a file that marks it: the folders below the source that have such a file.
- SUFFIXES: as .c,.h: of the files whose use the build system itself records. It compares their times.

The folder is kept after a build that succeeds, and used again only if nothing but the content of such files changed.
Any other change, also of a file's name, of the environment or of a file outside the source, starts with no folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple

STORE = "/var/cache/incremental"
SOURCE = "/src"
PROGRAMS = "/usr/local/bin"

CONFIGURED = "CMakeCache.txt"
"""Not kept: it has the results of checks that may have read the source, and CMake repeats these."""

CHUNK = 1 << 20

Entries = Dict[str, List[Any]]
"""Path below the source -> its mode, its content (digest, or target of a link), and its time in ns."""


def walk(folder: str, skipped: frozenset[str] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder; links are not followed, and what is in ``skipped`` is left out."""
    with os.scandir(folder) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        if entry.path in skipped:
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, skipped)


def digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    value = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            value.update(block)
    return value.hexdigest()


def entries_of(source: str) -> Entries:
    """Return the files, links and folders of the source. The times of folders do not count."""
    entries: Entries = {}
    for entry in walk(source):
        info = entry.stat(follow_symlinks=False)
        content, moment = "", info.st_mtime_ns
        if entry.is_symlink():
            content = os.readlink(entry.path)
        elif entry.is_file(follow_symlinks=False):
            content = digest(entry.path)
        else:
            moment = 0
        entries[os.path.relpath(entry.path, source)] = [info.st_mode, content, moment]
    return entries


def mount_points() -> frozenset[str]:
    """Return the paths where something is mounted: no part of the image."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return frozenset(line.split()[4] for line in file) - {"/"}


def surroundings(root: str, mounts: frozenset[str], words: List[str], environment: Mapping[str, str]) -> str:
    """Return a digest of what a build uses beside the source: the image, the programs of Bakery, command, environment."""
    # BuildKit sets variables of each build to follow it.
    variables = sorted(item for item in environment.items() if not item[0].startswith(("OTEL_", "TRACEPARENT")))
    value = hashlib.sha256(json.dumps([words, variables]).encode())
    for path in sorted(mounts):
        if os.path.dirname(path) == PROGRAMS and os.path.isfile(path):
            value.update(json.dumps([path, digest(path)]).encode())
    # Reading all files would take too long: an image that is made again has other times.
    for entry in walk(root, mounts):
        info = entry.stat(follow_symlinks=False)
        moment = 0 if stat.S_ISDIR(info.st_mode) else info.st_mtime_ns
        size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
        value.update(json.dumps([entry.path, info.st_mode, size, moment]).encode())
    return value.hexdigest()


def compare(old: Entries, new: Entries, suffixes: Tuple[str, ...]) -> Tuple[List[str], str]:
    """Return the files whose content changed, and why the last build folder cannot be used; empty if it can."""
    if others := sorted(old.keys() ^ new.keys()):
        return [], "%s is %s" % (others[0], "new" if others[0] in new else "gone")
    changed = sorted(path for path in new if new[path][:2] != old[path][:2])
    for path in changed:
        if not path.endswith(suffixes) or not stat.S_ISREG(new[path][0]) or old[path][0] != new[path][0]:
            return [], "%s changed" % path
    return changed, ""


def read_state(path: str) -> Tuple[Dict[str, Any], str]:
    """Return what the last build recorded, and why it cannot be used."""
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except (OSError, ValueError):
        return {}, "there is no build folder of an earlier run"
    if not isinstance(state, dict) or state["written"] > time.time():
        return {}, "the clock went back"
    return state, ""


def copy(source: str, target: str) -> None:
    """Copy a build folder with its times; links stay links."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(CONFIGURED), dirs_exist_ok=True)


def restore(kept: str, source: str, new: Entries, around: str, suffixes: Tuple[str, ...]) -> None:
    """Put the build folders of the last build in place and give unchanged files their old times, if this is safe."""
    state, reason = read_state(kept + "/state.json")
    changed: List[str] = []
    if not reason and state["around"] != around:
        reason = "the image, the environment or the command changed"
    if not reason:
        changed, reason = compare(state["source"], new, suffixes)
    if reason:
        print("bakery: incremental: builds everything: %s" % reason, flush=True)
        return
    now = time.time_ns()
    for path, (mode, _, _) in new.items():
        if not stat.S_ISDIR(mode):
            moment = now if path in changed else state["source"][path][2]
            new[path][2] = moment
            os.utime(os.path.join(source, path), ns=(moment, moment), follow_symlinks=False)
    for number, folder in enumerate(state["folders"]):
        copy("%s/%d" % (kept, number), folder)
    print("bakery: incremental: %d of %d files changed" % (len(changed), len(new)), flush=True)


def build_folders(folder: str, source: str) -> List[str]:
    """Return the build folders that exist."""
    if folder.startswith("/"):
        return [folder] if os.path.isdir(folder) else []
    return [os.path.dirname(entry.path) for entry in walk(source) if entry.name == folder]


def keep(kept: str, folders: List[str], new: Entries, around: str) -> None:
    """Keep the build folders. What was kept before is replaced at once, or removed if this process is killed."""
    fresh = kept + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    for number, folder in enumerate(folders):
        copy(folder, "%s/%d" % (fresh, number))
    state = {"around": around, "source": new, "folders": folders, "written": time.time()}
    with open(fresh + "/state.json", "w", encoding="utf-8") as file:
        json.dump(state, file)
    shutil.rmtree(kept, ignore_errors=True)
    os.rename(fresh, kept)


def main(words: List[str], store: str = STORE, source: str = SOURCE, root: str = "/") -> int:
    """Build and return the exit status of the command."""
    name, folder, suffixes, *command = words
    kept = "%s/%s" % (store, hashlib.sha256(name.encode()).hexdigest()[:32])
    around = surroundings(root, mount_points(), words, os.environ)
    new = entries_of(source)
    with open(kept + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        restore(kept, source, new, around, tuple(suffixes.split(",")))
        # The lock must not outlive this process, so the command does not get it.
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            keep(kept, build_folders(folder, source), new, around)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: incremental.py NAME FOLDER SUFFIXES COMMAND...")
    sys.exit(main(sys.argv[1:]))
