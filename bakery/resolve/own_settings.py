"""The plans of the cells that overrides set apart → one plan: equal stages are written once, the others get an ending."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from bakery.core.cell_ids import some_cells
from bakery.core.errors import PlanError
from bakery.core.names import with_derived
from bakery.core.target_kinds import INGREDIENTS, TARGET_KINDS
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Stage
from bakery.plan.model import OwnSettings, Plan
from bakery.plan.values import Value, substitute
from bakery.recipe.models import Override, Recipe
from bakery.recipe.overrides import changed
from bakery.recipe.problems import nearest
from bakery.resolve.matrix import CellDraft, matches
from bakery.resolve.references import parse, with_sources
from bakery.resolve.select_toolkits import toolkit_of
from bakery.resolve.settings import Settings
from bakery.toolchains.registry import bases

_LONGEST = 40
"""Characters of an ending."""


def apart(
    recipe: Recipe, settings: Settings, drafts: Sequence[CellDraft]
) -> Iterator[tuple[str, Recipe, Sequence[CellDraft]]]:
    """Yield the cells with the same settings: the ending of their stages (`Cell.own`), their recipe, and the cells.

    Raises:
        PlanError: the overrides of a cell contradict each other, or no base has the name of its base.
    """
    entries = [item for item in recipe.matrix.overrides if item.tables]
    by_overrides: dict[tuple[int, ...], list[CellDraft]] = {}
    for draft in drafts:
        matching = (number for number, item in enumerate(entries) if matches(item.where, draft.axes))
        by_overrides.setdefault(tuple(matching), []).append(draft)
    endings: set[str] = set()
    # The cells without overrides come first, and have the plain names of stages.
    for numbers, cells in sorted(by_overrides.items()):
        changes = [entries[number] for number in numbers]
        for base, own, some in _by_choice(_changed(recipe, changes, cells), settings, cells):
            texts = [*(text for item in changes for text in item.where.values()), base]
            words = dict.fromkeys(re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") for text in texts)
            ending = "".join(f"-{word}" for word in words if word)[:_LONGEST] if endings else ""
            ending = f"{ending}-{len(endings)}" if ending in endings else ending
            endings.add(ending)
            yield ending, own, some


def _changed(recipe: Recipe, changes: Sequence[Override], cells: Sequence[CellDraft]) -> Recipe:
    """Return the recipe of some cells. Raises PlanError if the overrides that match them contradict each other."""
    try:
        return changed(recipe, changes)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        raise PlanError(
            f"the {len(changes)} overrides of {some_cells([draft.id for draft in cells])} contradict each other",
            details=problems,
            hint="change matrix.overrides, so that only one of them matches these cells",
        ) from None


def _by_choice(
    recipe: Recipe, settings: Settings, cells: Sequence[CellDraft]
) -> Iterator[tuple[str, Recipe, Sequence[CellDraft]]]:
    """Yield the cells with the same base and toolkit: what sets them apart, their recipe, and the cells.

    Raises:
        PlanError: no base has the name.
    """
    builder, values = recipe.builder, {item.name: item.value for item in settings.variables}
    base = builder.base
    by_choice: dict[tuple[str, str], list[CellDraft]] = {}
    for cell in cells:
        args = with_derived({**values, **cell.args})
        name = substitute(parse(base.provider), args)
        by_choice.setdefault((name, toolkit_of(builder, name, args.get("CUDA_VERSION", ""))), []).append(cell)
    for (name, toolkit), some in by_choice.items():
        if (name, toolkit) == (base.provider, builder.toolkit):
            yield "", recipe, some
            continue
        if name not in bases():
            close = nearest(name, tuple(bases()))
            raise PlanError(
                f"builder.base: {base.provider} is {name!r} for {some_cells([cell.id for cell in some])}, and no base has this name",
                hint=f"did you mean {close!r}?" if close else f"expected one of: {', '.join(bases())}",
            )
        update = {"base": base.model_copy(update={"provider": name}), "toolkit": toolkit}
        own = recipe.model_copy(update={"builder": builder.model_copy(update=update)})
        yield (toolkit if name == base.provider else name), own, some


def joined(plans: Sequence[Plan], order: Sequence[str]) -> Plan:
    """Return the plan of all cells: the first plan with the cells, stages and grants of the others.

    ``order``: the ids of all cells. The cells of each plan have the same `Cell.own`.
    """
    if len(plans) == 1 and not plans[0].cells[0].own:
        return plans[0]
    stages: dict[str, Stage] = {}
    own: dict[str, OwnSettings] = {}
    for plan in plans:
        ending = next(cell.own for cell in (*plan.cells, *plan.cibuildwheel_cells))
        if ending:
            own[ending] = OwnSettings(plan.audit, plan.facts, plan.cibuildwheel)
        for stage in _with_endings(plan, ending, stages) if plan.cells else ():
            stages.setdefault(stage.name, stage)
    place = {name: number for number, name in enumerate(order)}
    variables = {item.name: item for plan in plans for item in plan.variables}
    platform_variables = {plan.platform_variable for plan in plans if plan.cells}

    def own_values(plan: Plan) -> dict[str, str]:
        # Such as the registry of a base: the bake file has one value of a variable.
        return {
            item.name: item.value
            for item in plan.variables
            if item.name in plan.args and item.value != variables[item.name].value
        }

    def ordered(cells: Callable[[Plan], Iterable[Cell]]) -> tuple[Cell, ...]:
        found = [replace(cell, args=own_values(plan) | {**cell.args}) for plan in plans for cell in cells(plan)]
        return tuple(sorted(found, key=lambda cell: place[cell.id]))

    def all_of(items: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(items))

    return replace(
        plans[0],
        variables=tuple(variables.values()),
        args={name: value for plan in plans for name, value in plan.args.items()},
        global_args=all_of(name for plan in plans for name in plan.global_args),
        cells=ordered(lambda plan: plan.cells),
        cibuildwheel_cells=ordered(lambda plan: plan.cibuildwheel_cells),
        stages=tuple(stages.values()),
        ignore=all_of(item for plan in plans for item in plan.ignore),
        network=all_of(item for plan in plans for item in plan.network),
        requested_grants=all_of(item for plan in plans for item in plan.requested_grants),
        foreign=all_of(item for plan in plans for item in plan.foreign),
        shares_slots=all(plan.shares_slots for plan in plans if plan.cells),
        platform_variable=platform_variables.pop() if len(platform_variables) == 1 else "",
        own=own,
    )


def _with_endings(plan: Plan, ending: str, written: Mapping[str, Stage]) -> Iterator[Stage]:
    """Yield the stages of a plan; a stage gets the ending if another one that is ``written`` has its name.

    So do the stages that targets name. If one of ``python-3.10``, ``python-3.11`` … gets it, all do, because a variable
    chooses among them.
    """
    always = {INGREDIENTS, *(f"{plan.recipe}-{TARGET_KINDS[kind].stage}" for kind in plan.kinds)}
    chosen = {str(stage.base[0]) for stage in plan.stages if stage.base[1:]}
    endings: dict[str, str] = {}
    for stage in plan.stages:
        prefix = next((prefix for prefix in chosen if stage.name.startswith(prefix)), "")
        kin = [item for item in plan.stages if prefix and item.name.startswith(prefix)] or [stage]
        if stage.name not in endings and (
            stage.name in always
            or any(item.name in written and written[item.name] != _renamed(item, endings) for item in kin)
            or (written and any(item.name not in written for item in kin) and prefix)
        ):
            endings |= dict.fromkeys((prefix, *(item.name for item in kin)) if prefix else (stage.name,), ending)
        yield replace(_renamed(stage, endings), name=stage.name + endings.get(stage.name, ""))


def _renamed(stage: Stage, endings: Mapping[str, str]) -> Stage:
    """Return a stage that refers to others by their names with endings."""
    names = {name: name + ending for name, ending in endings.items()}
    ending = endings.get(str(stage.base[0]), "")
    # ``FROM python-${PYTHON_VERSION}`` is a reference, too.
    base: Value = (*stage.base, ending) if stage.base[1:] else (f"{stage.base[0]}{ending}",)
    base = base if ending else stage.base
    return replace(stage, base=base, steps=tuple(with_sources(step, names) for step in stage.steps))
