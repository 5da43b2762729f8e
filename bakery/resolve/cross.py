"""Compilers for the platform of a wheel on a machine of another one: Debian's, with the C++ library and Python's headers.

Where both platforms are the same, the same steps do nothing, so one Dockerfile serves native and crossed cells.
"""

from __future__ import annotations

from bakery.plan.dockerfile import Arg, Command, Run, Stage
from bakery.plan.values import Ref, literal
from bakery.resolve.stage_inputs import literals
from bakery.toolchains.network_mounts import CERTIFICATES

_TOOLS = "cross-tools"


def cross_tools() -> Stage:
    """Return the stage that everything which compiles stands on."""
    words = (*literals("net", _TOOLS, "for"), (Ref("TARGETARCH"),))
    steps = (
        Arg("TARGETARCH"),
        Run((Command(words),), CERTIFICATES),
    )
    return Stage("toolkit", literal("base"), steps, "Compilers for the wheel's platform, where it is another one.")


def install_for_target(*packages: str) -> Run:
    """Return the step that installs packages of the base's own manager; libraries for the wheel's platform, too."""
    return Run((Command(literals("net", _TOOLS, "install-packages", *packages)),), CERTIFICATES)
