"""Arguments that name wheels: files and folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bakery.core.errors import UsageError


def wheel_files(paths: Iterable[Path]) -> list[Path]:
    """Return the named files and the wheels in the named folders. Raises UsageError if a path does not exist."""
    paths = list(paths)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise UsageError(f"no such file or folder: {', '.join(missing)}", hint="expected wheels, or folders of wheels")
    return [file for path in paths for file in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
