"""The target that imports or exports the compiler cache: no layer contains a cache mount."""

from __future__ import annotations

from bakery.core.names import CARRIED, CARRIED_AT, CARRY
from bakery.plan.dockerfile import Arg, Command, Copy, Mount, Run, Stage
from bakery.plan.values import literal
from bakery.resolve.stage_inputs import CCACHE, COMPILER_CACHE, Parts, literals

_PACKED, _MADE = "/packed", "/made"


def carry_stages(parts: Parts) -> tuple[Stage, ...]:
    """Return the stages; none for a recipe without a compiler cache."""
    if not parts.settings.flag("builder.compiler-cache"):
        return ()
    command = Command(literals("carry-ccache", CCACHE.target, _PACKED, _MADE))
    return (
        Stage(
            CARRIED,
            literal("scratch"),
            comment="A compiler cache from another machine is a context of this name.",
        ),
        Stage(
            CARRY,
            literal("builder"),
            (
                Arg("TARGETARCH"),
                Arg(CARRIED_AT),
                Run((command,), (*COMPILER_CACHE, Mount("bind", _PACKED, from_=CARRIED)), network=False),
            ),
            "No layer holds a cache mount. Another CARRIED_AT runs this step again; --no-cache would empty the mount.",
        ),
        Stage(f"{parts.recipe}-compiler-cache", literal("scratch"), (Copy((f"{_MADE}/",), "/", CARRY),)),
    )
