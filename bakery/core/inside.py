"""Folders and names of strangers: a checkout, a git tree, an archive, what a container exported.

Outside of this module and `bakery.core.files`, nothing writes to such a folder, and nothing opens a path that a stranger named
(tests/unit/test_paths_of_strangers.py).
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO

from wheel_audit.plain_files import FLAGS, content, plain

LONGEST_NAME = 1024
"""Bytes of a relative name. Longer ones are cut by some system calls and refused by others."""

MOST_NAMES = 100_000
"""Entries that a folder of strangers may have."""

_HAS_HANDLES = os.open in os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def relative(name: str) -> str:
    """Return a stranger's name of a file below a folder, such as ``src/a.c``.

    Raises OSError for a name that leaves the folder or may do so on another system, leads into a git directory, has
    control characters, or is too long.
    """
    parts = _parts(name)
    is_odd = any(character < " " or character in "\x7f\\" for character in name)
    # As git does it: file systems ignore case, final dots, or characters that are not shown.
    plain = (part.encode("ascii", "ignore").decode().rstrip(". ").lower() for part in parts)
    if is_odd or any(part in (".git", "git~1") for part in plain):
        raise _refused(name)
    return name


def is_below(name: str) -> bool:
    """Whether a relative name stays in its folder, if no part of it is a link."""
    try:
        return bool(_parts(name))
    except OSError:
        return False


def leads(path: Path) -> bool:
    """Whether there is a file or folder. For a link to a name that is too long, `pathlib` raises an error."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    # On Windows, a colon names a drive or a stream of a file.
    is_odd = "\0" in name or (os.name == "nt" and any(character in name for character in "\\:"))
    if is_odd or len(os.fsencode(name)) > LONGEST_NAME or any(part in ("", ".", "..") for part in parts):
        raise _refused(name)
    return parts


def _refused(name: str) -> OSError:
    return OSError(errno.EINVAL, f"refusing the name {name[:100]!a}", None)


