"""Settings → plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from packaging.utils import canonicalize_name

from bakery.core.dockerignore import escaped, normalised
from bakery.core.errors import PlanError
from bakery.core.names import GROUPS, WHEEL_PYTHON, Kind, axis_variable, is_baked, size_mb, with_derived
from bakery.plan.cells import Cell, Family, Image, Need
from bakery.plan.dockerfile import Env, Stage
from bakery.plan.model import Plan, ignored_output, leaves
from bakery.plan.options import Audit, Override, Sent
from bakery.plan.values import Ref, Value
from bakery.recipe.load import PYPROJECT, Loaded
from bakery.resolve.abi3 import Wheel, release, wheels
from bakery.resolve.apply_overrides import NO_ARGUMENT, check_patterns, handed_on, lift, placed, selects
from bakery.resolve.cache import layer_cache
from bakery.resolve.check_names import check_written
from bakery.resolve.ci import workflow_settings
from bakery.resolve.cibuildwheel import check_some_baked, cibuildwheel, split
from bakery.resolve.matrix import combinations, identifiers, matches
from bakery.resolve.naming import namings, requires
from bakery.resolve.references import declarations
from bakery.resolve.references import parse as value_of
from bakery.resolve.secrets import networked, secret_variables, secrets_of, wants
from bakery.resolve.set_option import parse
from bakery.resolve.settings import Settings, check_releases, check_values, decide
from bakery.resolve.stage_inputs import Parts, folder, job_memory
from bakery.resolve.stages import stages
from bakery.resolve.toolkit import check_components, check_release
from bakery.toolchains.bases.base import Base, Request
from bakery.toolchains.registry import ANY_CUDA, bases, frameworks, toolkits
from bakery.toolchains.toolkits.base import Toolkit
from bakery.toolchains.toolkits.repository import Repository

IGNORED = (
    ".git",
    "**/.bakery",
    "**/.provenance",
    "**/bakery.lock",
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

_DESCRIPTIONS = {
    Kind.IMAGE: "The image with its tools",
    Kind.WHEEL: "The repaired wheel",
    Kind.TEST: "The wheel alone in a clean base: loaded, imported, tried",
    Kind.DEV: "The build tools and the project, for a shell",
    Kind.MATERIALS: "What a cell is made of, for a lock; nothing is compiled",
    Kind.COMPILER_CACHE: "What compilers made, carried to or from another machine; nothing is compiled",
}
_EXPORTS = {
    Kind.IMAGE: "image",
    Kind.WHEEL: "wheels",
    Kind.TEST: "nothing",
    Kind.DEV: "image",
    Kind.MATERIALS: "materials",
    Kind.COMPILER_CACHE: "compiler-cache",
}
IsMeant: TypeAlias = Callable[[str, Mapping[str, str]], bool]
"""Whether values are for a cell, by its id and its axes."""


_STAGES = {
    Kind.IMAGE: "image",
    Kind.WHEEL: "wheel",
    Kind.TEST: "test",
    Kind.DEV: "builder",
    Kind.MATERIALS: "materials",
    Kind.COMPILER_CACHE: "compiler-cache",
}
_OF_WHEELS = (Kind.WHEEL, Kind.TEST, Kind.DEV, Kind.MATERIALS)
_OF_IMAGES = (Kind.IMAGE, Kind.MATERIALS)


def resolve(
    loaded: Loaded,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    committed: int | None = None,
) -> Plan:
    """Return the plan of a recipe.

    Args:
        sets: what ``--set`` said, each ``NAME=VALUE`` or bake's grammar.
        environ: the environment; names that start with ``BAKERY_`` set variables.
        committed: the time of the source's last commit in seconds since 1970: SOURCE_DATE_EPOCH where nothing else
            sets it. None for a source without commits, and for files that are to be the same at every commit.

    Raises:
        UsageError: ``--set`` cannot be understood or names nothing that exists.
        PlanError: no plan can satisfy the recipe.
    """
    said = parse(sets)
    variables, platforms, rest = lift(said, loaded)
    settings = decide(loaded, environ or {}, variables, platforms, committed)
    base = _base(settings)
    chosen = _toolkits(settings)
    points = combinations(settings.axes, *_rules(loaded))
    check_releases(points)
    ids = identifiers(points)
    check_patterns(rest, ids)
    axes = placed(points, ids, rest)
    check_some_baked({cell["platform"] for cell in axes})
    request = Request(
        value_of(settings.text("builder.base.image")),
        settings.text("builder.base.digest"),
        tuple(dict.fromkeys(cell["python"] for cell in axes if is_baked(cell["platform"]))),
    )
    own = _arguments(_cell_values(loaded, settings, rest), axes, ids)
    built = wheels(ids, axes, own, settings.text("wheel.abi3"))
    shared = any(wheel.built_by != cell_id for wheel, cell_id in zip(built, ids, strict=True))
    native = min(request.pythons, key=release) if settings.text("native.command") else ""
    secrets = secrets_of(loaded)
    parts = Parts(loaded.recipe.name, settings, base, request, chosen, loaded.folder, shared, native, secrets)
    made = stages(parts)
    cells, elsewhere = split(_cells(parts, ids, axes, own, built))
    args: dict[str, Value] = {
        item.name: (Ref(item.name),) for item in settings.variables if item.name not in NO_ARGUMENT
    }
    recipe = loaded.recipe
    carried = (Kind.COMPILER_CACHE,) if settings.flag("builder.compiler-cache") else ()
    kinds = _OF_IMAGES if recipe.image else (*_OF_WHEELS, *carried)
    dockerfile, bakefile = f"dockerfiles/{recipe.name}.Dockerfile", f"bake/{recipe.name}.hcl"
    plan = Plan(
        recipe=recipe.name,
        description=recipe.description or "",
        source_file=_source_file(loaded),
        context=".",
        dockerfile=dockerfile,
        bakefile=bakefile,
        variables=(*settings.variables, *secret_variables(secrets)),
        args=args,
        global_args=_global_args(made),
        cells=cells,
        families=tuple(
            Family(kind, f"{recipe.name}-{_STAGES[kind]}", _EXPORTS[kind], _DESCRIPTIONS[kind]) for kind in kinds
        ),
        groups=_groups(kinds),
        cache=layer_cache(settings),
        stages=made,
        ignore=(*_ignored(parts, bakefile, dockerfile, _lock_file(loaded)), *(("cibuildwheel",) if elsewhere else ())),
        audit=_audit(settings),
        output=settings.text("output.directory"),
        sent=_sent(parts),
        secrets=secrets,
        network=networked(settings),
        wants=wants(settings, secrets),
        elsewhere=elsewhere,
        cibuildwheel=cibuildwheel(parts),
        overrides=handed_on(rest, cells),
        platform_variable=_platform_variable(settings, cells),
        job_memory=job_memory(settings),
        jobs=int(settings.text("builder.jobs") or 0),
        origins=settings.origins,
        workflow=f".github/workflows/bakery-{recipe.name}.yml" if recipe.ci else "",
        ci=workflow_settings(settings) if recipe.ci else None,
        lock=_lock_file(loaded),
    )
    check_written(plan, settings)
    return plan


def _groups(kinds: Sequence[Kind]) -> dict[str, tuple[Kind, ...]]:
    """Return what a person may ask for of a recipe whose targets are of these kinds; its first kind is the default."""
    return {
        name: found if name != "default" else (kinds[0],)
        for name, found in GROUPS.items()
        if name == "default" or set(found) <= set(kinds)
    }


def _platform_variable(settings: Settings, cells: Sequence[Cell]) -> str:
    """Return the variable that holds the platform of all cells; empty where an override gave one another."""
    value = next((item.value for item in settings.variables if item.name == settings.platform_variable), "")
    return settings.platform_variable if {cell.platform for cell in cells} == {value} else ""


def _global_args(made: Sequence[Stage]) -> tuple[str, ...]:
    """Return the arguments that ``FROM`` lines use, without what they make of their values (``%%.*``)."""
    return tuple(dict.fromkeys(part.variable for stage in made for part in stage.base if isinstance(part, Ref)))


def _ignored(parts: Parts, bakefile: str, dockerfile: str, lock: str) -> tuple[str, ...]:
    """Return what never enters the build context, with what setuptools and bakery leave in this project."""
    inside = folder(parts) if parts.settings.text("source.path") else "."
    own = (
        "build/lib" if inside == "." else f"{inside}/build/lib",
        ignored_output(parts.settings.text("output.directory")),
        bakefile,
        dockerfile,
        f"{dockerfile}.dockerignore",
        "" if lock.endswith("bakery.lock") else lock,
    )
    # A file that is a secret is for the named steps alone, whatever else is said: no step copies it into an image.
    confided = [escaped(item.file) for item in parts.secrets if item.file and not leaves(item.file)]
    said = _in_context(parts, parts.settings.texts("source.ignore"))
    return (*IGNORED, *(pattern for pattern in (*own, *said, *confided) if pattern and pattern not in IGNORED))


def _in_context(parts: Parts, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns that are relative to the source as patterns of the build context."""
    if not patterns or not parts.settings.text("source.path"):
        return ()
    inside = "" if folder(parts) == "." else folder(parts) + "/"
    normal = map(normalised, patterns)
    return tuple(f"{'!' * text.startswith('!')}{inside}{text.removeprefix('!')}" for text in normal)


