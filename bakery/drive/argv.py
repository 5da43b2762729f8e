"""The arguments of one ``docker buildx bake``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bakery.drive.engine import EXECUTION
from bakery.names import CACHE_SCOPE


def bake_argv(
    call: Sequence[str],
    *,
    bakefile: Path,
    targets: Sequence[str],
    metadata: Path,
    scope: str,
    overrides: Sequence[str] = (),
    builder: str | None = None,
    no_cache: bool = False,
    pull: bool = False,
    defer_errors: bool = False,
    flags: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of one bake: python-on-whales' call, and the flags that its own ``bake`` lacks.

    Args:
        call: from `Engine.call`.
        scope: the prefix of the ids of all cache mounts; no override changes it.
        overrides: values of ``--set``; a key may come twice, unlike in python-on-whales.
        defer_errors: a failing target does not cancel its siblings; for a buildx that offers it.
        flags: further flags, such as ``--allow=…``.
    """
    argv = [*call, "buildx", "bake", f"--file={bakefile}", "--progress=rawjson", f"--metadata-file={metadata}"]
    argv += [f"--builder={builder}"] if builder else []
    argv += ["--no-cache"] if no_cache else []
    argv += ["--pull"] if pull else []
    argv += [f"{EXECUTION}=defer-error"] if defer_errors else []
    sets = (*overrides, f"*.args.{CACHE_SCOPE}={scope}")
    return [*argv, *flags, *(f"--set={override}" for override in sets), *targets]