class Inside:
    """A folder whose content strangers may have made; the folder itself is the user's, and may be a link.

    Each name below it is opened part by part below a handle, so that no link is followed at any level, not even one that
    takes the place of a folder meanwhile. All methods raise OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def _parent(self, parts: list[str], *, create: bool = False) -> Iterator[tuple[int | None, str]]:
        """Yield the handle of the folder of a name, and what to put before its last part."""
        if not _HAS_HANDLES:
            yield None, self._checked(parts, create=create)
            return
        handle = os.open(self.folder, _FOLDER)
        try:
            for depth, part in enumerate(parts[:-1], 1):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                try:
                    inner = os.open(part, _FOLDER | _NO_LINK, dir_fd=handle)
                except NotADirectoryError:
                    raise self._no_folder("/".join(parts[:depth])) from None
                os.close(handle)
                handle = inner
            yield handle, ""
        finally:
            os.close(handle)

    def _checked(self, parts: list[str], *, create: bool) -> str:
        """Return the path of the folder of a name with a separator, on systems without handles of folders."""
        path = self.folder
        for part in parts[:-1]:
            path /= part
            if create:
                path.mkdir(exist_ok=True)
            if not _is_folder(path.lstat()):
                raise self._no_folder(path.relative_to(self.folder).as_posix())
        if (path / parts[-1]).is_symlink():
            raise self._no_folder("/".join(parts))
        return str(path) + os.sep

    def _no_folder(self, name: str) -> OSError:
        return OSError(errno.ENOTDIR, "a link, or not a folder", str(self.folder / name))

    def open(self, name: str) -> BufferedReader:
        """Open a regular file, as `open_plain`."""
        parts = _parts(name)
        with self._parent(parts) as (handle, prefix):
            try:
                file = os.open(prefix + parts[-1], FLAGS | _NO_LINK, dir_fd=handle)
            except OSError as error:
                what = "is a link" if error.errno == errno.ELOOP else error.strerror
                raise OSError(error.errno, what, str(self.folder / name)) from None
        return plain(file, str(self.folder / name))

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a regular file that has at most ``most`` bytes."""
        with self.open(name) as file:
            return content(file, most, str(self.folder / name))

    def write(self, name: str, data: bytes | IO[bytes], mode: int = 0o666) -> None:
        """Write a file and its folders. The file appears as a whole, in place of any file or link with its name."""
        parts = _parts(name)
        with self._parent(parts, create=True) as (handle, prefix):
            scratch, final = f"{prefix}.bakery-{secrets.token_hex(8)}.tmp", prefix + parts[-1]
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS
            try:
                with os.fdopen(os.open(scratch, flags, mode, dir_fd=handle), "wb") as file:
                    if isinstance(data, bytes):
                        file.write(data)
                    else:
                        shutil.copyfileobj(data, file, 1 << 20)
                os.replace(scratch, final, src_dir_fd=handle, dst_dir_fd=handle)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(scratch, dir_fd=handle)
                raise OSError(error.errno, error.strerror, str(self.folder / name)) from None

    def copy(self, name: str, to: Inside) -> None:
        """Copy a regular file, or a link that stays inside the folder, to the same name in another folder."""
        parts = _parts(name)
        with self._parent(parts) as (handle, prefix):
            status = os.stat(prefix + parts[-1], dir_fd=handle, follow_symlinks=False)
            target = os.readlink(prefix + parts[-1], dir_fd=handle) if stat.S_ISLNK(status.st_mode) else None
        if target is None:
            with self.open(name) as file:
                to.write(name, file, stat.S_IMODE(status.st_mode))
        elif stays(name, target):
            with to._parent(parts, create=True) as (handle, prefix):
                os.symlink(target, prefix + parts[-1], dir_fd=handle)
        else:
            raise OSError(errno.EINVAL, "a link that leads out", str(self.folder / name))

    def remove(self, name: str) -> None:
        """Remove a folder with all that is in it, as far as possible; links are not followed.

        Each folder below moves up into this one before it is emptied, so that a program may leave any number of levels:
        `shutil.rmtree` calls itself for each (until Python 3.13), and a long path is no name for the system.
        """
        parts = _parts(name)
        with suppress(OSError), self._parent(parts) as (outer, before):
            if not _is_folder(os.stat(before + parts[-1], dir_fd=outer, follow_symlinks=False)):
                return
            os.chmod(before + parts[-1], 0o700, dir_fd=outer)
            with self._parent([*parts, "."]) as (top, prefix):
                waiting = ["."]
                while waiting:
                    folder = waiting.pop()
                    with suppress(OSError):
                        waiting += self._emptied([*parts, folder], top, prefix)
                        if folder != ".":
                            os.rmdir(prefix + folder, dir_fd=top)
            os.rmdir(before + parts[-1], dir_fd=outer)

    def _emptied(self, parts: list[str], top: int | None, prefix: str) -> list[str]:
        """Remove the files of a folder, and move its folders to ``top``; return the names that they have there."""
        moved = []
        with self._parent([*parts, "."]) as (handle, before), os.scandir(before or handle) as entries:
            # A list, because a folder that moves within ``top`` would be found again.
            for entry in list(entries):
                name = before + entry.name
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False) and _is_folder(entry.stat(follow_symlinks=False)):
                        # What came out of a container may have folders that their owner cannot enter or change.
                        os.chmod(name, 0o700, dir_fd=handle)
                        new = f".bakery-{secrets.token_hex(8)}.tmp"
                        os.rename(name, prefix + new, src_dir_fd=handle, dst_dir_fd=top)
                        moved.append(new)
                    else:
                        os.unlink(name, dir_fd=handle)
        return moved

    def names(self, below: str = "", most: int = MOST_NAMES) -> list[str]:
        """Return the names of all that is no folder, in a folder and those below it, sorted; none if it is not there."""
        found: list[str] = []
        waiting = [below]
        left = most
        while waiting:
            folder = waiting.pop()
            parts = [*(_parts(folder) if folder else ()), "."]
            try:
                with self._parent(parts) as (handle, prefix), os.scandir(prefix or handle) as entries:
                    for entry in entries:
                        name = f"{folder}/{entry.name}" if folder else entry.name
                        (waiting if _is_folder(entry.stat(follow_symlinks=False)) else found).append(name)
                        if (left := left - 1) < 0:
                            raise OSError(errno.E2BIG, f"more than {most} entries", str(self.folder))
            except FileNotFoundError:
                if folder != below:
                    raise
        return sorted(found)


def _is_folder(status: os.stat_result) -> bool:
    # A junction of Windows is a folder that leads elsewhere.
    return stat.S_ISDIR(status.st_mode) and not getattr(status, "st_reparse_tag", 0)


def leads_out(path: Path, root: Path) -> bool:
    """Whether a path is inside a folder by its name, and outside of it by links."""
    inside = Path(os.path.normpath(path.absolute())).is_relative_to(os.path.normpath(root.absolute()))
    return inside and not path.resolve().is_relative_to(root.resolve())


def stays(name: str, target: str) -> bool:
    """Whether the link ``name`` with this target stays in the folder that its name is relative to.

    The target is read as text: ``..`` only at its start, because behind another link it would lead elsewhere.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((depth for depth, part in enumerate(parts) if part != ".."), len(parts))
    is_odd = target.startswith("/") or "\\" in target or "\0" in target or len(os.fsencode(target)) > LONGEST_NAME
    return not is_odd and ups <= name.count("/") and ".." not in parts[ups:]


def remove_tree(path: Path) -> None:
    """Remove a folder as `Inside.remove`; nothing happens if it is a link, a file, or not there."""
    Inside(path.parent).remove(path.name)


@contextmanager
def temporary_tree(prefix: str) -> Iterator[Path]:
    """Give a temporary folder for what strangers made. `tempfile.TemporaryDirectory` fails for a deep one."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove_tree(folder)
