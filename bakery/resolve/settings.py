"""Decides every setting. Precedence, lowest to highest: defaults, recipe, environment, command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from bakery.core.environment import OWN, PREFIX
from bakery.core.errors import PlanError, UsageError
from bakery.core.image_names import parse
from bakery.core.names import BASE_REGISTRY, PLATFORMS, CacheBackend, axis_variable, normal, recipe_variables
from bakery.core.text import is_line, matches_whole
from bakery.plan.delivery import Variable as PlanVariable
from bakery.plan.values import Ref, Value
from bakery.recipe.load import Loaded
from bakery.recipe.models import Recipe, Variable
from bakery.recipe.models.text import REFERENCE
from bakery.resolve import epoch
from bakery.resolve.origins import as_text, origins_of, place
from bakery.toolchains.bases.pinned import Pinned
from bakery.toolchains.frameworks import Framework
from bakery.toolchains.registry import bases, frameworks

_THREE_PARTS = r"[0-9]+\.[0-9]+\.[0-9]+"
_ENDLESS = re.compile("[0-9]{1000}")
"""Python reads no number of more than 4,300 digits."""

_PLATFORMS_EXPECTED = "platforms such as linux/amd64, linux/arm64 or macos/arm64, separated by commas"
RELEASES = {
    "CUDA_VERSION": (_THREE_PARTS, "a CUDA release in three parts, such as 12.8.0"),
    "TORCH_VERSION": (rf"{_THREE_PARTS}(?:\+[a-z0-9]+)?", "a torch release in three parts, such as 2.11.0"),
    "JAX_VERSION": (_THREE_PARTS, "a JAX release in three parts, such as 0.10.2"),
}
"""Variables with a release → its pattern and a description. Other values are derived from its parts."""

_CACHE_PATHS = {
    "CACHE": "cache.backend",
    "CACHE_REF": "cache.ref",
    "CACHE_DIR": "cache.directory",
    "CACHE_BRANCH": "cache.branch",
    "CACHE_READ_ONLY": "cache.read-only",
}
_BASE_PATHS = {BASE_REGISTRY: "builder.base.registry", "BASE_DIGEST": "builder.base.digest"}
"""Variables for a base with a short name: its images come from a mirror, or are others."""
_PLACE = r"[a-z0-9](?:[a-z0-9._/-]|:[0-9])*[a-z0-9]"
PLATFORM_OVERRIDE = "*.platform"
"""The option of ``--set`` with all platforms."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of one recipe.

    Attributes:
        recipe: the recipe, with the values that the environment and the command line set.
        variables: the variables that are not axes.
        axes: axis → its values, ``python`` first and ``platform`` last.
        origins: dotted path → (value as text, its origin), for display only.
        platform_variable: the variable with the only platform; empty if the recipe lists platforms.
        given: what the environment or the command line sets, as ``--set`` has it: name → value.
    """

    recipe: Recipe
    variables: tuple[PlanVariable, ...]
    axes: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, tuple[str, str]]
    platform_variable: str = ""
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def given_arguments(self) -> dict[str, str]:
        """What is given and decides what is built: no caches, and no other place of the same images."""
        return {name: value for name, value in self.given.items() if name not in _CACHE_PATHS | _BASE_PATHS}

    @property
    def base_registry(self) -> Value:
        """The registry and owner of a base with a short name, as a reference; empty for other bases."""
        return (Ref(BASE_REGISTRY),) if _pinned(self.recipe) else ()

    @property
    def framework(self) -> Framework | None:
        """The framework that the extension is built for."""
        name = self.recipe.builder.framework
        return frameworks()[name] if name else None


def decide(
    loaded: Loaded,
    environ: Mapping[str, str],
    sets: Mapping[str, str],
    platforms: tuple[str, ...] | None,
    committed: int | None = None,
) -> Settings:
    """Return the settings of a recipe; ``sets`` and ``platforms`` are those of the command line.

    Raises:
        PlanError: a value does not match its variable's pattern, or the recipe lacks a release, such as CUDA_VERSION.
    """
    recipe = loaded.recipe
    given = _given(environ, sets)
    names = of_cells(loaded)
    expanded, platform_variable = _expand_platforms(platforms or recipe.platforms, recipe.variables, given)
    axes = {"python": recipe.matrix.python, **recipe.matrix.axes, "platform": expanded}
    given_axes = {axis: axis_variable(axis) for axis in axes if axis != "platform" and axis_variable(axis) in given}
    axes |= {axis: (given[name][0],) for axis, name in given_axes.items()}
    formats = RELEASES | ({platform_variable: (PLATFORMS, _PLATFORMS_EXPECTED)} if platform_variable else {})
    texts = {name: value for name, (value, _) in given.items() if name in names}
    if time := environ.get(epoch.NAME):
        texts.setdefault(epoch.NAME, time)
    if platforms is not None:
        texts[PLATFORM_OVERRIDE] = ",".join(expanded)
    given.setdefault(epoch.NAME, epoch.given(environ, committed))
    variables = _variables(loaded, axes, given, formats)
    variables = (*variables, *_builtin(recipe, texts, given[epoch.NAME][0]))
    _require_releases({*map(axis_variable, axes), *(item.name for item in variables)}, loaded)
    check_values((*variables, *epoch.in_environments(recipe)))
    origins = origins_of(loaded)
    if platforms is not None:
        origins["platforms"] = (as_text(platforms), "--set")
    origins |= {f"matrix.{axis}": (as_text(axes[axis]), given[name][1]) for axis, name in given_axes.items()}
    origins |= {path: given[name] for name, path in (_CACHE_PATHS | _BASE_PATHS).items() if name in texts}
    declared = (item for item in variables if item.name in (epoch.NAME, *recipe.variables))
    for path, item in ((f"variables.{item.name}", item) for item in declared):
        origins[path] = given.get(item.name, (item.value, place(loaded, path)))
    decided = _decided(recipe, expanded, texts)
    return Settings(decided, variables, axes, dict(sorted(origins.items())), platform_variable, texts)


def _decided(recipe: Recipe, platforms: tuple[str, ...], texts: Mapping[str, str]) -> Recipe:
    """Return the recipe with the values that the environment and the command line set, all of them valid."""
    cache, base, pinned = recipe.cache, recipe.builder.base, _pinned(recipe)
    cache = cache.model_copy(
        update={
            "backend": CacheBackend(texts.get("CACHE", cache.backend)),
            "ref": texts.get("CACHE_REF", cache.ref),
            "directory": texts.get("CACHE_DIR", cache.directory),
            "branch": texts.get("CACHE_BRANCH", cache.branch),
            "read_only": texts.get("CACHE_READ_ONLY", str(cache.read_only)).lower() == "true",
        }
    )
    if pinned:
        registry = texts.get(BASE_REGISTRY, base.registry or pinned.place)
        base = base.model_copy(update={"registry": registry, "digest": texts.get("BASE_DIGEST", base.digest)})
    builder = recipe.builder.model_copy(update={"base": base})
    return recipe.model_copy(update={"platforms": platforms, "cache": cache, "builder": builder})


def settable(loaded: Loaded) -> set[str]:
    """Return the names that ``--set`` may give a value for a recipe: one that some of its cells have."""
    overrides = (item.builder.get("base") for item in loaded.recipe.matrix.overrides)
    names = [item.get("provider") if isinstance(item, dict) else item for item in overrides]
    may_pin = any(
        isinstance(name, str) and (REFERENCE.search(name) or isinstance(bases().get(name), Pinned))
        for name in (loaded.recipe.builder.base.provider, *names)
    )
    return {*of_cells(loaded), *(_BASE_PATHS if may_pin else {})}


def of_cells(loaded: Loaded) -> set[str]:
    """Return the names that may be given a value for cells with the settings of a recipe, without its overrides."""
    return {*build_variables(loaded), *_CACHE_PATHS, *(_BASE_PATHS if _pinned(loaded.recipe) else {})}


def _pinned(recipe: Recipe) -> Pinned | None:
    """Return the base with a short name; None for other bases."""
    base = bases().get(recipe.builder.base.provider)
    return base if isinstance(base, Pinned) else None


def build_variables(loaded: Loaded) -> set[str]:
    """Return the names of a recipe's variables that are build arguments."""
    return {*recipe_variables(loaded.recipe.variables, loaded.recipe.matrix.axes), "SOURCE_DATE_EPOCH"}


