"""Checks buildx's entitlements: what a bake may access outside its directory.

buildx skips its own check with ``--progress=rawjson``, so this check runs before it.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import PlanError, UsageError
from bakery.core.image_names import full

_REMOTE = ("docker-image://", "target:", "oci-layout://", "https://", "http://", "git://", "git@", "ssh://")
_FIELDS = {
    "output": ("write", "dest"),
    "cache-to": ("write", "dest"),
    "cache-from": ("read", "src"),
    "secrets": ("read", "src", "source"),
}
"""Key → access, and the fields with paths."""

_PATHS = ("context", "dockerfile", "contexts")

GRANTS = {
    "fs.read": "PATH",
    "fs.write": "PATH",
    "secret.env": "VARIABLE",
    "secret.command": "NAME",
    "cache": "PLACE",
    "image": "NAME",
    "server": "ADDRESS",
    "index": "ADDRESS",
}
"""Values of ``--allow``: buildx's for files and folders; variables and programs with a secret; layer caches of the recipe;
its images and servers, if the build has credentials; the index whose password cibuildwheel shows to the build."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What a user allows a recipe outside the project; ``others``: all but paths, as they were written."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    others: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Grants:
        """Return the values of ``--allow`` as grants. Raises UsageError with all texts that are not understood."""
        parts = [text.partition("=") for text in texts]
        unknown = [key + equals + value for key, equals, value in parts if key not in GRANTS or not value]
        if unknown:
            known = ", ".join(f"{key}={value}" for key, value in GRANTS.items())
            raise UsageError(f"invalid --allow {', '.join(map(repr, unknown))}", hint=f"it takes {known}")
        reads, writes = (
            tuple(Path(value).absolute() for key, _, value in parts if key == access)
            for access in ("fs.read", "fs.write")
        )
        return cls(reads, writes, frozenset(texts))

    def require(
        self,
        wants: Sequence[str],
        root: Path,
        *,
        who: str = "the recipe",
        hint: str = "add these if you trust {} that far",
    ) -> None:
        """Check what a recipe or a job (``who``) needs outside the project, also through links.

        Raises UsageError with all that is not granted, in the words of ``--allow``.
        """
        refused = [text for want in wants if (text := self._refused(want, root.resolve()))]
        if refused:
            raise UsageError(
                f"{who} needs permissions that were not granted",
                details=[f"--allow {shlex.quote(text)}" for text in refused],
                hint=hint.format(who),
            )

    def _refused(self, want: str, root: Path) -> str:
        """Return the grant that is missing; empty for none."""
        key, _, value = want.partition("=")
        if not key.startswith("fs."):
            return "" if want in self.others or (key == "image" and self._has_image(value)) else want
        path = (root / value).resolve()
        allowed = (root, *(self.writes if key == "fs.write" else (*self.reads, *self.writes)))
        return "" if any(path.is_relative_to(folder.resolve()) for folder in allowed) else f"{key}={path}"

    def _has_image(self, ref: str) -> bool:
        """Whether an image is granted without its digest, or with all images of its place (``image=quay.io/me/*``)."""
        granted = [text.removeprefix("image=") for text in self.others if text.startswith("image=")]
        return any(
            full(ref).startswith(full(f"{item[:-1]}x").removesuffix("x:latest"))
            if item.endswith("/*")
            else full(ref) == full(item)
            for item in granted
            if "@" not in item
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a bake may read and write besides ``root``."""

    root: Path
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()

    def flags(self) -> list[str]:
        """Return the ``--allow`` flags for buildx."""
        needed = [f"fs.read={path}" for path in self._outside(self.reads)]
        needed += [f"fs.write={path}" for path in self._outside(self.writes)]
        return [f"--allow={need}" for need in dict.fromkeys(needed)]

    def _outside(self, paths: Sequence[Path]) -> list[str]:
        root = self.root.resolve()
        resolved = [(root / path).resolve() for path in paths]
        return [str(path) for path in resolved if not path.is_relative_to(root)]

    def require(self, overrides: Sequence[str]) -> None:
        """Raise PlanError if an override (``pattern.key=value``) asks for more than is allowed."""
        for override in overrides:
            key, _, value = override.partition("=")
            name = key.removesuffix("+").split(".", 2)[1:]
            if not name:
                continue
            for verb, path in _accesses(name[0], value):
                self._check(override, path, verb, self.writes if verb == "write" else (*self.reads, *self.writes))
            if (name[0] == "entitlements" and value) or (name[0], value) == ("network", "host"):
                raise PlanError(f"{override}: no entitlement can be granted", hint="remove the override")

    def _check(self, override: str, path: str, verb: str, paths: Sequence[Path]) -> None:
        root = self.root.resolve()
        resolved = (root / path).resolve()
        if not any(resolved.is_relative_to((root / folder).resolve()) for folder in (root, *paths)):
            raise PlanError(
                f"{override}: would {verb} {resolved}, which is outside {root}",
                hint=f"allow it: --allow {shlex.quote(f'fs.{verb}={resolved}')}",
            )


def _accesses(key: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield access and path of the files in a value of ``key``; a plain path is short for a local export."""
    if key in _PATHS and value and not value.startswith(_REMOTE):
        yield "read", value
    if key in _FIELDS:
        access, *names = _FIELDS[key]
        for name, text in _fields(value):
            if name in names or (not name and key == "output" and text != "-"):
                yield access, text


def _fields(value: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the fields of ``type=local,dest=x``; the name is empty if there is none."""
    for row in csv.reader([value]):
        for item in row:
            name, separator, text = item.partition("=")
            yield (name.strip().lower(), text) if separator else ("", item)
