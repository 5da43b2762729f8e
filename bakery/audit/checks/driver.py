"""Does everything that calls the CUDA driver also ask the loader for it?

A linker drops a library that defines nothing it needs. An empty stub of libcuda so leaves an object that calls
the driver without naming it, and the module fails at import with ``undefined symbol: cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.elf import SharedObject
from bakery.audit.finding import Finding, error
from bakery.audit.promise import Promise
from bakery.audit.wheel import Wheel

IDS = {
    "driver-not-needed": "a shared object calls the CUDA driver but does not ask the loader for libcuda",
}
_DRIVER = "libcuda.so"


def check(wheel: Wheel, promise: Promise) -> Iterator[Finding]:
    """Yield every object whose driver functions nothing in its reach brings."""
    names = {name: found for found in wheel.objects for name in (found.file_name, found.soname) if name}
    for found in wheel.objects:
        if not found.symbols.driver_wanted:
            continue
        reach = _reach(found, names)
        if any(name.startswith(_DRIVER) for inside in reach for name in inside.needed):
            continue
        brought = {name for inside in reach for name in inside.symbols.driver_defined}
        if missing := [name for name in found.symbols.driver_wanted if name not in brought]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            yield error(
                "driver-not-needed",
                f"calls {', '.join(missing[:3])}{more}, but nothing it needs is libcuda.so.1",
                file=found.path,
                hint="link with a libcuda stub that defines the driver's functions: an empty one is dropped",
            )


def _reach(start: SharedObject, names: dict[str, SharedObject]) -> list[SharedObject]:
    """Return ``start`` and all objects of the wheel that the loader brings in with it."""
    reached = [start]
    for found in reached:  # grows while it is walked
        for name in found.needed:
            if (inside := names.get(name)) and inside not in reached:
                reached.append(inside)
    return reached
