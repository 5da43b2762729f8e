"""wheel-audit: is a wheel what its name, its metadata and its builder say?

`audit` reads a wheel in a process with limits and returns a `WheelReport`; ``python -m wheel_audit`` and the command
``wheel-audit`` print it. Inside, ``wheel`` and the readers (``archive``, ``elf``, ``macho``, ``pe``, ``fatbin``,
``metadata``) collect facts, ``checks`` evaluate them, ``auditor`` does both.

The names below are imported when they are used, so that small modules of this package cost little.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from wheel_audit.auditor import WheelReport
    from wheel_audit.auditor import audit_in_worker as audit
    from wheel_audit.byte_difference import Difference, differences
    from wheel_audit.expected_wheel import ExpectedWheel
    from wheel_audit.finding import Finding, Severity
    from wheel_audit.worker import LimitExceeded

__all__ = [
    "Difference",
    "ExpectedWheel",
    "Finding",
    "LimitExceeded",
    "Severity",
    "WheelReport",
    "audit",
    "differences",
]

_MODULES = {
    **dict.fromkeys(("WheelReport", "audit"), "auditor"),
    **dict.fromkeys(("Difference", "differences"), "byte_difference"),
    **dict.fromkeys(("Finding", "Severity"), "finding"),
    "ExpectedWheel": "expected_wheel",
    "LimitExceeded": "worker",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES[name]}")
    return getattr(module, "audit_in_worker" if name == "audit" else name)
