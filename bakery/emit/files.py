"""All generated files of a plan."""

from __future__ import annotations

from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile, dockerignore, program_texts
from bakery.emit.workflow import workflow
from bakery.plan.model import Plan
from bakery.toolchains.program_mounts import CONTEXT_FOLDER


def generate(plan: Plan) -> dict[str, str]:
    """Return path → text of every generated file."""
    texts = {
        **run_texts(plan),
        **{f"{CONTEXT_FOLDER}/{path}": text for path, text in program_texts(plan).items()},
        **(configurations(plan) if plan.cibuildwheel_cells else {}),
    }
    return texts | ({plan.workflow: workflow(plan, plan.ci)} if plan.ci else {})


def run_texts(plan: Plan) -> dict[str, str]:
    """Return path → text of the files that a run reads, without the programs."""
    return {
        plan.bakefile: bakefile(plan),
        plan.dockerfile: dockerfile(plan),
        f"{plan.dockerfile}.dockerignore": dockerignore(plan),
    }
