"""Whose cache mounts a bake uses.

BuildKit has one cache mount for each id, whoever builds, and a build step can write anything into it. The built-in build
argument ``BUILDKIT_CACHE_MOUNT_NS`` puts a prefix before every id. The prefix comes from a random key of this user and
the project's path, so no checkout can choose it: projects, checkouts and users do not see each other's cache mounts.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.engine.paths import places

KEY_VARIABLE = "BAKERY_CACHE_KEY"
"""Replaces the user's key and the project's path: whoever has the same value shares the cache mounts of a recipe."""

_BYTES = 32


def cache_scope(environ: Mapping[str, str], root: Path, recipe: str) -> str:
    """Return the prefix of the ids of all cache mounts that a recipe of a project uses.

    Args:
        environ: the user's environment.
        root: the project.

    Raises:
        OutputError: the user's key cannot be read or written.
    """
    if shared := environ.get(KEY_VARIABLE):
        return _digest(os.fsencode(shared), "shared", recipe)
    return _digest(_key(places(environ).state / "cache-key"), "project", str(root.resolve()), recipe)


def _digest(key: bytes, *parts: str) -> str:
    # No path and no name has a NUL.
    return hmac.digest(key, os.fsencode("\0".join(parts)), "sha256").hex()[:32]


def _key(path: Path) -> bytes:
    """Return the user's key; it is made when it is first needed.

    Raises:
        OutputError: it cannot be read or written, or is damaged.
    """
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            key = file.read(_BYTES + 1)
    except OSError as error:
        raise OutputError(
            f"cannot use {path}, the key of this user's cache mounts: {error.strerror or error}",
            hint=f"set XDG_STATE_HOME to a folder that can be written, or {KEY_VARIABLE} to a key of your own",
        ) from error
    if len(key) != _BYTES:
        raise OutputError(f"{path} is damaged", hint="remove it: bakery makes a new key, and caches start empty")
    return key


def _make(path: Path) -> None:
    """Write a new key, whole before it has its name; of two processes that do this at once, the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
