"""What device code a plan promises, so that the audit can hold its wheels to it."""

from __future__ import annotations

from dataclasses import dataclass

from bakery.errors import UsageError
from bakery.facts.archs import parse
from bakery.plan import Plan
from bakery.rules.case import Case, cases


@dataclass(frozen=True, slots=True)
class DevicePromise:
    """The device code that the wheels of a cell must hold.

    Attributes:
        cuda: the CUDA release that makes it.
        archs: ``sm_90`` for machine code, ``compute_90`` for PTX; all of them and no others.
    """

    cuda: str
    archs: tuple[str, ...]


def device_promises(plan: Plan) -> dict[str, DevicePromise]:
    """Return what each cell promises, by its id; a cell that names no architectures promises nothing.

    A recipe that takes a toolkit for its libraries alone compiles no kernels, and lists no architectures.
    """
    return {cell: promise for case in cases(plan) if (promise := _promise(case)) for cell in case.cells}


def _promise(case: Case) -> DevicePromise | None:
    lists = {text for _, text in case.arch_lists}
    if not case.compiler or len(lists) != 1:
        return None
    try:
        archs = parse(lists.pop())
    except UsageError:  # the rules say so, where it is an error
        return None
    made = [f"sm_{arch.number}" for arch in archs if arch.cubin] + [
        f"compute_{arch.number}" for arch in archs if arch.ptx
    ]
    return DevicePromise(case.cuda, tuple(made))
