"""All files that stand for a plan."""

from __future__ import annotations

from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile, dockerignore
from bakery.emit.workflow import workflow
from bakery.plan.model import Plan


def generate(plan: Plan) -> dict[str, str]:
    """Return path → text of every generated file; the same plan gives the same text."""
    texts = {
        plan.bakefile: bakefile(plan),
        plan.dockerfile: dockerfile(plan),
        f"{plan.dockerfile}.dockerignore": dockerignore(plan),
        **(configurations(plan) if plan.cibuildwheel_cells else {}),
    }
    return texts | ({plan.workflow: workflow(plan, plan.ci)} if plan.ci else {})
