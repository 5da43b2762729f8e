"""Decides every setting. Precedence, lowest to highest: defaults, recipe, environment, command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import BaseModel

from bakery.core.environment import OWN, PREFIX
from bakery.core.errors import PlanError, UsageError
from bakery.core.image_names import parse
from bakery.core.names import BASE_REGISTRY, PLATFORMS, CacheBackend, axis_variable, normal, recipe_variables
from bakery.core.text import is_line, matches_whole
from bakery.plan.options import Variable as PlanVariable
from bakery.plan.values import Ref, Value
from bakery.recipe.load import Loaded
from bakery.recipe.models import Secret, Variable
from bakery.recipe.models.text import REFERENCE
from bakery.resolve import epoch
from bakery.resolve.defaults import DEFAULTS
from bakery.resolve.references import parse as parse_value
from bakery.toolchains.bases.pinned import Pinned
from bakery.toolchains.frameworks import Framework
from bakery.toolchains.registry import bases, frameworks

_THREE_PARTS = r"[0-9]+\.[0-9]+\.[0-9]+"
_ENDLESS = re.compile("[0-9]{1000}")
"""Python reads no number of more than 4,300 digits."""

_PLATFORMS_EXPECTED = "platforms such as linux/amd64, linux/arm64 or macos/arm64, separated by commas"
_PROVIDER = "builder.base.provider"
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


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of one recipe.

    Attributes:
        values: dotted path in the recipe → value.
        variables: the variables that are not axes.
        axes: axis → its values, ``python`` first and ``platform`` last.
        origins: dotted path → (value as text, its origin), for display only.
        platform_variable: the variable with the only platform; empty if the recipe lists platforms.
        written: the dotted paths that the recipe sets.
        given: the variables that the environment or the command line sets.
        given_paths: the dotted paths that they set.
    """

    values: Mapping[str, object]
    variables: tuple[PlanVariable, ...]
    axes: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, tuple[str, str]]
    platform_variable: str = ""
    written: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    given_paths: frozenset[str] = frozenset()

    def text(self, path: str) -> str:
        """Return the value at ``path`` as text; empty for none."""
        value = self.values.get(path)
        return "" if value is None else str(value)

    def flag(self, path: str) -> bool:
        """Whether the value at ``path`` is true."""
        return bool(self.values.get(path))

    def is_given(self, path: str) -> bool:
        """Whether the environment or the command line sets the value at ``path``."""
        return path in self.given_paths

    def texts(self, path: str) -> tuple[str, ...]:
        """Return the list at ``path``."""
        value = self.values.get(path)
        return tuple(str(item) for item in value) if isinstance(value, tuple) else ()

    def parsed(self, path: str) -> tuple[Value, ...]:
        """Return the list at ``path`` with its references to variables."""
        return tuple(map(parse_value, self.texts(path)))

    def pairs(self, path: str) -> tuple[tuple[str, Value], ...]:
        """Return the items of the table at ``path`` with their references to variables; a list is several items."""
        table = self.values.get(path)
        items = table.items() if isinstance(table, dict) else ()
        return tuple(
            (str(key), parse_value(str(item)))
            for key, value in items
            for item in (value if isinstance(value, list | tuple) else (value,))
        )

    @property
    def base_registry(self) -> Value:
        """The registry and owner of a base with a short name, as a reference; empty for other bases."""
        return (Ref(BASE_REGISTRY),) if _pinned(self.values) else ()

    @property
    def framework(self) -> Framework | None:
        """The framework that the extension is built for."""
        name = self.text("builder.framework")
        return frameworks()[name] if name else None

    def mapping(self, path: str) -> dict[str, str]:
        """Return the table at ``path``."""
        value = self.values.get(path)
        return {str(key): str(item) for key, item in value.items()} if isinstance(value, dict) else {}


