"""The kinds of targets of a recipe, their groups, and the stages that all recipes have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a target produces."""

    DEV = "dev"
    IMAGE = "image"
    WHEEL = "wheel"
    TEST = "test"
    MATERIALS = "materials"
    COMPILER_CACHE = "compiler-cache"
    OTHER = "other"


INGREDIENTS = "ingredients"
"""The stage that lists what a wheel is made of; the targets of kind ``materials`` add the packages of its test."""


CARRY = "carry"
"""The stage that imports or exports the compiler cache."""


CARRIED_AT = "CARRIED_AT"
"""The build argument that makes these steps run each time. With ``no-cache``, BuildKit would empty their cache mounts."""


CACHE_SCOPE = "BUILDKIT_CACHE_MOUNT_NS"
"""BuildKit's own build argument: a prefix of the ids of all cache mounts."""


CARRIED = "carried"
"""The stage, or the build context in its place, with a compiler cache from elsewhere."""


class Phase(StrEnum):
    """A part of a build that may receive secrets."""

    FETCH = "fetch"
    REQUIREMENTS = "requirements"
    NATIVE = "native"
    COMPILE = "compile"
    TEST = "test"


GROUPS: dict[str, tuple[Kind, ...]] = {
    "default": (Kind.WHEEL,),
    "dev": (Kind.DEV,),
    "image": (Kind.IMAGE,),
    "wheel": (Kind.WHEEL,),
    "test": (Kind.TEST,),
    "full": (Kind.WHEEL, Kind.TEST),
}
"""The groups of targets, and their kinds. A recipe has the groups whose targets it has."""


@dataclass(frozen=True, slots=True)
class TargetKind:
    """What the targets of one kind build: a stage of the Dockerfile (without the recipe's name), with these phases."""

    stage: str
    description: str
    phases: frozenset[Phase]
    # BuildKit's exporter: ``local`` (files), ``docker`` (an image in the engine) or ``cacheonly``
    exporter: str = "local"
    # for ``local``, the folder below ``DEST`` that holds a subfolder for each cell; ends with a slash
    folder: str = ""
    writes_cache: bool = True
    # the mode of the layer cache; empty for the recipe's
    cache_mode: str = ""
    # they are built together with the wheel and share its steps, so they read its cache first
    reads_wheel_cache: bool = False


_INSTALL = frozenset({Phase.FETCH, Phase.REQUIREMENTS})


TARGET_KINDS: dict[Kind, TargetKind] = {
    Kind.IMAGE: TargetKind("image", "The image with its tools", frozenset({Phase.REQUIREMENTS}), "docker"),
    Kind.WHEEL: TargetKind("wheel", "The repaired wheel", frozenset(Phase) - {Phase.TEST}),
    Kind.TEST: TargetKind(
        "test", "The wheel alone in a clean base: loaded, imported, tried", frozenset(Phase), "cacheonly"
    ),
    Kind.DEV: TargetKind("builder", "The build tools and the project, for a shell", _INSTALL, "docker"),
    Kind.MATERIALS: TargetKind(
        "materials",
        "What a cell is made of, for a lock; nothing is compiled",
        _INSTALL,
        folder="materials/",
        # Its other layers are in the wheel's cache.
        cache_mode="min",
        reads_wheel_cache=True,
    ),
    Kind.COMPILER_CACHE: TargetKind(
        "compiler-cache",
        "What compilers made, carried to or from another machine; nothing is compiled",
        _INSTALL,
        folder="compiler-cache/",
        # It belongs to one machine.
        writes_cache=False,
        reads_wheel_cache=True,
    ),
    Kind.OTHER: TargetKind("other", "What a plugin builds with a bake file of its own", frozenset()),
}
"""Everything that differs between kinds of targets."""


WHEEL_KINDS = (Kind.WHEEL, Kind.TEST, Kind.DEV, Kind.MATERIALS)
"""The kinds of a recipe that builds wheels; the first one is the default target."""


IMAGE_KINDS = (Kind.IMAGE, Kind.MATERIALS)
"""The kinds of a recipe that builds an image."""
