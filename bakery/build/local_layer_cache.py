"""Local layer caches that hold what a run would write are not written again.

BuildKit pulls and unpacks every layer that it exports, also one that it has from that very cache: a run that finds all
of them would be over in a fraction of the time which that takes. Other kinds of caches have no place for a mark.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.build.buildx.bake import BakeRequest
from bakery.build.buildx.outcome import BakeOutcome
from bakery.build.run_folders import refuse_links
from bakery.core.names import CacheBackend
from bakery.core.plain_files import read_plain
from bakery.emit.cache import cache_attributes
from bakery.plan.model import Plan

MARK = "made-of"
"""The file in a cache's folder that says what the cache is of."""


@dataclass(frozen=True, slots=True)
class LocalCaches:
    """The local layer caches of one run.

    Attributes:
        root: the project, which caches' folders are relative to.
        keys: cell → digest of all that defines it.
    """

    root: Path
    plan: Plan
    keys: Mapping[str, str]

    def check(self) -> None:
        """Refuse links in the place of caches: BuildKit writes through them.

        Raises:
            OutputError: there is one.
        """
        values = self.plan.values()
        if values["CACHE"] == CacheBackend.LOCAL:
            refuse_links(self.root, self.root / values["CACHE_DIR"], below=True)

    def spared(self, request: BakeRequest) -> BakeRequest:
        """Return a request that leaves the caches as they are which hold what it would write."""
        if request.no_cache or request.pull:
            return request
        fresh = (
            name
            for name, (folder, key) in self._cache_folders(request).items()
            if _mark(folder) == _content(folder, key)
        )
        unchanged = (f"{name}.cache-to=" for name in fresh)
        return replace(request, overrides=(*request.overrides, *unchanged))

    def note(self, request: BakeRequest, outcome: BakeOutcome) -> None:
        """Mark the caches that a bake wrote, all of whose targets are done.

        A mark goes where commands were run all the same: what a tag or an index led to changed, and the next run writes.
        A mark that cannot be written is none: a cache that is written once more is no harm.
        """
        for name, (folder, key) in self._cache_folders(request).items():
            was_spared = f"{name}.cache-to=" in request.overrides
            with contextlib.suppress(OSError):
                if outcome.cache or (was_spared and outcome.ran):
                    (folder / MARK).unlink(missing_ok=True)
                elif not was_spared:
                    (folder / MARK).write_text(_content(folder, key))

    def _cache_folders(self, request: BakeRequest) -> dict[str, tuple[Path, str]]:
        """Return target → the folder that its cache is written to, and the key of what is written."""
        values = self.plan.values()
        if values["CACHE"] != CacheBackend.LOCAL or any(item.key.startswith("cache-") for item in self.plan.overrides):
            return {}
        folders = {}
        for target in (*request.targets, *request.beside):
            written = cache_attributes(self.plan, values, target).get("cache-to")
            for entry in written if isinstance(written, list) else ():
                if isinstance(entry, dict):
                    folders[target.name] = (self.root / str(entry["dest"]), self.keys[target.cell.id])
        return folders


_LARGEST = 16 << 20


def _content(folder: Path, key: str) -> str:
    """Return what marks a cache as it is now; empty where there is none."""
    try:
        return f"{key} {hashlib.sha256(read_plain(folder / 'index.json', _LARGEST)).hexdigest()}\n"
    except OSError:
        return ""


def _mark(folder: Path) -> str | None:
    try:
        return read_plain(folder / MARK, _LARGEST).decode()
    except (OSError, ValueError):
        return None