def decide(
    loaded: Loaded,
    environ: Mapping[str, str],
    sets: Mapping[str, str],
    platforms: tuple[str, ...] | None,
    committed: int | None = None,
) -> Settings:
    """Return the settings of a recipe; ``sets`` and ``platforms`` are those of the command line.

    Raises:
        UsageError: a variable of the command line does not exist.
        PlanError: a value does not match its variable's pattern, or the recipe lacks a release, such as CUDA_VERSION.
    """
    values: dict[str, object] = dict(DEFAULTS)
    origins = {path: (_as_text(value), "default") for path, value in DEFAULTS.items()}
    if loaded.recipe.source is None:
        values["source.path"] = values["source"]
    where = loaded.file.name if loaded.file else "python"
    written = dict(set_fields(loaded.recipe, ""))
    for path, value in written.items():
        values[path] = value
        # A short form has the line of its table.
        line = loaded.positions.get(path) or loaded.positions.get(path.rpartition(".")[0])
        origins[path] = (_as_text(value), f"{where}:{line}" if line else where)
    given_paths: set[str] = set()
    if platforms is not None:
        given_paths.add("platforms")
        values["platforms"] = platforms
        origins["platforms"] = (_as_text(platforms), "--set")
    given = _given(environ, sets)
    _check_known(sets, settable(loaded))
    values["platforms"], platform_variable = _expand_platforms(values["platforms"], _declared(loaded), given)
    axes = _axes(loaded, values)
    for axis in list(axes):
        if axis != "platform" and axis_variable(axis) in given:
            value, origin = given[axis_variable(axis)]
            axes[axis] = (value,)
            given_paths.add(f"matrix.{axis}")
            origins[f"matrix.{axis}"] = (_as_text((value,)), origin)
    pinned = _pinned(values)
    if pinned:
        values.setdefault("builder.base.registry", pinned.place)
    for name, path in (_CACHE_PATHS | (_BASE_PATHS if pinned else {})).items():
        if name in given:
            values[path], origins[path] = given[name][0], given[name]
            given_paths.add(path)
    formats = RELEASES | ({platform_variable: (PLATFORMS, _PLATFORMS_EXPECTED)} if platform_variable else {})
    if epoch.NAME in given or environ.get(epoch.NAME):
        given_paths.add(f"variables.{epoch.NAME}")
    given.setdefault(epoch.NAME, epoch.given(environ, committed))
    variables = _variables(loaded, values, axes, given, origins, formats)
    _require_releases({*map(axis_variable, axes), *(item.name for item in variables)}, values)
    check_values((*variables, *epoch.in_environments(values)))
    given_paths |= {path for name in given.keys() & _declared(loaded) if (path := f"variables.{name}") in origins}
    sorted_origins = dict(sorted(origins.items()))
    return Settings(
        values,
        variables,
        axes,
        sorted_origins,
        platform_variable,
        written=frozenset(written),
        given=frozenset(given),
        given_paths=frozenset(given_paths),
    )


def settable(loaded: Loaded) -> set[str]:
    """Return the names that ``--set`` may give a value for a recipe."""
    builder = loaded.recipe.builder
    name = builder and builder.base and builder.base.provider
    return {*build_variables(loaded), *_CACHE_PATHS, *(_BASE_PATHS if _pinned({_PROVIDER: name}) else {})}


def _pinned(values: Mapping[str, object]) -> Pinned | None:
    """Return the base with a short name; None for other bases."""
    base = bases().get(str(values.get(_PROVIDER)))
    return base if isinstance(base, Pinned) else None


def build_variables(loaded: Loaded) -> set[str]:
    """Return the names of a recipe's variables that are build arguments."""
    matrix = loaded.recipe.matrix
    return {*recipe_variables(_declared(loaded), (matrix and matrix.axes) or ()), "SOURCE_DATE_EPOCH"}


