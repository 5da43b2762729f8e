"""What a recipe asks of its toolkit, checked before anything is built."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.core.errors import PlanError
from bakery.resolve.settings import Settings
from bakery.toolchains import components
from bakery.toolchains.toolkits.base import Toolkit


def wanted_components(settings: Settings) -> tuple[str, ...]:
    """Return the components that a toolkit is to add: the recipe's, and those whose headers the framework's include."""
    listed = settings.texts("builder.components")
    named = {components.name(item) for item in listed}
    more = settings.framework.components if settings.framework else ()
    return (*listed, *(item for item in more if item not in named))


def check_release(toolkit: Toolkit, cuda: str) -> None:
    """Check that a toolkit with a fixed choice of releases has the one asked for.

    Raises:
        PlanError: it has not.
    """
    if toolkit.releases and cuda not in toolkit.releases:
        major = cuda.partition(".")[0]
        near = [release for release in toolkit.releases if release.partition(".")[0] == major]
        raise PlanError(
            f"toolkit {toolkit.name!r} has no CUDA {cuda}, only {' and '.join(toolkit.releases)}",
            hint=f'set CUDA_VERSION to {" or ".join(near or toolkit.releases)}; toolkit "clang", for '
            'what needs no nvcc, has others of CUDA 12, and an image with its own CUDA can be the base: base = { image = "…" }, toolkit = "image"',
        )


def check_components(listed: Sequence[str], toolkit: str, major: int, release: str) -> None:
    """Check that the components of a recipe exist for a CUDA release; its major is 0 for a toolkit that installs none.

    Raises:
        PlanError: one does not, or the toolkit has none to choose from.
    """
    if listed and not major:
        raise PlanError(
            f"toolkit {toolkit!r} adds no components: what is there is what its image or its packages bring",
            hint='remove builder.components, or take toolkit "cuda", which adds them from NVIDIA\'s wheels',
        )
    if missing := components.lacking(listed, major, release):
        raise PlanError(missing, hint="leave it out of builder.components, or take another CUDA release")
