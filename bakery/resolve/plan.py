"""Recipe → plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from bakery.core.cell_ids import is_baked
from bakery.core.errors import PlanError, UsageError
from bakery.core.names import TARGET_ARCH, size_mb
from bakery.core.target_kinds import GROUPS, IMAGE_KINDS, WHEEL_KINDS, Kind
from bakery.plan.cells import Cell, Merged
from bakery.plan.delivery import Audit
from bakery.plan.dockerfile import Stage
from bakery.plan.model import Plan
from bakery.plan.pull_request import for_pull_request
from bakery.plan.values import Ref
from bakery.recipe.files import PYPROJECT
from bakery.recipe.load import Loaded
from bakery.resolve import epoch
from bakery.resolve.asking import git_variables
from bakery.resolve.build_facts import build_facts
from bakery.resolve.cells import draft_cells, finish_cells, python_release, unmatched, with_shared_wheels
from bakery.resolve.delivery import (
    check_publish,
    cibuildwheel,
    foreign,
    layer_cache,
    networked_phases,
    requested_grants,
    secret_variables,
    secrets_of,
    workflow_settings,
)
from bakery.resolve.matrix import CellDraft
from bakery.resolve.merge import merged_builds, merged_plan
from bakery.resolve.naming import check_names, namings, requires
from bakery.resolve.own_settings import apart, joined
from bakery.resolve.references import parse as parse_value
from bakery.resolve.references import parse_table
from bakery.resolve.select_toolkits import select_toolkits
from bakery.resolve.set_option import (
    NO_ARGUMENT,
    SetOptions,
    adds_platforms,
    apply_to_recipe,
    buildx_overrides,
    check_arguments,
)
from bakery.resolve.settings import Settings, build_variables, check_known, check_values, decide, of_cells, settable
from bakery.resolve.source_context import ignore_patterns, source_context
from bakery.resolve.stage_inputs import StageInputs, compilers_take_slots
from bakery.resolve.stages import stages
from bakery.toolchains.bases.base import Request
from bakery.toolchains.program_mounts import CONTEXT_FOLDER
from bakery.toolchains.registry import bases


def resolve(
    loaded: Loaded,
    sets: SetOptions | None = None,
    environ: Mapping[str, str] | None = None,
    committed: int | None = None,
) -> Plan:
    """Return the plan of a recipe.

    Args:
        sets: the values of ``--set``.
        environ: the environment; names that start with ``BAKERY_`` set variables, and SOURCE_DATE_EPOCH the time.
        committed: the time of the source's last commit in seconds since 1970: SOURCE_DATE_EPOCH if nothing else sets
            it. None for a source without commits, and for files that must be the same at every commit.

    Raises:
        UsageError: ``sets`` names a variable or a target that does not exist.
        PlanError: no plan can satisfy the recipe.
    """
    sets = sets or SetOptions()
    variables, platforms, overrides = apply_to_recipe(sets, loaded)
    check_known(variables, settable(loaded))
    check_values(epoch.variable(item.value, str(item)) for item in overrides if item.key == f"args.{epoch.NAME}")
    given = (environ or {}, variables, platforms, committed)
    settings = decide(loaded, *given)
    drafts = draft_cells(loaded, settings, overrides, adds=any(map(adds_platforms, sets.overrides)))
    sets_of_cells = list(apart(loaded.recipe, settings, drafts))
    builds = merged_builds(
        settings, drafts, {draft.id: recipe for _, recipe, cells in sets_of_cells for draft in cells}
    )
    groups = []
    for ending, recipe, cells in sets_of_cells:
        own = replace(loaded, recipe=recipe)
        groups.append(_Group(own, decide(own, *given) if recipe != loaded.recipe else settings, cells, ending))
    # A base whose name has variables may have had no registry in the end.
    check_known(variables, set().union(*(of_cells(group.loaded) for group in groups)))
    groups = [_sharing(group, groups) for group in groups]
    plans = [_plan_of(group, groups, builds) for group in groups]
    plan = merged_plan(joined(plans, [draft.id for draft in drafts]), builds)
    check_publish(plan)
    try:
        for_pull_request(plan)
    except UsageError as error:
        raise PlanError(f"ci.pull-request: {error.reason}", hint=error.hint) from error
    names = {name for stage in plan.stages for name in stage.declared}
    check_arguments(overrides, {*names, *plan.global_args, *plan.args, *build_variables(loaded)})
    return replace(plan, origins=settings.origins, overrides=buildx_overrides(overrides, plan.cells))


@dataclass(frozen=True, slots=True)
class _Group:
    """Cells with the same settings: their recipe with its overrides, and the ending of the names of their stages."""

    loaded: Loaded
    settings: Settings
    cells: Sequence[CellDraft]
    ending: str

    def builds_as(self, other: _Group) -> bool:
        """Whether the wheels of two groups are built in the same way; their tests may differ."""
        one, two = self.settings.recipe, other.settings.recipe
        return (one.builder, one.native, one.wheel) == (two.builder, two.native, two.wheel)


def _sharing(group: _Group, groups: Sequence[_Group]) -> _Group:
    """Return the group whose cells name the cell that builds their wheel, which may be of another group."""
    cells = [draft for other in groups if group.builds_as(other) for draft in other.cells]
    found = {draft.id: draft for draft in with_shared_wheels(cells, group.settings)}
    return replace(group, cells=[found[draft.id] for draft in group.cells])


def _plan_of(group: _Group, groups: Sequence[_Group], builds: tuple[Merged, ...]) -> Plan:
    """Return the plan of one of the groups of a recipe's cells."""
    loaded, settings = group.loaded, group.settings
    base = settings.recipe.builder.base
    platforms = tuple(dict.fromkeys(draft.platform for draft in group.cells if is_baked(draft.platform)))
    # Those of all cells with this base: what compiles for some of them is then the same for all.
    with_base = (draft for other in groups if other.settings.recipe.builder.base == base for draft in other.cells)
    pythons = tuple(dict.fromkeys(draft.python for draft in with_base if is_baked(draft.platform)))
    named = parse_value(base.image) if base.image else settings.base_registry
    inputs = StageInputs(
        settings=settings,
        base=bases()["image" if base.image else base.provider],
        request=Request(named, base.digest or "", pythons, platforms),
        toolkits=select_toolkits(settings),
        folder=loaded.folder,
        shared=any(draft.built_by != draft.id and draft.abi3 for other in groups for draft in other.cells),
        native_python=min(pythons, key=python_release) if settings.recipe.native else "",
        secrets=secrets_of(loaded),
        builds=builds,
    )
    # Stages first: they refuse a Python that the base does not have.
    plan = _plan(loaded, inputs, stages(inputs) if platforms else (), finish_cells(inputs, group.cells, group.ending))
    check_names(plan, settings)
    return plan


