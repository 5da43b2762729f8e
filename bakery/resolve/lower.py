"""Settings → plan."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from packaging.utils import canonicalize_name

from bakery.errors import PlanError, UsageError
from bakery.load import Loaded
from bakery.names import GROUPS, PLATFORM, CacheBackend, Kind, axis_variable
from bakery.plan import Audit, Cache, Cell, Family, Image, Need, Override, Plan, Ref, Value, ignored_output
from bakery.providers.bases.base import Base, Request
from bakery.providers.registry import ANY_CUDA, bases, toolkits
from bakery.providers.toolkits.base import Toolkit
from bakery.resolve.matrix import combinations, identifiers
from bakery.resolve.overrides import Sets, parse
from bakery.resolve.settings import Settings, check_values, decide
from bakery.resolve.stages import Parts, folder, stages

IGNORED = (
    ".git",
    "**/.bakery",
    "**/bakery.toml",
    "**/__pycache__",
    "**/.*_cache",
    "**/.hypothesis",
    "**/.nox",
    "**/.tox",
    "**/.venv",
    "**/*.egg-info",
    "**/*.cpython-*.so",
    "**/*.abi3.so",
    "**/build/bdist.*",
    "**/build/lib.*",
    "**/build/temp.*",
    "**/CMakeCache.txt",
    "**/CMakeFiles",
    "dist",
    "wheels",
    "wheelhouse",
)
"""What never enters the build context.

