"""Takes finished wheels from the stage folder and publishes them, with their records, to the output folder.

Files that a container exported are untrusted: only plain files with the name of a wheel are taken, within limits.

At no moment does a wheel stand beside the records of other bytes. The records of a wheel are two files with its name.
While they are replaced, they have names with the digest of their wheel, so that a process that is killed between two
renames leaves nothing wrong: whoever reads a record finds the right one (`bakery.runs.records.read.provenance_of`), and
the next process that publishes tidies up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename

from bakery.core.errors import AuditError, OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.inside import leads_out
from bakery.runs.records.buildkit import FOLDER, PROVENANCE, SBOM, record_path, waiting_path
from wheel_audit.plain_files import file_sha256, open_plain
from wheel_audit.wheel_names import parse_wheel_name

LARGEST = 4 * 1024**3
"""Bytes that a wheel may have: the limit of a zip archive without extensions."""

MAX_FILES = 64

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


class NameTaken(OutputError):
    """Two cells built different files of one name; other wheels can still be published."""


class Claims:
    """What built each wheel of a command, over all of its recipes: nothing else may build another one of that name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[tuple[Path, str], tuple[str, str]] = {}

    def take(self, owner: str, output: Path, files: Mapping[str, str]) -> None:
        """Claim the names of ``files`` (name → sha256) in an output folder: all or none.

        Raises NameTaken if another owner has a name for another file.
        """
        folder = output.resolve()
        with self._lock:
            for name, sha256 in files.items():
                other, digest = self._owners.get((folder, name), (owner, sha256))
                if digest != sha256:
                    raise name_taken(name, {other: digest, owner: sha256})
            for name, sha256 in files.items():
                self._owners.setdefault((folder, name), (owner, sha256))


def name_taken(name: str, built: Mapping[str, str]) -> NameTaken:
    """Return the error of different files of one name; ``built``: what built it → sha256."""
    return NameTaken(
        f"{len(built)} cells built different files with one name: {name}",
        hint=_key_for(name) or "bake one of them only (exclude, --only), or give the cells different names",
        details=[f"{owner}: sha256 {digest}" for owner, digest in built.items()],
    )


def publish(files: Sequence[Path], output: Path, *, root: Path) -> tuple[Path, ...]:
    """Put regular files into the output folder and return their paths: all or, if one cannot be written, none.

    Each is complete when it appears (mode 0644). Files with the same content stay, and so do other files. No link may
    lead the folder out of ``root``, the project. Parallel runs wait for each other. Raises OutputError if a file cannot
    be written, and InterruptedBake if the wait was ended.
    """
    with written(output, root) as folder, copied(files, folder) as copies:
        for temporary, final in copies.values():
            temporary.replace(final)
        if copies:
            sync(folder)
    return tuple(output / file.name for file in files)


def check_output(output: Path, root: Path) -> None:
    """Create the output folder and a file in it: better now than after hours. Raises OutputError if it cannot."""
    with (
        _reported(output),
        tempfile.TemporaryFile(prefix=_TEMPORARY[0], suffix=_TEMPORARY[1], dir=folder_of(output, root)),
    ):
        pass


def _key_for(name: str) -> str:
    """Return advice to set the key with which one cell builds a wheel of this name; empty for a wheel of one Python."""
    tags = parse_wheel_name(name)[3]
    stable = [int(tag.interpreter[3:]) for tag in tags if tag.abi == "abi3" and tag.interpreter[3:].isdecimal()]
    if not stable and any(tag.abi != "none" for tag in tags):
        return ""
    key = f'abi3 = "3.{min(stable)}"' if stable else "py3 = true"
    return f"set wheel.{key} in the recipe: one cell then builds the wheel of all Pythons, and each tests it"


def holds(output: Path, name: str, sha256: str) -> bool:
    """Return whether the output folder has a file with this name and content."""
    try:
        return digest_of(output / name) == sha256
    except OSError:
        return False