def _plan(loaded: Loaded, inputs: StageInputs, plan_stages: tuple[Stage, ...], all_cells: Sequence[Cell]) -> Plan:
    recipe, settings = inputs.recipe, inputs.settings
    dockerfile, bakefile, lock = f"dockerfiles/{recipe.name}.Dockerfile", f"bake/{recipe.name}.hcl", _lock_file(loaded)
    own_lock = "" if lock.endswith("bakery.lock") else lock
    cells = tuple(cell for cell in all_cells if is_baked(cell.platform))
    cibuildwheel_cells = tuple(cell for cell in all_cells if not is_baked(cell.platform))
    kinds = IMAGE_KINDS if recipe.image else WHEEL_KINDS
    if recipe.builder.compiler_cache and not recipe.image:
        kinds = (*kinds, Kind.COMPILER_CACHE)
    ignore = ignore_patterns(inputs, (bakefile, dockerfile, f"{dockerfile}.dockerignore", CONTEXT_FOLDER, own_lock))
    return Plan(
        recipe=recipe.name,
        description=recipe.description or "",
        source_file=_source_file(loaded),
        context=".",
        dockerfile=dockerfile,
        bakefile=bakefile,
        variables=(
            *settings.variables,
            *git_variables(plan_stages),
            *secret_variables(inputs.secrets, rust=bool(recipe.builder.rust)),
        ),
        args={item.name: (Ref(item.name),) for item in settings.variables if item.name not in NO_ARGUMENT},
        global_args=_global_args(plan_stages),
        cells=cells,
        kinds=kinds,
        groups=_groups(kinds),
        cache=layer_cache(settings),
        stages=plan_stages,
        ignore=(*ignore, *(("cibuildwheel",) if cibuildwheel_cells else ())),
        audit=_audit(settings, inputs.builds),
        output=recipe.output.directory,
        source_context=source_context(inputs),
        secrets=inputs.secrets,
        network=networked_phases(recipe),
        requested_grants=requested_grants(settings, inputs.secrets),
        foreign=foreign(settings, all_cells),
        cibuildwheel_cells=cibuildwheel_cells,
        cibuildwheel=cibuildwheel(inputs),
        platform_variable=_platform_variable(settings, cells),
        facts=build_facts(inputs, plan_stages),
        shares_slots=compilers_take_slots(inputs),
        origins=settings.origins,
        given=settings.given_arguments,
        workflow=f".github/workflows/bakery-{recipe.name}.yml" if recipe.ci else "",
        ci=workflow_settings(recipe.ci, gpu=recipe.test.gpu) if recipe.ci else None,
        lock=lock,
        unmatched=tuple(unmatched(loaded)),
        max_project_mb=size_mb(limit) if (limit := recipe.wheel.max_project_size) else 0,
        max_growth=int(growth.rstrip(" %")) if (growth := recipe.wheel.max_growth) else None,
    )


