"""Compilers for the platform of a wheel on a machine of another one: Debian's, with the C++ library and Python's headers.

Where both platforms are the same, the same steps do nothing, so one Dockerfile serves native and crossed cells.
"""

from __future__ import annotations

from bakery.plan import Arg, Command, Ref, Run, Stage, literal
from bakery.providers.network import CERTIFICATES
from bakery.resolve.parts import SCRIPTS, Parts, literals, script

_TOOLS = "cross-tools"


def cross_tools(parts: Parts) -> Stage:
    """Return the stage that everything which compiles stands on."""
    words = (*literals("net", _TOOLS, "for"), (Ref("TARGETARCH"),))
    steps = (
        Arg("TARGETARCH"),
        script("with-cross", f"{SCRIPTS}/with-cross", "Runs a command that compiles for the wheel's platform."),
        script(_TOOLS, f"{SCRIPTS}/{_TOOLS}", "Installs compilers for another platform, and libraries for it."),
        Run((Command(words),), CERTIFICATES),
    )
    return Stage("toolkit", literal("base"), steps, "Compilers for the wheel's platform, where it is another one.")


def install_for_target(*packages: str) -> Run:
    """Return the step that installs packages of the base's own manager; libraries for the wheel's platform, too."""
    return Run((Command(literals("net", _TOOLS, "install-packages", *packages)),), CERTIFICATES)