def _expand_platforms(
    written: Sequence[str], declared: Mapping[str, Variable], given: Mapping[str, tuple[str, str]]
) -> tuple[tuple[str, ...], str]:
    """Return the platforms with variables replaced by their values, and the variable with the only platform."""
    expanded: dict[str, None] = {}
    variable = ""
    for text in written:
        value = text
        if match := REFERENCE.fullmatch(text):
            variable = match[1]
            value = given[variable][0] if variable in given else declared[variable].default
            if not re.fullmatch(PLATFORMS, value):
                raise PlanError(f"{variable}: expected {_PLATFORMS_EXPECTED}, got {value[:80]!r}")
        expanded |= dict.fromkeys(value.split(","))
    return tuple(expanded), variable if len(expanded) == len(written) == 1 else ""


def _given(environ: Mapping[str, str], sets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return variable → (value, origin) of the environment and the command line."""
    own = {PREFIX + name for name in OWN - _CACHE_PATHS.keys() - _BASE_PATHS.keys()}
    given = {
        name.removeprefix(PREFIX): (normal(value), name)
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and name not in own
    }
    return given | {name: (value, "--set") for name, value in sets.items()}


def check_environment(environ: Mapping[str, str], names: set[str]) -> None:
    """Raise UsageError for mistyped variables, such as ``MAX_PARALEL`` after the prefix: their names are close to known ones.

    Others are left alone: posit-bakery's variables have the same prefix.
    """
    known = OWN | names
    unknown = (name.removeprefix(PREFIX) for name in sorted(environ) if name.startswith(PREFIX))
    near = {name: get_close_matches(name, known, n=1, cutoff=0.85) for name in unknown if name not in known}
    if details := [f"{PREFIX}{name}: did you mean {PREFIX}{found[0]}?" for name, found in near.items() if found]:
        raise UsageError("an environment variable has no effect", details=details, hint="correct its name, or unset it")


def check_known(sets: Mapping[str, str], names: set[str]) -> None:
    """Raise UsageError if the command line sets a variable that a recipe with the variables ``names`` does not have."""
    details = []
    for name in (name for name in sets if name not in names):
        release = axis_variable(name.lower())
        near = [release] if release in names else get_close_matches(name, names, n=1, cutoff=0.7)
        declare = f'declare it: [variables] {name} = "{sets[name]}"'
        details.append(f"{name}: " + (f"did you mean {near[0]}?" if near else declare))
    if details:
        raise UsageError("the recipe has no such variable", details=details, hint=f"it has: {', '.join(sorted(names))}")


def _variables(
    loaded: Loaded,
    axes: Mapping[str, tuple[str, ...]],
    given: Mapping[str, tuple[str, str]],
    formats: Mapping[str, tuple[str, str]],
) -> tuple[PlanVariable, ...]:
    """Return the variables that a recipe declares, without those of axes."""
    by_axis = {axis_variable(axis) for axis in axes}
    result: list[PlanVariable] = []
    for name, variable in loaded.recipe.variables.items():
        if name in by_axis:
            continue
        value, _ = given.get(name, (variable.default, ""))
        pattern, meaning = formats.get(name, ("", ""))
        description = variable.description or meaning[:1].upper() + meaning[1:] or f"Variable of {loaded.recipe.name}"
        # Other values are derived from the parts of a release, so the recipe's pattern is added to that of releases.
        patterns = tuple(filter(None, (pattern, variable.pattern)))
        matching = f"a value that matches {variable.pattern}" if variable.pattern else ""
        expected = ", and ".join(filter(None, (meaning, matching)))
        result.append(PlanVariable(name, value, description, patterns, (), expected))
    return tuple(result)


def _require_releases(names: set[str], loaded: Loaded) -> None:
    """Raise PlanError unless the releases of the toolkit and the framework are variables or axes."""
    recipe = loaded.recipe
    toolkit, framework, base = recipe.builder.toolkit, recipe.builder.framework, recipe.builder.base
    in_image = toolkit == "image" and parse(base.image or base.provider).cuda
    if toolkit != "none" and not in_image and "CUDA_VERSION" not in names:
        raise PlanError(
            f"{place(loaded, 'builder.toolkit')}: toolkit {toolkit!r} needs to know the CUDA release",
            hint='declare it: [variables] CUDA_VERSION = "13.0.2", or an axis: [matrix] cuda = ["12.8.1", "13.0.2"]',
        )
    variable = frameworks()[framework].variable if framework else ""
    if variable and variable not in names:
        raise PlanError(
            f"{place(loaded, 'builder.framework')}: framework {framework!r} needs to know its release",
            hint=f'declare it: [variables] {variable} = "…", or an axis: [matrix] {framework} = ["…"]',
        )


def check_releases(cells: Iterable[Mapping[str, str]]) -> None:
    """Raise PlanError, with all problems, if the value of an axis such as ``cuda`` is not a release."""
    axis_values = dict.fromkeys((axis, value) for cell in cells for axis, value in cell.items())
    check_values(
        PlanVariable(f"matrix.{axis}", value, "", (pattern,), (), expected)
        for axis, value in axis_values
        for pattern, expected in [RELEASES.get(axis_variable(axis), ("", ""))]
        if pattern
    )


def _builtin(recipe: Recipe, texts: Mapping[str, str], time: str) -> tuple[PlanVariable, ...]:
    """Return the variables that every bake file has; ``texts`` are those that are given."""
    cache, backends, pinned = recipe.cache, cache_backends(recipe), _pinned(recipe)
    about_cache = "Layer cache: none, or gha inside GitHub Actions, registry (CACHE_REF), local (CACHE_DIR)"
    about_registry = "Registry and owner of the base image; a mirror has the same images"
    about_branch = "Branch that is built, with caches of its own; empty for the default branch"
    about_read_only = "Whether the layer cache is read and never written, as for a pull request: true or false"
    backend, read_only = texts.get("CACHE", cache.backend.value), str(cache.read_only).lower()
    registry = pinned and texts.get(BASE_REGISTRY, recipe.builder.base.registry or pinned.place)
    return (
        epoch.variable(time),
        PlanVariable("DEST", "wheels", "Folder that receives the wheels, one subfolder for each cell"),
        PlanVariable("CACHE", backend, about_cache, (), backends, f"one of {', '.join(backends)}"),
        PlanVariable("CACHE_REF", texts.get("CACHE_REF", cache.ref), "Repository of the registry cache"),
        PlanVariable("CACHE_DIR", texts.get("CACHE_DIR", cache.directory), "Folder of the local cache"),
        PlanVariable("CACHE_BRANCH", texts.get("CACHE_BRANCH", cache.branch), about_branch),
        PlanVariable(
            "CACHE_READ_ONLY",
            texts.get("CACHE_READ_ONLY", read_only).lower(),
            about_read_only,
            (),
            ("false", "true"),
            "true or false",
        ),
        *(
            (PlanVariable(BASE_REGISTRY, registry, about_registry, (_PLACE,), (), "a registry and an owner"),)
            if registry
            else ()
        ),
    )


def cache_backends(recipe: Recipe) -> tuple[CacheBackend, ...]:
    """Return the layer caches that a recipe can have: ``s3`` needs a bucket, and ``inline`` an image."""
    impossible = {CacheBackend.S3: recipe.cache.s3 is None, CacheBackend.INLINE: recipe.image is None}
    return tuple(item for item in CacheBackend if not impossible.get(item))


def check_values(variables: Iterable[PlanVariable]) -> None:
    """Raise PlanError, with all problems, if the value of a variable is not valid."""
    problems = []
    for variable in variables:
        wrong_choice = variable.choices and variable.value not in variable.choices
        endless = variable.patterns and _ENDLESS.search(variable.value)
        if wrong_choice or endless or not all(matches_whole(pattern, variable.value) for pattern in variable.patterns):
            problems.append(f"{variable.name}: expected {variable.expected}, got {variable.value[:80]!r}")
        elif not is_line(variable.value):
            problems.append(f"{variable.name}: expected one line of Unicode text without control characters")
    if problems:
        raise PlanError(
            "the value of a variable is not valid",
            details=problems,
            hint="wheel-bakery plan --explain shows every value and its origin",
        )