def _groups(kinds: Sequence[Kind]) -> dict[str, tuple[Kind, ...]]:
    """Return the groups of a recipe with targets of these kinds; the first kind is the default."""
    groups = {name: members for name, members in GROUPS.items() if set(members) <= set(kinds)}
    return {"default": (kinds[0],)} | {name: members for name, members in groups.items() if name != "default"}


def _platform_variable(settings: Settings, cells: Sequence[Cell]) -> str:
    """Return the variable with the platform of all cells; empty if an override sets another one for a cell."""
    value = next((item.value for item in settings.variables if item.name == settings.platform_variable), "")
    return settings.platform_variable if {cell.platform for cell in cells} == {value} else ""


def _global_args(plan_stages: Sequence[Stage]) -> tuple[str, ...]:
    """Return the arguments that ``FROM`` lines use, without their expansions (``%%.*``)."""
    names = dict.fromkeys(name for stage in plan_stages for name in stage.chosen_by)
    # BuildKit sets TARGETARCH itself.
    return tuple(name for name in names if name != TARGET_ARCH)


def _audit(settings: Settings, builds: Sequence[Merged]) -> Audit:
    wheel, repair = settings.recipe.wheel, settings.recipe.wheel.repair
    name, _, version = (settings.recipe.source.sdist or "").partition("==")
    return Audit(
        name=canonicalize_name(name) if name else "",
        version=version,
        plat=repair.plat,
        excludes=repair.exclude,
        repaired=repair.enabled,
        stripped=repair.enabled and repair.strip,
        namings=namings(settings),
        requires=requires(settings, builds),
        abi3=wheel.abi3 or "",
        py3=wheel.py3,
        torch_abi=wheel.torch_abi or "",
        max_size_mb=size_mb(limit) if (limit := wheel.max_size) else 0,
        variant_label=parse_value(wheel.variants.label or ""),
        variant_properties=parse_table(wheel.variants.properties),
        native=parse_value(settings.recipe.native.into) if settings.recipe.native and not builds else (),
    )


def _lock_file(loaded: Loaded) -> str:
    """Return the lock file: next to the recipe's file; for a recipe outside the project, in the project's root."""
    file = loaded.file
    if file is None or not file.resolve().is_relative_to(loaded.root.resolve()):
        return f"{loaded.recipe.name}.lock"
    name = "bakery.lock" if file.name == PYPROJECT else f"{file.stem}.lock"
    return file.resolve().relative_to(loaded.root.resolve()).with_name(name).as_posix()


def _source_file(loaded: Loaded) -> str:
    if loaded.file is None:
        return f"recipe {loaded.recipe.name}"
    try:
        return loaded.file.resolve().relative_to(loaded.root.resolve()).as_posix()
    except ValueError:
        return f"shipped recipe {loaded.recipe.name}"
