"""Rules: combinations of CUDA, compilers, images and frameworks that are known to fail, found before a build starts.

A rule is a pure function with the decorator ``rule.rule``, in a file of ``groups``. Its argument is a ``subject.RuleSubject``:
cells of a plan that are the same to every rule. A value that neither the plan nor the facts have breaks no rule.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from bakery.plan.model import Plan
from bakery.resolve.rules import groups
from bakery.resolve.rules.cache_use import Host
from bakery.resolve.rules.project import Project
from bakery.resolve.rules.rule import Finding, Rule, Severity
from bakery.resolve.rules.subject import subjects


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, file by file."""
    names = sorted(module.name for module in iter_modules(groups.__path__))
    modules = [import_module(f"{groups.__name__}.{name}") for name in names]
    return tuple(item for module in modules for item in vars(module).values() if isinstance(item, Rule))


def judge(plan: Plan, host: Host | None = None, project: Project | None = None) -> tuple[Finding, ...]:
    """Return the rules that a plan breaks: errors first, each finding once with all its cells.

    Without ``host``, the machine that will build it, the rules about machines do not apply; without ``project``, those
    about the source folder.
    """
    cells: dict[tuple[Rule, str], set[str]] = {}
    for subject in subjects(plan.unmerged or plan, host, project):
        for rule in rules():
            for text in rule.check(subject):
                cells.setdefault((rule, text), set()).update(subject.cells)
    order = [cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)] if cells else []
    findings = [
        Finding(rule, text, tuple(cell for cell in order if cell in broken)) for (rule, text), broken in cells.items()
    ]
    return tuple(sorted(findings, key=lambda finding: finding.rule.severity is not Severity.ERROR))
