"""Read the secrets of a plan just before a bake, into files that are never on a disk.

Only buildx receives them, and they are gone when the bake ends.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bakery.core import child
from bakery.core.environment import for_tool
from bakery.core.errors import UsageError
from bakery.plan.delivery import Secret
from bakery.runs.secrets.mask import Mask


@contextlib.contextmanager
def private_files(contents: Mapping[str, bytes]) -> Iterator[dict[str, Path]]:
    """Provide name → a file with the content, which only this user's processes can read until the context ends.

    On Linux the files are in memory and end with this process, even if it is killed; elsewhere they are in a temporary
    folder of this user.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
            yield {name: _written(Path(folder) / name, data) for name, data in contents.items()}
        return
    with contextlib.ExitStack() as stack:
        paths = {}
        for name, data in contents.items():
            file = stack.enter_context(os.fdopen(os.memfd_create("bakery"), "wb", buffering=0))
            file.write(data)
            os.fchmod(file.fileno(), 0o600)
            paths[name] = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        yield paths


def _written(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


LARGEST = 500 * 1024
"""BuildKit's limit of a secret in bytes (session/secrets, MaxSecretSize)."""

COMMAND_TIMEOUT_S = 60.0
_CHUNK = 1024 * 1024

_NONE_LEFT = "a secret is missing, and the build would continue without it"


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """The secrets of a run; ``variables``: variable of the bake file → file, empty if no step needs it."""

    variables: Mapping[str, str]
    mask: Mask


@contextlib.contextmanager
def read_secrets(
    secrets: Sequence[Secret],
    needed: Sequence[Secret],
    root: Path,
    environ: Mapping[str, str],
    hidden: Mapping[str, bytes] = MappingProxyType({}),
) -> Iterator[RunSecrets]:
    """Read the ``needed`` ones of a plan's secrets; they are forgotten when the context ends.

    ``hidden``: name → other values that logs and wheels must not have. Files and commands are relative to ``root``, the project. Raises UsageError, which names all unreadable secrets, and
    no value.
    """
    values: dict[str, bytes] = {}
    problems = []
    for secret in needed:
        try:
            value = _value(secret, root, environ)
            if secret.variable and b"\0" in value:
                raise ValueError("it contains a NUL byte, which no environment variable can have")
            values[secret.name] = value
        except ValueError as reason:
            problems.append(f"{secret.name} ({secret.origin}): {reason}")
    if problems:
        raise UsageError(_NONE_LEFT, details=problems, hint="see [secrets] in the recipe")
    contents = {secret.holder: values[secret.name] for secret in needed if secret.holder}
    with private_files(contents) as files:
        variables = {secret.holder: str(files.get(secret.holder, "")) for secret in secrets if secret.holder}
        yield RunSecrets(variables, Mask({**hidden, **values}))


def leaks(wheel: Path, mask: Mask) -> list[str]:
    """Return a line, without the value, for each file of a valid wheel that contains a secret."""
    if not mask:
        return []
    lines = []
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            names = mask.names_in(os.fsencode(info.filename))
            with archive.open(info) as member:
                rest = b""
                while chunk := member.read(_CHUNK):
                    names |= mask.names_in(rest + chunk)
                    rest = (rest + chunk)[-mask.longest :]
            lines += [
                f"{os.fsdecode(mask.hide(os.fsencode(info.filename)))} contains the secret {name}"
                for name in sorted(names)
            ]
    return lines


def _value(secret: Secret, root: Path, environ: Mapping[str, str]) -> bytes:
    """Return the value of a secret. Raises ValueError, without the value."""
    if secret.env:
        value = os.fsencode(environ.get(secret.env, ""))
        where = "the variable is not set" if secret.env not in environ else "the variable is empty"
    elif secret.file:
        value, where = _read(root / secret.file), "the file is empty"
    else:
        value, where = _printed(secret.command, root, environ), "it printed nothing"
    if not value:
        raise ValueError(where)
    if len(value) > LARGEST:
        raise ValueError(f"more than {LARGEST // 1024} kB, which is the limit of BuildKit")
    return value


def _read(path: Path) -> bytes:
    try:
        # Not blocking: a pipe would wait for its writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("not a regular file")
            return file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _printed(command: Sequence[str], root: Path, environ: Mapping[str, str]) -> bytes:
    """Run a program without a shell; its standard error may contain the value and is dropped."""
    program = str(root / command[0]) if "/" in command[0] else command[0]
    try:
        ended = child.run(
            [program, *command[1:]], cwd=root, env=for_tool(environ), seconds=COMMAND_TIMEOUT_S, most=LARGEST
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be run: {getattr(error, 'strerror', '') or error}") from None
    if ended.is_late and not ended.is_long:
        raise ValueError(f"not done within {COMMAND_TIMEOUT_S:g} s")
    if ended.code and not ended.is_long:
        raise ValueError(f"it ended with exit code {ended.code}; run it by hand to see why")
    return ended.output.removesuffix(b"\n").removesuffix(b"\r")