def _sent(parts: Parts) -> Sent:
    settings = parts.settings
    if not settings.text("source.path") or settings.texts("image.requirements"):
        return Sent()
    return Sent(
        folder(parts),
        _in_context(parts, settings.texts("source.accept")),
        size_mb(settings.text("source.expected-size")),
        settings.origins["source.ignore"][1] != "default",
    )


def _base(settings: Settings) -> Base:
    image = settings.text("builder.base.image")
    name = "image" if image else settings.text("builder.base.provider")
    return bases()[name]


def _toolkits(settings: Settings) -> tuple[Toolkit, ...]:
    """Return the toolkits of the recipe: the named one, or for ``cuda`` the preferred one of each major."""
    name = settings.text("builder.toolkit")
    if name == "none":
        return ()
    named = toolkits().get(name)
    if isinstance(named, Repository):
        address = value_of(settings.text("builder.cuda-repository"))
        declared = declarations((Env((("CUDA_REPOSITORY", address),)),))
        return (named.at(address, declared, settings.text("builder.cuda-repository-key")),)
    if name != ANY_CUDA:
        return (toolkits()[name],)
    framework = settings.text("builder.framework")
    nvcc = bool(framework) and frameworks()[framework].nvcc
    chosen = (item.of_choice(nvcc=nvcc) for item in toolkits().values())
    return tuple(sorted((item for item in chosen if item.majors), key=lambda item: item.majors))


