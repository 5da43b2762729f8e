"""Which CUDA toolkits serve a recipe, and which releases its cells need from the package index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bakery.core.errors import PlanError
from bakery.core.image_names import parse
from bakery.plan.cells import Need
from bakery.plan.dockerfile import Env
from bakery.recipe.models import Builder
from bakery.resolve.references import declarations
from bakery.resolve.references import parse as parse_value
from bakery.resolve.settings import Settings
from bakery.toolchains import components
from bakery.toolchains.registry import ANY_CUDA, bases, frameworks, toolkits
from bakery.toolchains.toolkits.base import Toolkit
from bakery.toolchains.toolkits.repository import Repository

_OF_RECIPE = "components"
"""Who asks for the components of the recipe, in the names of places."""

_OTHER_BASE = 'or use an image with CUDA as the base: base = { image = "…" }, toolkit = "image"'


def toolkit_of(builder: Builder, base: str, cuda: str) -> str:
    """Return the name of the toolkit of cells with one base and CUDA release, ``cuda`` if their major decides."""
    if builder.toolkit != ANY_CUDA:
        return builder.toolkit
    if parse(base).cuda:
        return "image"
    nvcc = bool(builder.framework) and frameworks()[builder.framework].nvcc
    narrowed = (toolkit.of_choice(nvcc=nvcc) for toolkit in toolkits().values())
    has = any(
        cuda.partition(".")[0] in map(str, toolkit.majors) and cuda in (toolkit.releases or (cuda,))
        for toolkit in narrowed
    )
    return ANY_CUDA if has or not builder.cuda_repository else "repository"


def select_toolkits(settings: Settings) -> tuple[Toolkit, ...]:
    """Return the toolkit that the recipe names; for ``cuda`` the preferred toolkit of each CUDA major."""
    name = settings.recipe.builder.toolkit
    if name == "none":
        return ()
    if name == ANY_CUDA:
        nvcc = settings.framework is not None and settings.framework.nvcc
        narrowed = (toolkit.of_choice(nvcc=nvcc) for toolkit in toolkits().values())
        return tuple(sorted((toolkit for toolkit in narrowed if toolkit.majors), key=lambda toolkit: toolkit.majors))
    toolkit = toolkits()[name]
    if isinstance(toolkit, Repository):
        url = parse_value(settings.recipe.builder.cuda_repository or "")
        args = declarations((Env((("CUDA_REPOSITORY", url),)),))
        return (replace(toolkit, address=url, declared=args, key=settings.recipe.builder.cuda_repository_key or ""),)
    return (toolkit,)


def needed_releases(settings: Settings, selected: tuple[Toolkit, ...], cuda: str) -> tuple[Need, ...]:
    """Return the releases that cells with one CUDA release need from the package index.

    Raises:
        PlanError: no toolkit has the CUDA release, or a component does not exist for it.
    """
    needs = []
    if sdist := settings.recipe.source.sdist:
        name, version = sdist.split("==")
        needs.append(Need(name, version, True, "the project's source"))
    # A toolkit without majors has the releases of its image or repository.
    major = _cuda_major(settings, selected, cuda) if any(toolkit.majors for toolkit in selected) else 0
    if not any(isinstance(toolkit, Repository) for toolkit in selected):
        check_components(settings.recipe.builder.components, settings.recipe.builder.toolkit, major, cuda)
    for toolkit in selected:
        if major in toolkit.majors:
            check_release(toolkit, cuda, settings.recipe.builder.toolkit)
            others = tuple(
                f"{item.name} (CUDA {', '.join(item.releases) or '/'.join(map(str, item.majors))})"
                for item in toolkits().values()
                if item.majors and item.name != toolkit.name
            )
            needs.append(Need(toolkit.index_name, cuda, False, f"CUDA {cuda} (toolkit {toolkit.name!r})", others))
    return tuple(needs)


def _cuda_major(settings: Settings, selected: tuple[Toolkit, ...], cuda: str) -> int:
    majors = sorted(major for toolkit in selected for major in toolkit.majors)
    for major in majors:
        if cuda.split(".", maxsplit=1)[0] == str(major):
            return major
    raise PlanError(
        f"toolkit {settings.recipe.builder.toolkit!r} has no CUDA {cuda}",
        hint=f"it has the releases {', '.join(f'{major}.x' for major in majors)}; {_OTHER_BASE}",
    )


def components_of(settings: Settings) -> Mapping[str, Sequence[str]]:
    """Return the components to install: those whose headers the framework includes, which its projects share, and the recipe's."""
    listed, framework = settings.recipe.builder.components, settings.framework
    if framework is None:
        return {_OF_RECIPE: listed}
    versioned = {components.name(item) for item in listed} - {*listed}
    shared = tuple(item for item in framework.components if item not in versioned)
    return {framework.name: shared, _OF_RECIPE: tuple(item for item in listed if item not in shared)}


def check_release(toolkit: Toolkit, cuda: str, named: str = "") -> None:
    """Raise PlanError if a toolkit with a fixed list of releases lacks this one; ``named`` is that of the recipe."""
    if toolkit.releases and cuda not in toolkit.releases:
        major = cuda.partition(".")[0]
        near = [release for release in toolkit.releases if release.partition(".")[0] == major]
        ending = f"_cuda{cuda.replace('.', '_').rpartition('_')[0]}"
        images = [name for name in bases() if name.endswith(ending)]
        if named == ANY_CUDA:
            base = f'base = "{images[0]}", which has it' if images else 'base = { image = "…" }, toolkit = "image"'
            raise PlanError(
                f"toolkit 'cuda' has nvcc of CUDA {cuda} only from the base or from NVIDIA's packages",
                hint=f'write {base}; or name the packages: cuda-repository = "https://…"; or set CUDA_VERSION to '
                f"{' or '.join(near or toolkit.releases)}",
            )
        with_it = f'write base = "{images[0]}", toolkit = "image": it has this CUDA; ' if images else ""
        raise PlanError(
            f"toolkit {toolkit.name!r} has no CUDA {cuda}, only {' and '.join(toolkit.releases)}",
            hint=f'{with_it}set CUDA_VERSION to {" or ".join(near or toolkit.releases)}; toolkit "clang" has other releases '
            f"of CUDA 12, without nvcc; {_OTHER_BASE}",
        )


def check_components(listed: Sequence[str], toolkit: str, major: int, release: str) -> None:
    """Raise PlanError if a component does not exist for a CUDA release; major 0 is a toolkit that installs none."""
    if listed and not major:
        raise PlanError(
            f"toolkit {toolkit!r} installs no components: its image or its packages contain them",
            hint='remove builder.components, or take toolkit "cuda", which adds them from NVIDIA\'s wheels',
        )
    if missing := components.lacking(listed, major, release):
        raise PlanError(missing, hint="leave it out of builder.components, or take another CUDA release")
