"""How finished wheels are named, and what they require of their users."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from bakery.plan.options import Naming
from bakery.plan.values import Value
from bakery.recipe import models
from bakery.resolve.references import parse
from bakery.resolve.settings import Settings
from bakery.toolchains.registry import frameworks

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def namings(settings: Settings) -> tuple[Naming, ...]:
    """Return how the wheels of one build are named; the first is the one that is tested."""
    first = Naming(
        settings.flag("wheel.naming.clean"),
        _value(settings.text("wheel.naming.local")),
        _value(settings.text("wheel.naming.build-tag")),
        settings.text("wheel.naming.index"),
    )
    also = settings.values.get("wheel.also-named")
    more = [item for item in also if isinstance(item, models.Naming)] if isinstance(also, tuple) else []
    return (
        first,
        *(
            Naming(bool(item.clean), _value(item.local or ""), _value(item.build_tag or ""), item.index or "")
            for item in more
        ),
    )


def requires(settings: Settings) -> tuple[Value, ...]:
    """Return what the wheel's metadata requires: the recipe's own, and the framework's where it does not say."""
    return tuple(map(parse, required_texts(settings)))


def required_texts(settings: Settings) -> tuple[str, ...]:
    """Return what `requires` says, as a recipe writes it."""
    own = settings.texts("wheel.requires")
    said = {distribution(item) for item in own}
    name = settings.text("builder.framework")
    framework = (frameworks()[name].runtime,) if name and distribution(name) not in said else ()
    return (*framework, *own)


def distribution(requirement: str) -> str:
    """Return the normalised name that a requirement begins with; empty where it begins with none."""
    match = _NAME.match(requirement)
    return canonicalize_name(match[0]) if match else ""


def _value(text: str) -> Value:
    return parse(text) if text else ()