def _rules(loaded: Loaded) -> tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]], int]:
    matrix = loaded.recipe.matrix
    return (matrix.exclude or (), matrix.include or (), len(matrix.overrides or ())) if matrix else ((), (), 0)


def _cell_values(
    loaded: Loaded, settings: Settings, overrides: Sequence[Override]
) -> tuple[tuple[IsMeant, Mapping[str, str]], ...]:
    """Return which cells get which values of arguments: the recipe's overrides, then the command line's.

    A variable that was set from outside has that value in all cells.

    Raises:
        PlanError: a value does not fit its variable, or would belie the cell's id.
    """
    matrix = loaded.recipe.matrix
    chosen: list[tuple[IsMeant, Mapping[str, str]]] = [
        (
            partial(_meant, item.where),
            {name: value for name, value in item.variables.items() if name not in settings.given},
        )
        for item in ((matrix and matrix.overrides) or ())
    ]
    chosen += [
        (partial(_selected, item.pattern), {item.key.removeprefix("args."): item.value})
        for item in overrides
        if item.key.startswith("args.")
    ]
    by_axis = {axis_variable(axis) for axis in settings.axes}
    for name in (name for _, values in chosen for name in values if name in by_axis):
        raise PlanError(
            f"{name} is an axis: a cell's id names its value, so no single cell can have another",
            hint=f"choose cells with --only, or set the axis for all: --set {name}=…",
        )
    variables = {item.name: item for item in settings.variables}
    check_values(
        replace(variables[name], value=value)
        for _, values in chosen
        for name, value in values.items()
        if name in variables
    )
    return tuple(chosen)


def _arguments(
    own: Sequence[tuple[IsMeant, Mapping[str, str]]],
    axes: Sequence[Mapping[str, str]],
    ids: Sequence[str],
) -> list[dict[str, str]]:
    """Return the build arguments that each cell adds or changes."""
    carried = {axis: axis_variable(axis) for axis in axes[0] if axis != "platform"}
    found = []
    for cell_id, cell in zip(ids, axes, strict=True):
        args = {variable: cell[axis] for axis, variable in carried.items()}
        for is_meant, given in own:
            if is_meant(cell_id, cell):
                args.update(given)
        found.append(args)
    return found


