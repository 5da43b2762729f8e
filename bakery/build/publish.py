"""Takes finished wheels from the stage folder and publishes them to the output folder.

Files that a container exported are untrusted: only plain files with the name of a wheel are taken, within limits.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.utils import InvalidWheelFilename

from bakery.core.errors import AuditError, OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.files import open_plain
from bakery.core.wheel_names import parse_wheel_name

LARGEST = 4 * 1024**3
"""Bytes that a wheel may have: the limit of a zip archive without extensions."""

MAX_FILES = 64
_SHARE = "set wheel.abi3 in the recipe, so that one cell builds the wheel of all Pythons; or "

_TEMPORARY = (".bakery-", ".tmp")


def stage_files(stage: Path, *, largest: int = LARGEST, most: int = MAX_FILES) -> tuple[Path, ...]:
    """Return the wheels in a stage folder, sorted by name.

    Raises AuditError if there is something else (a link, a folder, a device, another name), too much, or nothing, and
    OutputError if the folder cannot be read.
    """
    problems: list[str] = []
    wheels: list[Path] = []
    try:
        if not stat.S_ISDIR(stage.lstat().st_mode):
            raise AuditError(f"{stage} is not a folder")
        with os.scandir(stage) as entries:
            for number, entry in enumerate(entries):
                if number >= most:
                    problems.append(f"more than {most} files")
                    break
                problem = _problem(entry.name, entry.stat(follow_symlinks=False), largest)
                if problem:
                    problems.append(f"{entry.name!a}: {problem}")
                else:
                    wheels.append(Path(entry.path))
    except OSError as error:
        raise OutputError(f"cannot read {stage}: {error}") from error
    if problems:
        raise AuditError(f"{stage.name}: what the build exported is not wheels only", details=sorted(problems))
    if not wheels:
        raise AuditError(f"{stage.name}: the build exported no wheel", hint="the wheel stage must copy *.whl to /")
    return tuple(sorted(wheels))


def exported_names(stage: Path) -> tuple[str, ...]:
    """Return the names of the wheels in a stage folder, sorted; none if it is not as `stage_files` takes it."""
    try:
        return tuple(path.name for path in stage_files(stage))
    except (AuditError, OutputError):
        return ()


def _problem(name: str, status: os.stat_result, largest: int) -> str:
    """Return why an exported entry is no wheel; empty if it is one."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}.get(kind, "a device, pipe or socket")
    if status.st_nlink != 1:
        return "a hard link"
    if status.st_size > largest:
        return f"{status.st_size} bytes, more than {largest}"
    try:
        parse_wheel_name(name)
    except InvalidWheelFilename:
        return "not the name of a wheel"
    return ""


