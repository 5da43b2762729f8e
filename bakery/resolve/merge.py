"""``native.merge``: the native step is built for each value of an axis, and all results go into one wheel.

The plan is first made as if each value had a wheel of its own: `Plan.unmerged`, whose cells rules and the audit judge. Then
the cells that differ only in a merged axis become one. The stages of a value get an ending, ``native-cu12``, and their build
arguments become ``ENV`` lines: a target has one value of an argument, and a wheel needs several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bakery.core.cell_ids import axis_tags
from bakery.core.errors import PlanError
from bakery.core.names import axis_variable, with_derived
from bakery.core.target_kinds import INGREDIENTS
from bakery.plan.cells import Cell, Merged
from bakery.plan.dockerfile import Arg, Command, Copy, Env, Run, Script, Stage, Step
from bakery.plan.model import Plan
from bakery.plan.values import Ref, Value, literal, substitute
from bakery.recipe.cross_checks import texts
from bakery.recipe.models import Recipe
from bakery.recipe.models.steps import EXTRA
from bakery.recipe.models.text import REFERENCE
from bakery.resolve.asking import again
from bakery.resolve.matrix import CellDraft, identifiers
from bakery.resolve.native import STAGE
from bakery.resolve.references import parse, with_sources
from bakery.resolve.settings import Settings
from bakery.toolchains.components import bounds

_OF_BUILDER = ("toolkit", "components", "cuda-repository", "cuda-repository-key", "job-memory", "jobs")
"""The keys of ``[builder]`` that the native step alone uses where there is one."""


def merged_builds(settings: Settings, drafts: Sequence[CellDraft], recipes: Mapping[str, Recipe]) -> tuple[Merged, ...]:
    """Return the builds of the native step of a recipe with ``native.merge``; none for another recipe.

    ``recipes``: the id of a cell → the recipe with its overrides.

    Raises:
        PlanError: a wheel would not have all builds, a variable is not the same in all cells of a build, two builds have the
            same folder, or something beside the native step depends on a merged axis.
    """
    recipe, native = settings.recipe, settings.recipe.native
    if native is None or not native.merge:
        return ()
    if missing := [axis for axis in native.merge if axis not in recipe.matrix.axes]:
        raise PlanError(
            f"native.merge: the matrix has no axis {' and '.join(missing)}",
            hint=f"axes that can be merged: {', '.join(recipe.matrix.axes) or 'none; add one under [matrix]'}",
        )
    wheels = _by_wheel(drafts, native.merge)
    values = tuple(dict.fromkeys(_value(draft, native.merge) for draft in drafts))
    for cells in wheels:
        here = {_value(draft, native.merge) for draft in cells}
        if missing := [" ".join(value) for value in values if value not in here]:
            raise PlanError(
                f"native.merge: the wheel of {cells[0].id} would have no build for {', '.join(missing)}",
                hint="matrix.exclude and matrix.include must leave every wheel all values of a merged axis",
            )
    defaults = {item.name: item.value for item in settings.variables}
    args = {draft.id: {**defaults, **draft.args} for draft in drafts}
    names = {
        name
        for cells in wheels
        for name in {name for draft in cells for name in args[draft.id]}
        if len({args[draft.id].get(name) for draft in cells}) > 1
    } | set(map(axis_variable, native.merge))
    tags = _tags(values, native.merge)
    builds = []
    for value in values:
        cells = [draft for draft in drafts if _value(draft, native.merge) == value]
        own = [args[draft.id] for draft in cells]
        if several := sorted(name for name in names if len({item[name] for item in own}) > 1):
            raise PlanError(
                f"native.merge: {', '.join(several)} has several values for {' '.join(value)}",
                hint=f"an override that sets it must name merged axes only: where = {{ {native.merge[0]} = {value[0]!r} }}",
            )
        differing = {name: own[0][name] for name in names}
        derived = {key: text for key, text in with_derived(differing).items() if key not in defaults or key in names}
        folder, extra = (substitute(parse(text), with_derived(own[0])) for text in (native.into, native.extra or ""))
        axes = dict(zip(native.merge, value, strict=True))
        components = recipes[cells[0].id].builder.components
        requires = bounds(components, axes["cuda"]) if extra and "cuda" in axes else ()
        builds.append(Merged(tags[value], axes, derived, folder, extra, requires))
    _check_distinct("into", native.into, builds, [build.folder for build in builds])
    if native.extra:
        _check_distinct("extra", native.extra, builds, [build.extra for build in builds])
        if wrong := [build.extra for build in builds if not EXTRA.fullmatch(build.extra)]:
            raise PlanError(
                f"native.extra: {wrong[0]!r} is no normalised name of an extra",
                hint="use lower-case letters, digits and single hyphens, in the values of its variables, too",
            )
    _check_use(recipe, {name for build in builds for name in build.args})
    return tuple(builds)


def _by_wheel(drafts: Iterable[CellDraft], axes: Sequence[str]) -> list[list[CellDraft]]:
    """Return the cells that become one."""
    found: dict[object, list[CellDraft]] = {}
    for draft in drafts:
        found.setdefault(_point(draft.axes, axes), []).append(draft)
    return list(found.values())


def _point(axes: Mapping[str, str], merged: Iterable[str]) -> frozenset[tuple[str, str]]:
    return frozenset((axis, value) for axis, value in axes.items() if axis not in merged)


def _value(draft: CellDraft, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(draft.axes[axis] for axis in axes)


def _tags(values: Sequence[tuple[str, ...]], axes: Sequence[str]) -> dict[tuple[str, ...], str]:
    columns = [
        axis_tags(axis, list(dict.fromkeys(column)))
        for axis, column in zip(axes, zip(*values, strict=True), strict=True)
    ]
    return {value: "-".join(tags[text] for tags, text in zip(columns, value, strict=True)) for value in values}


def _check_distinct(key: str, text: str, builds: Sequence[Merged], values: Sequence[str]) -> None:
    tags: dict[str, str] = {}
    for build, value in zip(builds, values, strict=True):
        if tags.setdefault(value, build.tag) != build.tag:
            axis = next(iter(build.axes))
            variable = "CUDA_MAJOR" if axis == "cuda" else axis_variable(axis)
            raise PlanError(
                f"native.{key}: {value!r} would get the results of {tags[value]} and of {build.tag}",
                hint=f'name the merged axis in it, such as {key} = "{text}{"/" * (key == "into")}${{{variable}}}"',
            )


def _check_use(recipe: Recipe, names: set[str]) -> None:
    """Raise PlanError if something beside the native step refers to what differs between its builds, or is overridden by it."""
    data = recipe.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    allowed = {("native",), ("matrix",), ("variables",), *(("builder", key) for key in _OF_BUILDER)}
    if recipe.native and recipe.native.extra:
        allowed.add(("test", "command"))
    wrong = [
        f"{'.'.join(map(str, path))} refers to {name}"
        for path, text in texts(data, ())
        if not {path[:1], path[:2]} & allowed
        for name in dict.fromkeys(REFERENCE.findall(text))
        if name in names
    ]
    axes = set(recipe.native.merge) if recipe.native else set()
    wrong += [
        f"matrix.overrides.{index}.{table}.{key} is for {' and '.join(sorted(axes & item.where.keys()))}"
        for index, item in enumerate(recipe.matrix.overrides)
        if axes & item.where.keys()
        for table, keys in item.tables.items()
        for key in keys
        if table != "native" and (table != "builder" or key not in _OF_BUILDER)
    ]
    if wrong:
        raise PlanError(
            "native.merge: a wheel has all values of a merged axis, so only its native step can depend on one",
            details=wrong,
            hint=f"of [builder], {', '.join(_OF_BUILDER)} can; or take the axis out of native.merge",
        )


def merged_plan(plan: Plan, builds: Sequence[Merged]) -> Plan:
    """Return the plan whose wheels have the results of all builds; ``plan`` has a cell for each build of each wheel."""
    if not builds:
        return plan
    axes, own = builds[0].axes.keys(), {name for build in builds for name in build.args}
    groups: dict[object, list[Cell]] = {}
    for cell in (*plan.cells, *plan.cibuildwheel_cells):
        groups.setdefault(_point(cell.axes, axes), []).append(cell)
    points = [{axis: value for axis, value in cells[0].axes.items() if axis not in axes} for cells in groups.values()]
    ids = identifiers(points)
    new_id = {cell.id: name for name, cells in zip(ids, groups.values(), strict=True) for cell in cells}
    kept: dict[str, Cell] = {}
    for name, point, cells in zip(ids, points, groups.values(), strict=True):
        # Its stages are the wheel's: those with plain names where a build has them.
        first = min(cells, key=lambda cell: len(cell.own))
        kept[first.id] = replace(
            first,
            id=name,
            axes=point,
            args={key: value for key, value in first.args.items() if key not in own},
            images=tuple(dict.fromkeys(image for cell in cells for image in cell.images)),
            needs=tuple(dict.fromkeys(need for cell in cells for need in cell.needs)),
            built_by=new_id[first.built_by],
        )
    of_build = [
        replace(
            build,
            cells={new_id[cell.id]: cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells) if _has(cell, build)},
        )
        for build in builds
    ]
    result = replace(
        plan,
        cells=tuple(kept[cell.id] for cell in plan.cells if cell.id in kept),
        cibuildwheel_cells=tuple(kept[cell.id] for cell in plan.cibuildwheel_cells if cell.id in kept),
        merged=tuple(of_build),
        unmerged=replace(plan, merged=tuple(of_build)),
    )
    stages = _reached(result, _stages(plan, result, builds))
    used = {name for stage in stages for name in stage.declared}
    from_ = {name for stage in stages for name in stage.chosen_by}
    unused = own - used - from_
    return replace(
        result,
        stages=stages,
        variables=tuple(item for item in plan.variables if item.name not in unused),
        args={name: value for name, value in plan.args.items() if name not in unused},
        global_args=tuple(name for name in plan.global_args if name in from_),
    )


def _has(cell: Cell, build: Merged) -> bool:
    return all(cell.axes[axis] == value for axis, value in build.axes.items())


def _stages(plan: Plan, result: Plan, builds: Sequence[Merged]) -> list[Stage]:
    """Return the stages, those of the native step once for each build, and one list of what a wheel is made of."""
    by_name = {stage.name: stage for stage in plan.stages}
    copies: dict[str, list[Stage]] = {}
    lists: dict[str, list[Copy]] = {}
    places: dict[str, tuple[Value, ...]] = {}
    for build in builds:
        cells = [cell for cell in plan.cells if _has(cell, build)]
        cell, values = cells[0], with_derived(plan.args_of(cells[0]))

        def name_of(stage: str, cell: Cell = cell) -> str:
            return f"{stage}{cell.own}" if f"{stage}{cell.own}" in by_name else stage

        if other := next((item for item in cells if name_of(STAGE, item) != name_of(STAGE)), None):
            raise PlanError(
                f"native.merge: the native steps of {cell.id} and {other.id} differ, and not by the merged axis alone",
                hint="give the cells whose [builder] or [native] differs a recipe of their own",
            )
        listing = by_name[name_of(INGREDIENTS)]
        listed = [step for step in listing.steps if isinstance(step, Copy)]
        others = (name_of(again(STAGE)), *(step.from_ for step in listed))
        names = _varying(by_name, name_of(STAGE), others, build, values)
        varying = {name: f"{name.removesuffix(cell.own)}-{build.tag}" for name in names}
        for name in varying:
            stage = _copy(by_name[name], varying, build)
            stage = replace(stage, comment="") if name in copies else stage
            copies.setdefault(name, []).append(stage)
            found = (step.resolves for step in stage.steps if isinstance(step, Run) and step.resolves)
            if clash := next((item for item in found if places.setdefault(item.place, item.words) != item.words), None):
                raise PlanError(
                    f"native.merge: {clash.place} of {build.tag} has other packages than that of another build",
                    hint="a lock has one list of each; merge CUDA releases with different majors",
                )
        more = [replace(step, from_=varying[step.from_]) for step in listed if step.from_ in varying]
        for name in {name_of(INGREDIENTS, item) for item in result.cells}:
            lists[name] = [*lists.get(name, ()), *more]
    # What else needs a toolkit, such as its stub of the driver, takes that of the last build.
    last = {name: found[-1].name for name, found in copies.items()}
    stages: list[Stage] = []
    for stage in plan.stages:
        if stage.name in copies:
            stages += copies[stage.name]
        elif stage.name in lists:
            rest = (step for step in stage.steps if not (isinstance(step, Copy) and step.from_ in copies))
            stages.append(replace(stage, steps=(*rest, *lists[stage.name])))
        else:
            stages.append(replace(stage, steps=tuple(with_sources(step, last) for step in stage.steps)))
    return stages


def _varying(
    by_name: Mapping[str, Stage], native: str, others: Iterable[str], build: Merged, values: Mapping[str, str]
) -> list[str]:
    """Return the stages that a build has for itself: ``native``, and those of ``others`` and below all of them that depend on its
    values or on such a stage.
    """
    known: dict[str, bool] = {}

    def varies(name: str) -> bool:
        if name not in known:
            stage = by_name.get(name)
            known[name] = stage is not None and depends(stage)
        return known[name]

    def depends(stage: Stage) -> bool:
        # All below are asked, since each has a name of its own.
        below = [varies(other) for other in stage.dependencies(values)]
        names = (*stage.declared, *stage.chosen_by)
        return any(below) or stage.name == native or any(name in build.args for name in names)

    for name in (native, *others):
        varies(name)
    return [name for name, found in known.items() if found]


def _copy(stage: Stage, names: Mapping[str, str], build: Merged) -> Stage:
    """Return the stage of one build: with its values, and the names of its other stages."""

    def fixed(value: Value) -> Value:
        parts = (
            part.expand(build.args) if isinstance(part, Ref) and part.variable in build.args else part for part in value
        )
        return tuple(parts)

    def command(item: Command | Script) -> Command | Script:
        # The list of what an image has bears its name.
        if isinstance(item, Script) and below in names:
            return Script(item.text.replace(f" image {below} ", f" image {names[below]} "))
        return item

    def of(step: Step) -> Step:
        if isinstance(step, Arg):
            return Arg(step.name, fixed(step.default))
        if isinstance(step, Run):
            resolves = step.resolves and replace(step.resolves, words=tuple(map(fixed, step.resolves.words)))
            step = replace(step, commands=tuple(map(command, step.commands)), resolves=resolves)
        return with_sources(step, names)

    below = "".join(part for part in fixed(stage.base) if isinstance(part, str))
    is_fixed = all(isinstance(part, str) for part in fixed(stage.base))
    base = literal(names.get(below, below)) if is_fixed else fixed(stage.base)
    given = [name for name in stage.declared if name in build.args]
    steps = tuple(of(step) for step in stage.steps if not (isinstance(step, Arg) and step.name in given))
    env = (Env(tuple((item, literal(build.args[item])) for item in given)),) if given else ()
    return replace(stage, name=names[stage.name], base=base, steps=(*env, *steps), says=f"{stage.says} ({build.tag})")


def _reached(plan: Plan, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that the targets of a plan need, for any values of its arguments, each after those that it uses."""
    by_name = {stage.name: stage for stage in stages}

    def below(stage: Stage) -> Iterator[str]:
        yield from stage.dependencies({})
        # ``FROM python-${PYTHON_VERSION}`` chooses one of several.
        if isinstance(stage.base[0], str) and stage.base[1:]:
            yield from (name for name in by_name if name.startswith(stage.base[0]))

    reached: set[str] = set()
    todo = [target.stage for target in plan.targets()] + [f"{INGREDIENTS}{cell.own}" for cell in plan.cells]
    while todo:
        name = todo.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            todo += below(by_name[name])
    ordered: dict[str, Stage] = {}

    def add(stage: Stage) -> None:
        for name in below(stage):
            if name in reached and name not in ordered:
                add(by_name[name])
        ordered.setdefault(stage.name, stage)

    for stage in stages:
        if stage.name in reached:
            add(stage)
    return tuple(ordered.values())
