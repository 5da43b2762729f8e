"""All generated files of a plan."""

from __future__ import annotations

from dataclasses import replace

from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile, dockerignore, program_texts
from bakery.emit.workflow import workflow
from bakery.plan.delivery import AT_TOP, Repository
from bakery.plan.dockerfile import Arg
from bakery.plan.model import Plan
from bakery.plan.values import literal
from bakery.toolchains.program_mounts import CONTEXT_FOLDER, GIT_PREFIX


def generate(plan: Plan, repository: Repository = AT_TOP) -> dict[str, str]:
    """Return path → text of every generated file; that of the workflow is relative to the top of the repository."""
    texts = {
        **run_texts(_below(plan, repository.folder)),
        **{f"{CONTEXT_FOLDER}/{path}": text for path, text in program_texts(plan).items()},
        **(configurations(plan) if plan.cibuildwheel_cells else {}),
    }
    return texts | ({repository.named(plan.workflow): workflow(plan, plan.ci, repository)} if plan.ci else {})


def _below(plan: Plan, folder: str) -> Plan:
    """Return the plan of a project in a folder of its repository; empty for the top."""
    prefix, here = Arg(GIT_PREFIX, literal("")), Arg(GIT_PREFIX, literal(folder))
    stages = (
        replace(stage, steps=tuple(here if step == prefix else step for step in stage.steps)) for stage in plan.stages
    )
    return replace(plan, stages=tuple(stages)) if folder else plan


def run_texts(plan: Plan) -> dict[str, str]:
    """Return path → text of the files that a run reads, without the programs."""
    return {
        plan.bakefile: bakefile(plan),
        plan.dockerfile: dockerfile(plan),
        f"{plan.dockerfile}.dockerignore": dockerignore(plan),
    }