Results, caches and history change without changing a wheel; and what a build on this machine left beside the
source (objects, extensions, CMake's cache) would be taken for up to date in a container, and shipped.
"""

NO_ARGUMENT = frozenset({"DEST", "CACHE", "CACHE_REF", "CACHE_DIR", "CA_BUNDLE", "PIP_CONF"})
"""Variables of the bake file that steps do not see."""

_DESCRIPTIONS = {
    Kind.WHEEL: "The repaired wheel",
    Kind.TEST: "The wheel alone in a clean base: loaded, imported, tried",
    Kind.DEV: "The build tools and the project, for a shell",
}
_EXPORTS = {Kind.WHEEL: "wheels", Kind.TEST: "nothing", Kind.DEV: "image"}
_STAGES = {Kind.WHEEL: "wheel", Kind.TEST: "test", Kind.DEV: "builder"}


def resolve(loaded: Loaded, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a recipe.

    Args:
        sets: what ``--set`` said, each ``NAME=VALUE`` or bake's grammar.
        environ: the environment; names that start with ``BAKERY_`` set variables.

    Raises:
        UsageError: ``--set`` cannot be understood or names nothing that exists.
        PlanError: no plan can satisfy the recipe.
    """
    said = parse(sets)
    variables, platforms, rest = _lift(said, loaded)
    settings = decide(loaded, environ or {}, variables, platforms)
    base = _base(settings)
    chosen = _toolkits(settings)
    axes = combinations(settings.axes, *_rules(loaded))
    ids = identifiers(axes)
    request = Request(
        settings.text("builder.base.image"),
        settings.text("builder.base.digest"),
        tuple(dict.fromkeys(cell["python"] for cell in axes)),
    )
    parts = Parts(loaded.recipe.name, settings, base, request, chosen, loaded.folder)
    made = stages(parts)
    cells = _cells(loaded, settings, axes, ids, base, request, chosen)
    cells, remaining = _apply(rest, cells)
    args: dict[str, Value] = {
        item.name: (Ref(item.name),) for item in settings.variables if item.name not in NO_ARGUMENT
    }
    recipe = loaded.recipe
    dockerfile, bakefile = f"dockerfiles/{recipe.name}.Dockerfile", f"bake/{recipe.name}.hcl"
    return Plan(
        recipe=recipe.name,
        description=recipe.description or "",
        source_file=_source_file(loaded),
        context=".",
        dockerfile=dockerfile,
        bakefile=bakefile,
        variables=settings.variables,
        args=args,
        global_args=tuple(dict.fromkeys((*base.global_args, *(("CUDA_VERSION",) if chosen else ())))),
        cells=cells,
        families=tuple(
            Family(kind, f"{recipe.name}-{_STAGES[kind]}", _EXPORTS[kind], _DESCRIPTIONS[kind])
            for kind in (Kind.WHEEL, Kind.TEST, Kind.DEV)
        ),
        groups=GROUPS,
        cache=Cache(
            CacheBackend(settings.text("cache.backend")),
            settings.text("cache.ref"),
            settings.text("cache.directory"),
            settings.text("cache.mode"),
        ),
        stages=made,
        ignore=_ignored(parts, bakefile, dockerfile),
        audit=_audit(settings),
        output=settings.text("output.directory"),
        overrides=remaining,
        origins=settings.origins,
    )


def _ignored(parts: Parts, bakefile: str, dockerfile: str) -> tuple[str, ...]:
    """Return what never enters the build context, with what setuptools and bakery leave in this project."""
    inside = folder(parts) if parts.settings.text("source.path") else "."
    own = (
        "build/lib" if inside == "." else f"{inside}/build/lib",
        ignored_output(parts.settings.text("output.directory")),
        bakefile,
        dockerfile,
        f"{dockerfile}.dockerignore",
    )
    return (*IGNORED, *(pattern for pattern in own if pattern and pattern not in IGNORED))


def _lift(said: Sets, loaded: Loaded) -> tuple[dict[str, str], tuple[str, ...] | None, tuple[Override, ...]]:
    """Turn overrides of every target into what they mean: variables, axes and platforms of the recipe."""
    variables = dict(said.variables)
    platforms: tuple[str, ...] | None = None
    rest: list[Override] = []
    known = {*(loaded.recipe.variables or {}), "PYTHON_VERSION", "SOURCE_DATE_EPOCH"}
    known |= {axis_variable(axis) for axis in ((loaded.recipe.matrix and loaded.recipe.matrix.axes) or {})}
    for override in said.overrides:
        name = override.key.removeprefix("args.")
        if override.pattern == "*" and override.key.startswith("args.") and name in known:
            variables[name] = override.value
        elif override.pattern == "*" and override.key == "platform":
            given = _platforms(override)
            platforms = (*(platforms or ()), *given) if override.append else given
        else:
            rest.append(override)
    if platforms is not None and any(o.append and o.key == "platform" and o.pattern == "*" for o in said.overrides):
        platforms = tuple(dict.fromkeys((*(loaded.recipe.platforms or ("linux/amd64",)), *platforms)))
    return variables, platforms, tuple(rest)


def _platforms(override: Override) -> tuple[str, ...]:
    values = tuple(item.strip() for item in override.value.split(","))
    wrong = [item for item in values if not PLATFORM.match(item)]
    if wrong:
        raise UsageError(
            f"--set '{override}': unknown platform {', '.join(map(repr, wrong))}",
            hint="expected linux/amd64, linux/arm64, or both with a comma",
        )
    return values


def _base(settings: Settings) -> Base:
    image = settings.text("builder.base.image")
    name = "image" if image else settings.text("builder.base.provider")
    return bases()[name]


def _toolkits(settings: Settings) -> tuple[Toolkit, ...]:
    """Return the toolkits of the recipe: the named one, or for ``cuda`` one for each major."""
    name = settings.text("builder.toolkit")
    if name == "none":
        return ()
    chosen = [item for item in toolkits().values() if item.majors] if name == ANY_CUDA else [toolkits()[name]]
    return tuple(sorted(chosen, key=lambda item: item.majors))


def _rules(loaded: Loaded) -> tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]:
    matrix = loaded.recipe.matrix
    return ((matrix.exclude or ()), (matrix.include or ())) if matrix else ((), ())


def _cells(
    loaded: Loaded,
    settings: Settings,
    axes: Sequence[Mapping[str, str]],
    ids: Sequence[str],
    base: Base,
    request: Request,
    chosen: tuple[Toolkit, ...],
) -> tuple[Cell, ...]:
    carried = {axis: axis_variable(axis) for axis in axes[0] if axis != "platform"}
    overrides = (loaded.recipe.matrix and loaded.recipe.matrix.overrides) or ()
    values = {item.name: item.value for item in settings.variables}
    variables = {item.name: item for item in settings.variables}
    check_values(
        replace(variables[name], value=value)
        for override in overrides
        for name, value in override.variables.items()
        if name in variables
    )
    images: dict[tuple[str, str], tuple[Image, ...]] = {}
    needs: dict[str, tuple[Need, ...]] = {}
    cells = []
    for cell_id, cell in zip(ids, axes, strict=True):
        args = {variable: cell[axis] for axis, variable in carried.items()}
        for override in overrides:
            if fnmatch.fnmatchcase(cell_id, override.cells):
                args.update(override.variables)
        place = (cell["python"], cell["platform"])
        if place not in images:
            images[place] = (base.image(request, *place),)
        cuda = args.get("CUDA_VERSION", values.get("CUDA_VERSION", ""))
        if cuda not in needs:
            needs[cuda] = _needs(settings, chosen, cuda)
        cells.append(Cell(cell_id, cell, args, images[place], needs[cuda]))
    return tuple(cells)


