"""auditwheel's own verdict, asked in a process of its own.

Its documented JSON (``show --json``, version 1) is the only interface it keeps stable; inside this process
it would also change the working folder under every other thread, and a hostile file could keep it busy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bakery.audit.tools import stopped

_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class AuditwheelReport:
    """What auditwheel says of a wheel.

    Attributes:
        overall: the oldest platform tag the wheel fulfils, external libraries counted; may be empty.
        symbols: the oldest tag by symbol versions alone.
        broken: why no manylinux tag can hold whatever the libraries (instruction set, UCS2, PyFPE).
        libraries: tag to the external libraries it does not allow.
        blacklisted: tag to the symbols it forbids.
        failure: why auditwheel itself failed.
        skipped: why it was not asked.
    """

    overall: str = ""
    symbols: str = ""
    broken: str = ""
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blacklisted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failure: str = ""
    skipped: str = ""


def ask_auditwheel(wheel: Path) -> AuditwheelReport:
    """Return the verdict on the wheel at ``wheel``; a failure is a verdict, too."""
    if sys.platform != "linux":
        return AuditwheelReport(skipped="auditwheel runs on Linux only")
    if find_spec("auditwheel") is None:
        return AuditwheelReport(skipped="auditwheel is not installed")
    # -P: nothing in the working folder is imported. No search path: the verdict must not depend on what
    # this machine has installed.
    command = [sys.executable, "-P", "-m", "auditwheel", "show", "--json", "--ldpaths=", str(wheel.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return AuditwheelReport(failure=str(reason))
    if limit := stopped(done):
        return AuditwheelReport(failure=f"it {limit}")
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return parse_verdict(done.stdout, failure=last)


def parse_verdict(output: str, *, failure: str) -> AuditwheelReport:
    """Read auditwheel's JSON; ``failure`` is the reason given where there is none."""
    try:
        said = json.loads(output)
    except ValueError:
        return AuditwheelReport(failure=failure)
    if said.get("version") != 1 or "overall_tag" not in said:
        return AuditwheelReport(failure=" ".join(str(said.get("error", failure)).split()))
    upgrades: dict[str, dict[str, object]] = said["policy_upgrades"]
    reasons = {
        "unsupported_isa": "instructions beyond the platform's baseline",
        "ucs2": "a narrow unicode (UCS2) Python",
        "pyfpe": "PyFPE_jbuf",
    }
    return AuditwheelReport(
        overall=said["overall_tag"],
        symbols=said["sym_tag"],
        broken=", ".join(text for key, text in reasons.items() if said[key]),
        libraries={tag: _names(entry.get("libs_to_eliminate")) for tag, entry in upgrades.items()},
        blacklisted={tag: _symbols(entry.get("blacklisted_symbols")) for tag, entry in upgrades.items()},
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _symbols(value: object) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return ()
    return tuple(f"{library}:{name}" for library, names in value.items() for name in names)
