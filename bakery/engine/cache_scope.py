"""The namespace of cache mounts.

BuildKit has one cache mount for each id, for all users, and a build step can write anything into it. The build argument
``BUILDKIT_CACHE_MOUNT_NS`` adds a prefix to every id. The prefix comes from a random key of the user and the path of the
project, so no checkout can choose it: projects, checkouts and users do not see each other's cache mounts.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.engine.paths import engine_paths

KEY_VARIABLE = "BAKERY_CACHE_KEY"
"""Replaces the user's key and the project's path: everyone with the same value shares the cache mounts of a recipe."""

_BYTES = 32


def cache_scope(environ: Mapping[str, str], root: Path, recipe: str, *, is_own: bool = False) -> str:
    """Return the prefix for the ids of a recipe's cache mounts. Raises OutputError if the user's key cannot be used.

    ``is_own``: the source is the project's own. Recipes of such sources share the mounts, and BuildKit runs steps once that are equal.
    """
    if shared := environ.get(KEY_VARIABLE):
        return _digest(os.fsencode(shared), "shared", recipe)
    return _digest(
        _key(engine_paths(environ).state / "cache-key"), "project", str(root.resolve()), "" if is_own else recipe
    )


def _digest(key: bytes, *parts: str) -> str:
    # No path and no name has a NUL.
    return hmac.digest(key, os.fsencode("\0".join(parts)), "sha256").hex()[:32]


def _key(path: Path) -> bytes:
    """Return the user's key; create it if there is none. Raises OutputError if it is damaged or cannot be used."""
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            key = file.read(_BYTES + 1)
    except OSError as error:
        raise OutputError(
            f"cannot use {path}, the key of this user's cache mounts: {error.strerror or error}",
            hint=f"set XDG_STATE_HOME to a writable folder, or {KEY_VARIABLE} to a key of your own",
        ) from error
    if len(key) != _BYTES:
        raise OutputError(f"{path} is damaged", hint="delete it: bakery creates a new key, and caches start empty")
    return key


def _make(path: Path) -> None:
    """Write a new key atomically. If two processes do this at the same time, the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
