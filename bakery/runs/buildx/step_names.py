"""What the steps of a bake do, in words: displays show these instead of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bakery.plan import dockerfile
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.runs.buildx.rawjson import Label, Role
from bakery.toolchains.program_mounts import CONTEXT, STAGE

StepName = Callable[[Label], str]

_EXPORTS = {"exporting to image": "write the image"}

_IMAGE = re.compile(r"FROM (?:docker\.io/library/|docker\.io/)?(?P<name>[^@\s]+)")


def name_step(label: Label, stages: Mapping[str, str] | None = None) -> str:
    """Return what a step does, such as ``compile``; ``stages``: stage → its words."""
    if label.role is not Role.STEP:
        return _EXPORTS.get(label.text, "copy the result") if label.role is Role.EXPORT else label.title
    if image := _IMAGE.match(label.text):
        return f"image {image['name']}"
    return (stages or {}).get(label.stage) or label.stage or label.title


def step_names(plan: Plan | None, cell: Cell) -> StepName:
    """Return what names the steps of a cell's bake."""
    if plan is None:
        return name_step
    toolkit = plan.args_of(cell).get("CUDA_VERSION", "")
    words = {CONTEXT: "prepare", STAGE: "prepare"}
    for stage in plan.stages:
        words[stage.name] = f"{stage.says} {toolkit}".rstrip() if stage.role is dockerfile.Role.CUDA else stage.says
    return lambda label: name_step(label, words)