class Claims:
    """The cell that built each file of a run: two cells must not build different files of one name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, tuple[str, str]] = {}

    def take(self, cell: str, files: Mapping[Path, str]) -> None:
        """Claim the names of ``files`` (path → sha256). Raises OutputError if another cell built another such file."""
        with self._lock:
            for path, sha256 in files.items():
                other, digest = self._owners.setdefault(path.name, (cell, sha256))
                if digest != sha256:
                    raise OutputError(
                        f"two cells built different files with one name: {path.name}",
                        hint=(_SHARE if "-abi3-" in path.name else "")
                        + "bake one of them only (exclude, --only), or give the cells different names",
                        details=[f"{other}: sha256 {digest}", f"{cell}: sha256 {sha256}"],
                    )


def publish(
    files: Sequence[Path], output: Path, *, root: Path, is_halted: Callable[[], bool] | None = None
) -> tuple[Path, ...]:
    """Put regular files into the output folder and return their paths: all or, if one cannot be written, none.

    Each is complete when it appears (mode 0644). Files with the same content stay, and so do other files. No link may
    lead the folder out of ``root``, the project. Parallel runs wait for each other; if ``is_halted`` returns True, the
    wait ends. Raises OutputError if a file cannot be written, and InterruptedBake if the wait was ended.
    """
    with _written(output, root, is_halted) as folder:
        _replace([source for source in files if not same_file(source, folder / source.name)], folder)
    return tuple(output / file.name for file in files)


def check_output(output: Path, root: Path) -> None:
    """Create the output folder and a file in it: better now than after hours. Raises OutputError if it cannot."""
    with (
        _reported(output),
        tempfile.TemporaryFile(prefix=_TEMPORARY[0], suffix=_TEMPORARY[1], dir=_folder(output, root)),
    ):
        pass


def holds(output: Path, name: str, sha256: str) -> bool:
    """Return whether the output folder has a file with this name and content."""
    try:
        return _digest(output / name) == sha256
    except OSError:
        return False


@contextlib.contextmanager
def _reported(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {output}: {error.strerror or error}", hint="no incomplete file was left in it"
        ) from error


@contextlib.contextmanager
def _written(output: Path, root: Path, is_halted: Callable[[], bool] | None) -> Iterator[Path]:
    """Lock the output folder, remove leftovers of dead runs, and return it."""
    with _reported(output):
        folder = _folder(output, root)
        with locked_folder(folder, is_halted):
            _sweep(folder)
            yield folder


def _folder(output: Path, root: Path) -> Path:
    target = output.resolve()
    inside = Path(os.path.normpath(output.absolute())).is_relative_to(os.path.normpath(root.absolute()))
    if inside and not target.is_relative_to(root.resolve()):
        raise OutputError(f"{output} is a link that leads out of {root}", hint="name the folder that it leads to")
    target.mkdir(parents=True, exist_ok=True)
    return target


def _replace(sources: Sequence[Path], folder: Path) -> None:
    """Copy all files first, so that a full disk changes nothing."""
    ready: list[tuple[Path, Path]] = []
    try:
        for source in sources:
            if (folder / source.name).is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder", str(folder / source.name))
            ready.append((_copy(source, folder), folder / source.name))
        for temporary, final in ready:
            temporary.replace(final)
    finally:
        for temporary, _ in ready:
            temporary.unlink(missing_ok=True)
    if ready:
        _sync(folder)


def _copy(source: Path, folder: Path) -> Path:
    """Copy a file into a folder, if possible without a name until it is complete."""
    handle, path = _unnamed(folder)
    try:
        with os.fdopen(handle, "wb") as target, open_plain(source, follow=False) as origin:
            shutil.copyfileobj(origin, target, 1024 * 1024)
            target.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(target.fileno(), 0o644)
            os.fsync(target.fileno())
            if path is None:
                path = folder / f"{_TEMPORARY[0]}{secrets.token_hex(8)}{_TEMPORARY[1]}"
                # Python follows the link to the file only if it is given a folder, which an absolute path makes idle.
                os.link(f"/proc/self/fd/{target.fileno()}", path, src_dir_fd=target.fileno(), follow_symlinks=True)
    except BaseException:
        if path:
            path.unlink(missing_ok=True)
        raise
    return path


def _unnamed(folder: Path) -> tuple[int, Path | None]:
    """Open a new file without a name, so that nothing is left if this process is killed; else with one."""
    with contextlib.suppress(OSError, AttributeError):
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600), None
    handle, name = tempfile.mkstemp(prefix=_TEMPORARY[0], suffix=_TEMPORARY[1], dir=folder)
    return handle, Path(name)


def same_file(source: Path, final: Path) -> bool:
    """Return whether ``final`` is a regular file with the content of ``source``."""
    with contextlib.suppress(FileNotFoundError):
        status = final.lstat()
        same_size = stat.S_ISREG(status.st_mode) and status.st_size == source.lstat().st_size
        return same_size and _digest(final) == _digest(source)
    return False


def _digest(path: Path) -> str:
    with open_plain(path, follow=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(folder: Path) -> None:
    """Remove leftovers of dead runs; a live run would hold the lock."""
    prefix, suffix = _TEMPORARY
    for path in folder.glob(f"{prefix}*{suffix}"):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make new names permanent."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
