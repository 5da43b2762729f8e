"""What builds of materials are given, and what builds are held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakery.build.buildx.listener import Listener
from bakery.build.secrets.mask import Mask
from bakery.plan.cells import Image
from bakery.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Bench:
    """What a build of materials is given.

    Attributes:
        names: (image in the files, platform) → name of its stand-in.
        variables: variables of the bake file, beside the plan's own.
        reads: files outside the project that steps are given as secrets.
        mask: hides secrets in what steps print.
        state: the project's state folder.
        record: the folder for what a record holds the build to; None where nothing but a lock does.
    """

    root: Path
    plan: Plan
    environment: Mapping[str, str]
    names: Mapping[tuple[str, str], str]
    variables: Mapping[str, str]
    listener: Listener
    state: Path
    reads: tuple[Path, ...] = ()
    mask: Mask = field(default_factory=lambda: Mask({}))
    builder: str | None = None
    no_cache: bool = False
    record: Path | None = None

    def name(self, image: Image) -> str:
        """Return the name that the engine has for an image."""
        return self.names.get((image.ref, image.platform), image.ref)


@dataclass(frozen=True, slots=True)
class Pins:
    """What a build is held to.

    Attributes:
        overrides: target → its overrides in bake's grammar: base images, and the context with its packages.
        environment: variables for buildx.
        reads: folders outside the project that the overrides name.
        locked: a lock holds all of it.
    """

    overrides: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    locked: bool = False


def file_of(root: Path, plan: Plan) -> Path:
    """Return where a plan's lock lies."""
    return root / plan.lock