def set_fields(model: BaseModel, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield dotted path and value of every field that was set, as a recipe writes it."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is None:
            continue
        path = prefix + (field.alias or name)
        if isinstance(value, BaseModel):
            yield from set_fields(value, path + ".")
        elif path == "matrix.axes":
            yield from ((f"matrix.{axis}", items) for axis, items in value.items())
        elif path == "secrets":
            yield from ((f"secrets.{key}", item) for key, item in value.items())
        elif path != "variables":
            yield path, value


def _axes(loaded: Loaded, values: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    matrix = loaded.recipe.matrix
    axes = {
        "python": values["matrix.python"],
        **((matrix.axes or {}) if matrix else {}),
        "platform": values["platforms"],
    }
    return {axis: tuple(items) for axis, items in axes.items() if isinstance(items, tuple)}


def _expand_platforms(
    platforms: object, declared: Mapping[str, Variable], given: Mapping[str, tuple[str, str]]
) -> tuple[tuple[str, ...], str]:
    """Return the platforms with variables replaced by their values, and the variable with the only platform."""
    written = [str(item) for item in platforms] if isinstance(platforms, tuple) else []
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


def _declared(loaded: Loaded) -> dict[str, Variable]:
    return loaded.recipe.variables or {}


def _check_known(sets: Mapping[str, str], names: set[str]) -> None:
    details = []
    for name in (name for name in sets if name not in names):
        release = axis_variable(name.lower())
        near = [release] if release in names else get_close_matches(name, names, n=1)
        details.append(f"{name}: " + (f"did you mean {near[0]}?" if near else "declare it under [variables]"))
    if details:
        raise UsageError("the recipe has no such variable", details=details, hint=f"it has: {', '.join(sorted(names))}")


def _variables(
    loaded: Loaded,
    values: Mapping[str, object],
    axes: Mapping[str, tuple[str, ...]],
    given: Mapping[str, tuple[str, str]],
    origins: dict[str, tuple[str, str]],
    formats: Mapping[str, tuple[str, str]],
) -> tuple[PlanVariable, ...]:
    by_axis = {axis_variable(axis) for axis in axes}
    where = loaded.file.name if loaded.file else "python"
    result: list[PlanVariable] = []
    for name, variable in _declared(loaded).items():
        if name in by_axis:
            continue
        line = loaded.positions.get(f"variables.{name}")
        value, origin = given.get(name, (variable.default, f"{where}:{line}" if line else where))
        origins[f"variables.{name}"] = (value, origin)
        pattern, meaning = formats.get(name, ("", ""))
        description = variable.description or meaning[:1].upper() + meaning[1:] or f"Variable of {loaded.recipe.name}"
        # Other values are derived from the parts of a release, so the recipe's pattern is added to that of releases.
        patterns = tuple(filter(None, (pattern, variable.pattern)))
        matching = f"a value that matches {variable.pattern}" if variable.pattern else ""
        expected = ", and ".join(filter(None, (meaning, matching)))
        result.append(PlanVariable(name, value, description, patterns, (), expected))
    origins["variables.SOURCE_DATE_EPOCH"] = given["SOURCE_DATE_EPOCH"]
    return (*result, *_builtin(values, given["SOURCE_DATE_EPOCH"][0]))


def _require_releases(names: set[str], values: Mapping[str, object]) -> None:
    """Raise PlanError unless the releases of the toolkit and the framework are variables or axes."""
    toolkit, framework = values["builder.toolkit"], values["builder.framework"]
    name = values.get("builder.base.image") or values.get(_PROVIDER)
    in_image = toolkit == "image" and parse(str(name)).cuda
    if toolkit != "none" and not in_image and "CUDA_VERSION" not in names:
        raise PlanError(
            f"toolkit {toolkit!r} needs to know the CUDA release",
            hint='declare it: [variables] CUDA_VERSION = "13.0.2", or an axis: [matrix] cuda = ["12.8.1", "13.0.2"]',
        )
    variable = frameworks()[str(framework)].variable if framework else ""
    if variable and variable not in names:
        raise PlanError(
            f"framework {framework!r} needs to know its release",
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


def _builtin(values: Mapping[str, object], time: str) -> tuple[PlanVariable, ...]:
    """Return the variables that every bake file has."""
    backends = cache_backends(values)
    about_cache = "Layer cache: none, or gha inside GitHub Actions, registry (CACHE_REF), local (CACHE_DIR)"
    about_registry = "Registry and owner of the base image; a mirror has the same images"
    about_branch = "Branch that is built, with caches of its own; empty for the default branch"
    about_read_only = "Whether the layer cache is read and never written, as for a pull request: true or false"
    read_only = str(values["cache.read-only"]).lower()
    return (
        epoch.variable(time),
        PlanVariable("DEST", "wheels", "Folder that receives the wheels, one subfolder for each cell"),
        PlanVariable("CACHE", str(values["cache.backend"]), about_cache, (), backends, f"one of {', '.join(backends)}"),
        PlanVariable("CACHE_REF", str(values["cache.ref"]), "Repository of the registry cache"),
        PlanVariable("CACHE_DIR", str(values["cache.directory"]), "Folder of the local cache"),
        PlanVariable("CACHE_BRANCH", str(values["cache.branch"]), about_branch),
        PlanVariable("CACHE_READ_ONLY", read_only, about_read_only, (), ("false", "true"), "true or false"),
        *(
            (PlanVariable(BASE_REGISTRY, str(registry), about_registry, (_PLACE,), (), "a registry and an owner"),)
            if (registry := values.get("builder.base.registry"))
            else ()
        ),
    )


def cache_backends(values: Mapping[str, object]) -> tuple[CacheBackend, ...]:
    """Return the layer caches that a recipe can have: ``s3`` needs a bucket, and ``inline`` an image."""
    impossible = {
        CacheBackend.S3: not values.get("cache.s3.bucket"),
        CacheBackend.INLINE: not values.get("image.requirements"),
    }
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


def _as_text(value: object) -> str:
    if isinstance(value, Secret):
        origin = value.env or value.file or value.command
        return f"{_as_text(origin)} → {', '.join(value.steps)}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return "" if value is None else str(value)