def _cells(
    parts: Parts,
    ids: Sequence[str],
    axes: Sequence[Mapping[str, str]],
    own: Sequence[Mapping[str, str]],
    built: Sequence[Wheel],
) -> tuple[Cell, ...]:
    values = {item.name: item.value for item in parts.settings.variables}
    named = [part.name for part in parts.request.image if isinstance(part, Ref)]
    images: dict[tuple[str, ...], tuple[Image, ...]] = {}
    needs: dict[str, tuple[Need, ...]] = {}
    cells = []
    for cell_id, cell, args, wheel in zip(ids, axes, own, built, strict=True):
        # In the order of their use: what compiles, what becomes the wheel, what tests it.
        pythons = (parts.native_python or wheel.python, wheel.python, cell["python"])
        known = with_derived({**values, **args}) if named else {}
        place = (*pythons, cell["platform"], *map(known.__getitem__, named))
        if not is_baked(cell["platform"]):
            images[place] = ()
        if place not in images:
            images[place] = tuple(dict.fromkeys(_images(parts, pythons, cell["platform"], known)))
        cuda = args.get("CUDA_VERSION", values.get("CUDA_VERSION", ""))
        if cuda not in needs:
            needs[cuda] = _needs(parts.settings, parts.toolkits, cuda)
        given = {**args, WHEEL_PYTHON: wheel.python} if parts.shared else args
        cells.append(Cell(cell_id, cell, given, images[place], needs[cuda], wheel.built_by, wheel.abi3))
    return tuple(cells)


def _images(parts: Parts, pythons: Sequence[str], platform: str, known: Mapping[str, str]) -> Iterator[Image]:
    """Yield the base images of a cell: those of what builds its wheel, then that of its test."""
    *builds, tests = pythons
    for python in builds:
        yield parts.base.image(parts.request, python, "" if parts.crosses else platform, known)
    own = parts.base.image(parts.request, tests, platform, known)
    yield replace(own, tests=True) if parts.crosses else own


def _needs(settings: Settings, chosen: tuple[Toolkit, ...], cuda: str) -> tuple[Need, ...]:
    needs = []
    sdist = settings.text("source.sdist")
    if sdist:
        name, version = sdist.split("==")
        needs.append(Need(name, version, True, "the project's source"))
    # A toolkit without majors takes whatever release its image or repository has.
    major = _cuda_major(settings, chosen, cuda) if any(toolkit.majors for toolkit in chosen) else 0
    if not any(isinstance(toolkit, Repository) for toolkit in chosen):
        check_components(settings.texts("builder.components"), settings.text("builder.toolkit"), major, cuda)
    for toolkit in chosen:
        if major in toolkit.majors:
            check_release(toolkit, cuda)
            others = tuple(
                f"{item.name} (CUDA {', '.join(item.releases) or '/'.join(map(str, item.majors))})"
                for item in toolkits().values()
                if item.majors and item.name != toolkit.name
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
            'an image with its own CUDA can be the base: base = { image = "…" }, toolkit = "image"',
        )
    return major


def _meant(where: Mapping[str, str], _cell_id: str, axes: Mapping[str, str]) -> bool:
    return matches(where, axes)


def _selected(pattern: str, cell_id: str, _axes: Mapping[str, str]) -> bool:
    return selects(pattern, cell_id)


def _audit(settings: Settings) -> Audit:
    name, _, version = settings.text("source.sdist").partition("==")
    return Audit(
        name=canonicalize_name(name) if name else "",
        version=version,
        plat=settings.text("wheel.repair.plat"),
        excludes=settings.texts("wheel.repair.exclude"),
        repaired=settings.flag("wheel.repair.enabled"),
        stripped=settings.flag("wheel.repair.enabled") and settings.flag("wheel.repair.strip"),
        namings=namings(settings),
        requires=requires(settings),
        abi3=settings.text("wheel.abi3"),
    )


def _lock_file(loaded: Loaded) -> str:
    """Return where the lock lies: beside the recipe's file; for one that is not the project's own, in its root."""
    file = loaded.file
    if file is None or not file.resolve().is_relative_to(loaded.root.resolve()):
        return f"{loaded.recipe.name}.lock"
    name = "bakery.lock" if file.name == PYPROJECT else f"{file.stem}.lock"
    return file.resolve().relative_to(loaded.root.resolve()).with_name(name).as_posix()


def _source_file(loaded: Loaded) -> str:
    if loaded.file is None:
        return f"recipe {loaded.recipe.name}"
    try:
        return loaded.file.resolve().relative_to(loaded.root.resolve()).as_posix()
    except ValueError:
        return f"shipped recipe {loaded.recipe.name}"