def _needs(settings: Settings, chosen: tuple[Toolkit, ...], cuda: str) -> tuple[Need, ...]:
    needs = []
    sdist = settings.text("source.sdist")
    if sdist:
        name, version = sdist.split("==")
        needs.append(Need(name, version, True, "the project's source"))
    major = _cuda_major(settings, chosen, cuda) if chosen else 0
    for toolkit in chosen:
        if major in toolkit.majors:
            others = tuple(
                f"{item.name} (CUDA {'/'.join(map(str, item.majors))})"
                for item in toolkits().values()
                if item.majors and item is not toolkit
            )
            needs.append(Need(toolkit.index_name, cuda, False, f"CUDA {cuda} (toolkit {toolkit.name!r})", others))
    return tuple(needs)


def _cuda_major(settings: Settings, chosen: tuple[Toolkit, ...], cuda: str) -> int:
    served = sorted(major for toolkit in chosen for major in toolkit.majors)
    major = next((item for item in served if cuda.split(".", maxsplit=1)[0] == str(item)), None)
    if major is None:
        raise PlanError(
            f"toolkit {settings.text('builder.toolkit')!r} has no CUDA {cuda}",
            hint=f"it has the releases {', '.join(f'{item}.x' for item in served)}; "
            'an image with its own CUDA can be the base: base = { image = "…" }, toolkit = "none"',
        )
    return major


def _apply(overrides: Sequence[Override], cells: tuple[Cell, ...]) -> tuple[tuple[Cell, ...], tuple[Override, ...]]:
    """Apply arguments to the cells they select; return the cells and the overrides that buildx applies.

    Raises:
        UsageError: an override matches no target.
    """
    remaining = []
    for override in overrides:
        chosen = {cell.id for cell in cells if _selects(override.pattern, cell)}
        if not chosen:
            raise UsageError(f"--set '{override}' matches no target", hint=_no_match(override.pattern, cells))
        if override.key.startswith("args."):
            name = override.key.removeprefix("args.")
            cells = tuple(
                Cell(cell.id, cell.axes, {**cell.args, name: override.value}, cell.images, cell.needs)
                if cell.id in chosen
                else cell
                for cell in cells
            )
        elif override.key == "platform":
            raise UsageError(
                f"--set '{override}': platforms belong to the whole recipe",
                hint="write '*.platform=…', and choose cells with --only",
            )
        else:
            kinds = GROUPS.get(override.pattern)
            patterns = [f"{kind}-*" for kind in kinds] if kinds else [override.pattern]
            remaining += [Override(item, override.key, override.append, override.value) for item in patterns]
    return cells, tuple(remaining)


def _selects(pattern: str, cell: Cell) -> bool:
    return pattern in GROUPS or any(fnmatch.fnmatchcase(f"{kind}-{cell.id}", pattern) for kind in Kind)


def _no_match(pattern: str, cells: Sequence[Cell]) -> str:
    names = [f"{kind}-{cell.id}" for kind in Kind for cell in cells]
    near = get_close_matches(pattern, names, n=1)
    return f"did you mean {near[0]}?" if near else f"targets are called {names[0]}, …; '*' matches all"


def _audit(settings: Settings) -> Audit:
    name, _, version = settings.text("source.sdist").partition("==")
    return Audit(
        name=canonicalize_name(name) if name else "",
        version=version,
        plat=settings.text("wheel.repair.plat"),
        excludes=settings.texts("wheel.repair.exclude"),
        repaired=settings.flag("wheel.repair.enabled"),
    )


def _source_file(loaded: Loaded) -> str:
    if loaded.file is None:
        return f"recipe {loaded.recipe.name}"
    try:
        return loaded.file.resolve().relative_to(loaded.root.resolve()).as_posix()
    except ValueError:
        return f"shipped recipe {loaded.recipe.name}"
