"""The names of finished wheels, and the requirements in their metadata."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from bakery.plan.options import Naming
from bakery.plan.values import Value
from bakery.recipe import models
from bakery.resolve.references import parse
from bakery.resolve.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def namings(settings: Settings) -> tuple[Naming, ...]:
    """Return the names of the wheels of one build; the first one is tested."""
    first = Naming(
        settings.flag("wheel.naming.clean"),
        _value(settings.text("wheel.naming.local")),
        _value(settings.text("wheel.naming.build-tag")),
        settings.text("wheel.naming.index"),
    )
    others = settings.values.get("wheel.also-named")
    more = [item for item in others if isinstance(item, models.Naming)] if isinstance(others, tuple) else []
    return (
        first,
        *(
            Naming(bool(item.clean), _value(item.local or ""), _value(item.build_tag or ""), item.index or "")
            for item in more
        ),
    )


def requires(settings: Settings) -> tuple[Value, ...]:
    """Return the requirements in the wheel's metadata: the recipe's, and that of the framework if the recipe has none."""
    return tuple(map(parse, required_texts(settings)))


def required_texts(settings: Settings) -> tuple[str, ...]:
    """Return the requirements of `requires` as a recipe writes them."""
    requirements = settings.texts("wheel.requires")
    names = {distribution(item) for item in requirements}
    framework = settings.framework
    if framework is None or distribution(framework.name) in names:
        return requirements
    return (framework.runtime, *requirements)


def distribution(requirement: str) -> str:
    """Return the normalised name that a requirement starts with; empty if it starts with none."""
    match = _NAME.match(requirement)
    return canonicalize_name(match[0]) if match else ""


def _value(text: str) -> Value:
    return parse(text) if text else ()
