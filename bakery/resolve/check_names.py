"""Names and requirements that refer to variables: what they are where a cell has filled them in.

A recipe's own text is checked when it is read. What its variables make of it is known here, before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from bakery.core.errors import PlanError
from bakery.core.names import DERIVED, WHEEL_PYTHON, some_cells
from bakery.plan.model import Plan
from bakery.plan.options import Naming
from bakery.plan.values import Ref, Value, substitute
from bakery.recipe.models.wheel import BUILD_TAG, LOCAL_LABEL
from bakery.resolve.references import parse
from bakery.resolve.settings import Settings

_REQUIREMENTS = ("builder.requirements", "native.requirements", "test.requirements", "image.requirements")
_NAMED = ("a local version label, such as 'cu128' or 'cu128torch2.8'", "a build tag that starts with a digit")


def check_written(plan: Plan, settings: Settings) -> None:
    """Check the names of wheels, what they require, and what is installed to build and test them, in every cell.

    Raises:
        PlanError: one is no name or no requirement, or two names of a build are one; all of them, each with its cells.
    """
    requirements = [(path, parse(text)) for path in _REQUIREMENTS for text in settings.texts(path)]
    requirements += [("wheel.requires", value) for value in plan.audit.requires]
    namings = plan.audit.namings
    values = [value for _, value in requirements] + [value for item in namings for value in _parts(item)]
    refs = {part.name for value in values for part in value if isinstance(part, Ref)}
    telling = sorted({DERIVED[name][0] if name in DERIVED else name for name in refs} | {WHEEL_PYTHON})
    known: dict[tuple[str | None, ...], tuple[str, ...]] = {}
    found: dict[str, list[str]] = {}
    for cell in plan.cells:
        key = tuple(map(cell.args.get, telling))
        if key not in known:
            filled = plan.values_of_wheel(cell)
            known[key] = (*_names(namings, filled), *_requirements(requirements, filled))
        for problem in known[key]:
            found.setdefault(problem, []).append(cell.id)
    if found:
        raise PlanError(
            f"recipe {plan.recipe}: a name or a requirement is not valid once its variables are filled in",
            details=[
                problem if len(cells) == len(plan.cells) else f"{problem} ({some_cells(cells)})"
                for problem, cells in found.items()
            ],
            hint="wheel-bakery plan --explain shows every value and where it came from",
        )


def _parts(naming: Naming) -> tuple[Value, Value]:
    return naming.local, naming.build_tag


def _requirements(requirements: Sequence[tuple[str, Value]], values: Mapping[str, str]) -> Iterator[str]:
    for path, value in requirements:
        text = substitute(value, values)
        try:
            Requirement(text)
        except (InvalidRequirement, RecursionError):
            yield f"{path}: expected a requirement, such as 'cmake>=3.26', got {text[:80]!r}"


def _names(namings: Sequence[Naming], values: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the parts of names, then names that are equal to whoever installs."""
    taken: dict[object, str] = {}
    for index, naming in enumerate(namings):
        place = f"wheel.also-named[{index - 1}]" if index else "wheel.naming"
        local, tag = (substitute(part, values) for part in _parts(naming))
        wrong = [
            f"{place}.{key}: expected {expected}, got {text[:80]!r}"
            for key, expected, text, part, pattern in zip(
                ("local", "build-tag"), _NAMED, (local, tag), _parts(naming), (LOCAL_LABEL, BUILD_TAG), strict=True
            )
            if part and not pattern.match(text)
        ]
        yield from wrong
        if not wrong:
            name = (naming.clean, local and Version(f"0+{local}").local, tag and _build(tag))
            if name in taken:
                yield f"{place}: gives the wheel the name that {taken[name]} gives it"
            taken.setdefault(name, place)


def _build(tag: str) -> object:
    # Installers compare its number: 01 is 1.
    return parse_wheel_filename(f"x-0-{tag}-py3-none-any.whl")[2]
