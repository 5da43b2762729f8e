"""The requirements of a cell for the package index, as far as they are known before the build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.names import TARGET_ARCH, with_derived
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Resolves, Run
from bakery.plan.model import Plan
from bakery.plan.values import expand
from bakery.toolchains.programs import requires


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of one place, such as ``build`` or ``test``.

    Attributes:
        words: requirements and options of pip.
        complete: false if the project's source has more of them.
        direct: distributions that may come from an address.
    """

    words: frozenset[str]
    complete: bool
    direct: tuple[str, ...] = ()


def requirements_of(plan: Plan, cell: Cell, files: Mapping[str, Sequence[str]]) -> dict[str, Requirements]:
    """Return place → its requirements, for the stages that a cell's materials need.

    ``files``: file that words name with ``-r`` → its lines; the build knows the others.
    """
    arguments = {**with_derived(plan.args_of(cell)), TARGET_ARCH: cell.platform.partition("/")[2]}
    stages = {stage.name: stage for stage in plan.stages}
    waiting, seen = [f"{plan.recipe}-materials"], set[str]()
    requirements: dict[str, Requirements] = {}
    while waiting:
        stage = stages.get(waiting.pop())
        if stage is None or stage.name in seen:
            continue
        seen.add(stage.name)
        waiting += stage.dependencies(arguments)
        for step in stage.steps:
            if isinstance(step, Run) and step.resolves:
                requirements[step.resolves.place] = _requirements(step.resolves, arguments, files)
    return requirements


def _requirements(resolves: Resolves, arguments: Mapping[str, str], files: Mapping[str, Sequence[str]]) -> Requirements:
    words = iter([expand(word, arguments) for word in resolves.words])
    expanded: list[str] = []
    complete = True
    for word in words:
        if word != "-r":
            expanded.append(word)
        else:
            file = next(words)
            complete = complete and file in files
            expanded += files.get(file, ())
    return Requirements(frozenset(expanded), complete, resolves.direct)


def project_requirements(root: Path, plan: Plan) -> dict[str, list[str]]:
    """Return requirements file → its lines, from the project's pyproject.toml; empty for other sources."""
    step = next(step for stage in plan.stages for step in stage.steps if isinstance(step, Run) and step.lists)
    source = next(mount for mount in step.mounts if mount.target == "/src")
    if source.from_:
        return {}
    folder = str(root / plan.context / source.source)
    try:
        return {
            item.path: requires.requirements(folder)
            if item.kind == "build"
            else requires.dependencies(folder, list(item.without))
            for item in step.lists
        }
    except SystemExit:
        return {}  # The build reports it with more context.
