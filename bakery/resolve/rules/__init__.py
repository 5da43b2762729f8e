"""Rules: combinations of CUDA, compilers, images and frameworks that are known to fail, found before a build starts.

A rule is data with a pure check (``rule``). A check sees a ``case.Case``: the cells of a plan that do not differ for
any rule. Rules import ``plan``, ``toolchains.facts`` and ``core``; a value that neither the plan nor the facts have
breaks no rule.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from bakery.plan.model import Plan
from bakery.resolve.rules import groups
from bakery.resolve.rules.caching import Host
from bakery.resolve.rules.case import cases
from bakery.resolve.rules.rule import Finding, Rule, Severity


class Group(Protocol):
    """What every file of ``groups`` offers."""

    RULES: tuple[Rule, ...]


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, group by group."""
    names = sorted(module.name for module in iter_modules(groups.__path__))
    found = [cast(Group, import_module(f"{groups.__name__}.{name}")) for name in names]
    return tuple(rule for group in found for rule in group.RULES)


def judge(plan: Plan, host: Host | None = None) -> tuple[Finding, ...]:
    """Return what rules find in a plan: errors first, each finding once with all its cells.

    Args:
        host: the machine that is to build it; None where none is meant.
    """
    cells: dict[tuple[str, str], set[str]] = {}
    for case in cases(plan, host):
        for rule in rules():
            for text in rule.check(case):
                cells.setdefault((rule.id, text), set()).update(case.cells)
    by_id = {rule.id: rule for rule in rules()}
    order = [cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)] if cells else []
    found = [
        Finding(by_id[rule], text, tuple(cell for cell in order if cell in broken))
        for (rule, text), broken in cells.items()
    ]
    return tuple(sorted(found, key=lambda finding: finding.rule.severity is not Severity.ERROR))
