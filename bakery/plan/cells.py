"""The cells of a plan, the images and releases that they need, and their targets."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bakery.core.image_names import parse
from bakery.core.target_kinds import TARGET_KINDS, Kind, Phase


def selects(globs: Iterable[str], names: Iterable[str]) -> bool:
    """Whether globs select what has these names: one matches, or there is none, and no ``!GLOB`` matches."""
    globs, names = tuple(globs), tuple(names)
    wanted = [glob for glob in globs if not glob.startswith("!")]
    matching = [glob for glob in globs for name in names if fnmatch.fnmatchcase(name, glob.removeprefix("!"))]
    return all(glob in wanted for glob in matching) and bool(matching or not wanted)


@dataclass(frozen=True, slots=True)
class Image:
    """A base image that an engine must have before anything is baked.

    Attributes:
        ref: the name of the image in the generated files.
        platform: empty for the platform of the builder.
        suite: the Debian suite of an image that Bakery makes itself if no registry can be reached; else empty.
        tests: only the test stage uses it.
    """

    ref: str
    platform: str
    suite: str = ""
    tests: bool = False

    @property
    def key(self) -> str:
        """The name and the platform of the image, for records."""
        return f"{self.ref} {self.platform}"


@dataclass(frozen=True, slots=True)
class Need:
    """A release that must exist in the package index before anything is baked.

    Attributes:
        sdist: a source distribution is needed.
        why: what it is needed for, in messages.
        alternatives: other sources of it, in messages.
    """

    name: str
    version: str
    sdist: bool
    why: str
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of the matrix.

    Attributes:
        id: names its targets, log, stage folder and table rows.
        axes: axis → value.
        args: build arguments that this cell adds to `Plan.args` or changes.
        images: its base images, the one that compiles first.
        needs: the releases that it needs from the package index.
        built_by: the id of the cell that builds its wheel; its own unless it shares a stable-ABI wheel.
        abi3: its wheel must serve several Pythons, as `Audit.abi3` or `Audit.py3` says.
        own: the ending of its stages' names, if overrides give it other settings; see `Plan.of`.
    """

    id: str
    axes: Mapping[str, str]
    args: Mapping[str, str]
    images: tuple[Image, ...] = ()
    needs: tuple[Need, ...] = ()
    built_by: str = ""
    abi3: bool = False
    own: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "built_by", self.built_by or self.id)

    @property
    def platform(self) -> str:
        """The platform in Docker's spelling."""
        return self.axes["platform"]

    @property
    def is_musl(self) -> bool:
        """Whether the C library of its base is musl."""
        return bool(self.images) and parse(self.images[0].ref).family.startswith("musllinux")

    def has(self, kind: Kind) -> bool:
        """Whether the cell has a target of a kind: all but the wheel that another cell builds."""
        return kind is not Kind.WHEEL or self.built_by == self.id


@dataclass(frozen=True, slots=True)
class Merged:
    """One of several native builds whose results go into the same wheel (``native.merge``).

    Attributes:
        tag: names its stages: ``cu12``.
        axes: merged axis → its value in this build.
        args: the variables that have other values in other builds, and what is derived from them.
        folder: the folder of the source that receives its result.
        extra: the extra of the wheel that users install for it; empty for none.
        requires: what this extra requires by facts.
        cells: the id of a cell → that of the cell of `Plan.unmerged` with this build alone.
    """

    tag: str
    axes: Mapping[str, str]
    args: Mapping[str, str]
    folder: str
    extra: str = ""
    requires: tuple[str, ...] = ()
    cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A target of the bake file, for one cell: ``wheel-cp312``."""

    name: str
    kind: Kind
    cell: Cell
    stage: str

    @property
    def images(self) -> tuple[Image, ...]:
        """The base images that it needs."""
        tests = Phase.TEST in TARGET_KINDS[self.kind].phases or self.kind is Kind.MATERIALS
        return tuple(image for image in self.cell.images if tests or not image.tests)
