"""What a bake may reach outside its directory: buildx's entitlements, checked here.

buildx skips its own check with ``--progress=rawjson``, so what it would refuse is refused here, before it runs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.errors import PlanError

_REMOTE = ("docker-image://", "target:", "oci-layout://", "https://", "http://", "git://", "git@", "ssh://")
_WRITES = {"output": ("dest",), "cache-to": ("dest",)}
_READS = {"cache-from": ("src",), "secrets": ("src", "source"), "ssh": ()}
_PATHS = ("context", "dockerfile")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a bake may do.

    Attributes:
        root: the directory that it runs in; all below it may be read and written.
        reads: files and folders outside that it may read.
        writes: folders outside that it may write.
        grants: further entitlements in buildx's words (``network.host``), given by a person.
    """

    root: Path
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    grants: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        """Return the ``--allow`` flags that buildx needs to be told."""
        needed = [f"fs.read={path}" for path in self._outside(self.reads)]
        needed += [f"fs.write={path}" for path in self._outside(self.writes)]
        return [f"--allow={need}" for need in dict.fromkeys([*needed, *self.grants])]

    def _outside(self, paths: Sequence[Path]) -> list[str]:
        root = self.root.resolve()
        found = [(root / path).resolve() for path in paths]
        return [str(path) for path in found if not path.is_relative_to(root)]

    def require(self, overrides: Sequence[str]) -> None:
        """Raise PlanError if an override (``pattern.key=value``) asks for more than is allowed."""
        for override in overrides:
            key, _, value = override.partition("=")
            name = key.removesuffix("+").split(".", 2)[1:]
            if not name:
                continue
            for path in _written(name[0], value):
                self._check(override, path, "write", self.writes)
            for path in _read(name[0], value):
                self._check(override, path, "read", (*self.reads, *self.writes))
            self._check_grants(override, name[0], value)

    def _check(self, override: str, path: str, verb: str, paths: Sequence[Path]) -> None:
        root = self.root.resolve()
        found = (root / path).resolve()
        if not any(found.is_relative_to((root / folder).resolve()) for folder in (root, *paths)):
            raise PlanError(
                f"{override}: would {verb} {found}, which is outside {root}",
                hint=f"allow it: --allow fs.{verb}={found}",
            )

    def _check_grants(self, override: str, key: str, value: str) -> None:
        wanted = value if key == "entitlements" else "network.host" if (key, value) == ("network", "host") else ""
        if wanted and wanted not in self.grants:
            raise PlanError(f"{override}: needs the entitlement {wanted}", hint=f"allow it: --allow {wanted}")


def _written(key: str, value: str) -> Iterator[str]:
    """Yield the paths that a value of ``key`` writes; a plain path is short for a local export."""
    for name, text in _fields(value) if key in _WRITES else ():
        if name in _WRITES[key] or (not name and key == "output" and text != "-"):
            yield text


def _read(key: str, value: str) -> Iterator[str]:
    """Yield the paths that a value of ``key`` reads."""
    if key in _PATHS or key == "contexts":
        if value and not value.startswith(_REMOTE):
            yield value
        return
    for name, text in _fields(value) if key in _READS else ():
        if name in _READS[key]:
            yield text


def _fields(value: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of ``type=local,dest=x``; what has no name comes with an empty one."""
    for row in csv.reader([value]):
        for item in row:
            name, found, text = item.partition("=")
            yield (name.strip().lower(), text) if found else ("", item)