@contextlib.contextmanager
def _reported(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        hint = "a file is in its place: remove it, or name another folder: --output DIR"
        raise OutputError(
            f"cannot write {output}: {error.strerror or error}",
            hint=hint if is_file else "no incomplete file was left in it",
        ) from error


@contextlib.contextmanager
def written(output: Path, root: Path) -> Iterator[Path]:
    """Create and lock a folder, remove leftovers of dead runs, and yield it. Raises as `publish`."""
    with _reported(output):
        folder = folder_of(output, root)
        with locked_folder(folder):
            sweep(folder)
            yield folder


def folder_of(output: Path, root: Path) -> Path:
    """Create a folder, and return it without links. Raises OutputError if a link leads it out of ``root``, and OSError."""
    target = output.resolve()
    if leads_out(output, root):
        raise OutputError(f"{output} is a link that leads out of {root}", hint="name the folder that it leads to")
    target.mkdir(parents=True, exist_ok=True)
    return target


@contextlib.contextmanager
def copied(sources: Sequence[Path], folder: Path) -> Iterator[dict[Path, tuple[Path, Path]]]:
    """Yield file → (copy under another name, its name in the folder) for the files that the folder does not have.

    All are copied before the first one gets its name, so a full disk changes nothing. Raises OSError.
    """
    copies: dict[Path, tuple[Path, Path]] = {}
    try:
        for source in sources:
            final = folder / source.name
            if final.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder", str(final))
            if not same_file(source, final):
                copies[source] = _copy(source, folder), final
        yield copies
    finally:
        for temporary, _ in copies.values():
            temporary.unlink(missing_ok=True)


def _copy(source: Path, folder: Path) -> Path:
    """Copy a file into a folder, if possible without a name until it is complete."""
    handle, path = _unnamed(folder)
    try:
        with os.fdopen(handle, "wb") as target, open_plain(source) as origin:
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
        return same_size and digest_of(final) == digest_of(source)
    return False


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a regular file. Raises OSError, for a link, too."""
    return file_sha256(path, follow=False)


def sweep(folder: Path) -> None:
    """Remove leftovers of dead runs from a folder; a live run would hold the lock. Raises OSError."""
    prefix, suffix = _TEMPORARY
    for path in folder.glob(f"{prefix}*{suffix}"):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Make new names permanent."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class NewWheel:
    """A wheel to publish, and its records: files with the names of `record_path`; none if nothing records its build."""

    path: Path
    sha256: str
    records: Sequence[Path] = ()


def publish_wheels(wheels: Sequence[NewWheel], output: Path, *, root: Path) -> list[str]:
    """Publish wheels with their records: all or, if a file cannot be written, none. Return the names of replaced wheels.

    The rest is as in `bakery.runs.publish.publish`. A wheel without records leaves none of another wheel beside it.
    """
    with written(output, root) as folder:
        home = folder_of(output / FOLDER, root)
        sweep(home)
        _finish_renames(folder, home)
        records = [path for wheel in wheels for path in wheel.records]
        with copied([wheel.path for wheel in wheels], folder) as files, copied(records, home) as papers:
            replaced = [final.name for _, final in files.values() if final.is_file()]
            try:
                for wheel in wheels:
                    final, is_new = folder / wheel.path.name, wheel.path in files
                    for path in wheel.records:
                        suffix = path.name.removeprefix(final.name)
                        if path in papers or is_new:
                            # What has this content already may stand beside the old wheel.
                            source = papers[path][0] if path in papers else home / path.name
                            source.replace(waiting_path(final, wheel.sha256, suffix))
                    if is_new:
                        _set_aside(final)
                        sync(home)
                        files[wheel.path][0].replace(final)
                if files:
                    sync(folder)
            finally:
                _finish_renames(folder, home)
            if papers:
                sync(home)
        # cibuildwheel's wheels have no records: then no empty folder stays.
        with contextlib.suppress(OSError):
            home.rmdir()
    return replaced


def _set_aside(wheel: Path) -> None:
    """Give the records of a wheel that will be replaced names with its digest."""
    # A link in its place is no wheel, and what stands beside it no record.
    sha256 = digest_of(wheel) if wheel.is_file() and not wheel.is_symlink() else "0" * 64
    for suffix in (PROVENANCE, SBOM):
        with contextlib.suppress(FileNotFoundError):
            record_path(wheel, suffix).replace(waiting_path(wheel, sha256, suffix))


_WAITING = re.compile(
    rf"(?P<wheel>.+\.whl)\.(?P<digest>[0-9a-f]{{12}})(?P<suffix>{re.escape(PROVENANCE)}|{re.escape(SBOM)})"
)


def _finish_renames(folder: Path, home: Path) -> None:
    """Give the records with digests in their names the names of their wheels; remove those of other wheels."""
    for path, name, digest, suffix in list(_waiting(home)):
        try:
            is_right = digest_of(folder / name).startswith(digest)
        except OSError:
            is_right = False
        if is_right:
            path.replace(home / f"{name}{suffix}")
        else:
            path.unlink(missing_ok=True)


def _waiting(home: Path) -> Iterator[tuple[Path, str, str, str]]:
    with os.scandir(home) as entries:
        for entry in entries:
            if (match := _WAITING.fullmatch(entry.name)) and not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path), match["wheel"], match["digest"], match["suffix"]
