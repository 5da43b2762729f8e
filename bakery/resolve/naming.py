"""The names of finished wheels and the requirements in their metadata, and the check of both in every cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from bakery.core.cell_ids import some_cells
from bakery.core.errors import PlanError
from bakery.core.names import DERIVED, TESTED_TORCH, WHEEL_PYTHON
from bakery.plan.cells import Merged
from bakery.plan.delivery import Naming
from bakery.plan.model import Plan
from bakery.plan.values import Value, literal, names_in, substitute
from bakery.recipe.models.wheel import BUILD_TAG, LOCAL_LABEL, NAME
from bakery.resolve.references import parse, parse_all
from bakery.resolve.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_EXTRA = re.compile(r";.*\bextra\b")


def namings(settings: Settings) -> tuple[Naming, ...]:
    """Return the names of the wheels of one build; the first one is tested."""
    wheel = settings.recipe.wheel
    return tuple(
        Naming(
            item.clean, _value(item.local), _value(item.build_tag), item.index or "", _value(item.name), item.meta or ""
        )
        for item in (wheel.naming, *wheel.also_named)
    )


def requires(settings: Settings, builds: Iterable[Merged] = ()) -> tuple[Value, ...]:
    """Return the requirements in the wheel's metadata: the recipe's, the framework's if the recipe has none, and of extras."""
    extras = (literal(f'{item}; extra == "{build.extra}"') for build in builds for item in build.requires)
    return (*parse_all(required_texts(settings)), *extras)


def required_texts(settings: Settings) -> tuple[str, ...]:
    """Return the requirements of `requires` as a recipe writes them."""
    requirements = settings.recipe.wheel.requires
    names = always_required(requirements)
    framework = settings.framework
    if framework is None or distribution(framework.name) in names:
        return requirements
    floor = settings.recipe.wheel.torch_abi
    return (f"torch>={floor}" if floor else framework.runtime, *requirements)


def tested_framework(settings: Settings) -> tuple[str, ...]:
    """Return the framework's requirements of the test; with a wheel for several torch releases, the cell's own one."""
    if settings.recipe.wheel.torch_abi and "torch" in settings.axes:
        return (f"torch==${{{TESTED_TORCH}}}",)
    return settings.framework.test if settings.framework else ()


def always_required(requirements: Iterable[str]) -> set[str]:
    """Return the distributions of requirements, without those that only an extra requires."""
    return {distribution(item) for item in requirements if not _OF_EXTRA.search(item)}


def distribution(requirement: str) -> str:
    """Return the normalised name that a requirement starts with; empty if it starts with none."""
    match = _NAME.match(requirement)
    return canonicalize_name(match[0]) if match else ""


def _value(text: str | None) -> Value:
    return parse(text) if text else ()


_NAMED = (
    ("name", "the name of a distribution, such as 'my-kernels-cu12'", NAME),
    ("local", "a local version label, such as 'cu128' or 'cu128torch2.8'", LOCAL_LABEL),
    ("build-tag", "a build tag that starts with a digit", BUILD_TAG),
)
"""The parts of a naming: key, what is expected, and its pattern."""


def check_names(plan: Plan, settings: Settings) -> None:
    """Check the names of wheels and all requirements in every cell.

    Raises:
        PlanError: one is not valid, or two names of a build are equal; the details list all problems.
    """
    recipe = settings.recipe
    tables = {"builder": recipe.builder, "native": recipe.native, "test": recipe.test, "image": recipe.image}
    requirements = [
        (f"{name}.requirements", value)
        for name, table in tables.items()
        if table
        for value in parse_all(table.requirements)
    ]
    requirements += [("wheel.requires", value) for value in plan.audit.requires]
    namings = plan.audit.namings
    texts = [value for _, value in requirements] + [value for item in namings for value in item.parts]
    arguments = sorted({DERIVED[name][0] if name in DERIVED else name for name in names_in(texts)} | {WHEEL_PYTHON})
    problems_by_values: dict[tuple[str | None, ...], tuple[str, ...]] = {}
    cells_by_problem: dict[str, list[str]] = {}
    for cell in plan.cells:
        key = tuple(map(cell.args.get, arguments))
        if key not in problems_by_values:
            values = plan.values_of_wheel(cell)
            problems_by_values[key] = (*_name_problems(namings, values), *_requirement_problems(requirements, values))
        for problem in problems_by_values[key]:
            cells_by_problem.setdefault(problem, []).append(cell.id)
    if cells_by_problem:
        raise PlanError(
            f"recipe {plan.recipe}: a name or a requirement is not valid with the values of its variables",
            details=[
                problem if len(cells) == len(plan.cells) else f"{problem} ({some_cells(cells)})"
                for problem, cells in cells_by_problem.items()
            ],
            hint="wheel-bakery plan --explain shows every value and its origin",
        )


def _requirement_problems(requirements: Sequence[tuple[str, Value]], values: Mapping[str, str]) -> Iterator[str]:
    for path, value in requirements:
        text = substitute(value, values)
        try:
            Requirement(text)
        except (InvalidRequirement, RecursionError):
            yield f"{path}: expected a requirement, such as 'cmake>=3.26', got {text[:80]!r}"


def _name_problems(namings: Sequence[Naming], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the invalid parts of names, and names that are equal to installers."""
    paths: dict[object, str] = {}
    for index, naming in enumerate(namings):
        path = f"wheel.also-named[{index - 1}]" if index else "wheel.naming"
        texts = name, local, tag = [substitute(part, values) for part in naming.parts]
        invalid_parts = [
            f"{path}.{key}: expected {expected}, got {text[:80]!r}"
            for (key, expected, pattern), text, part in zip(_NAMED, texts, naming.parts, strict=True)
            if part and not pattern.match(text)
        ]
        yield from invalid_parts
        if not invalid_parts:
            whole = (canonicalize_name(name), naming.clean, local and Version(f"0+{local}").local, tag and _build(tag))
            if whole in paths:
                yield f"{path}: gives the wheel the same name as {paths[whole]}"
            paths.setdefault(whole, path)


def _build(tag: str) -> object:
    # Installers compare the number: 01 equals 1.
    return parse_wheel_filename(f"x-0-{tag}-py3-none-any.whl")[2]
