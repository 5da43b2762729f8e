"""The cells of a recipe: their ids, build arguments, base images and releases, and which cell builds whose wheel."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bakery.core.cell_ids import is_baked
from bakery.core.errors import PlanError
from bakery.core.names import TESTED_TORCH, WHEEL_PYTHON, axis_variable, with_derived
from bakery.plan.cells import Cell, Image, Need
from bakery.plan.delivery import Override
from bakery.plan.values import names_in
from bakery.recipe.load import Loaded
from bakery.recipe.models.text import REFERENCE
from bakery.recipe.problems import nearest
from bakery.resolve.matrix import CellDraft, combinations, identifiers, matches
from bakery.resolve.origins import place
from bakery.resolve.select_toolkits import needed_releases
from bakery.resolve.set_option import check_patterns, override_platforms, selects
from bakery.resolve.settings import PLATFORM_OVERRIDE, Settings, check_releases, check_values
from bakery.resolve.stage_inputs import StageInputs


def draft_cells(
    loaded: Loaded, settings: Settings, overrides: Sequence[Override], *, adds: bool = False
) -> tuple[CellDraft, ...]:
    """Return the cells of the matrix with the build arguments that overrides of single cells set.

    ``adds``: the platforms of the command line are added to those of the recipe.

    Raises:
        UsageError: an override matches no target, or gives a cell another platform than its id has.
        PlanError: the matrix has no cells or too many, none of them is for Linux, or a value is not valid.
    """
    matrix = loaded.recipe.matrix
    points = combinations(settings.axes, matrix.exclude, _included(loaded, settings, adds=adds), len(matrix.overrides))
    check_releases(points)
    drafts = [CellDraft(cell_id, axes) for cell_id, axes in zip(identifiers(points), points, strict=True)]
    check_patterns(overrides, [draft.id for draft in drafts])
    drafts = override_platforms(drafts, overrides)
    if not any(is_baked(draft.platform) for draft in drafts):
        raise PlanError(
            f"no platform is a Linux platform: {', '.join(sorted({draft.platform for draft in drafts}))}",
            hint="Bakery builds on Linux, and its other wheels follow that recipe: add linux/amd64 or linux/arm64",
        )
    # The environment and --set take precedence over the recipe's overrides.
    for_axes = [
        (item.where, {name: value for name, value in item.variables.items() if name not in settings.given})
        for item in matrix.overrides
    ]
    for_ids = [
        (item.pattern, {item.key.removeprefix("args."): item.value})
        for item in overrides
        if item.key.startswith("args.")
    ]
    _check_args(settings, [args for _, args in (*for_axes, *for_ids)])
    axis_variables = {axis: axis_variable(axis) for axis in settings.axes if axis != "platform"}

    def with_args(draft: CellDraft) -> CellDraft:
        args = {variable: draft.axes[axis] for axis, variable in axis_variables.items()}
        for where, values in for_axes:
            args |= values if matches(where, draft.axes) else {}
        for pattern, values in for_ids:
            args |= values if selects(pattern, draft.id) else {}
        return replace(draft, args=args)

    return tuple(map(with_args, drafts))


def unmatched(loaded: Loaded) -> Iterator[str]:
    """Yield the entries of ``matrix.exclude`` and ``matrix.overrides`` that match no value of the recipe's own axes."""
    recipe, matrix = loaded.recipe, loaded.recipe.matrix
    own = {"python": matrix.python, **matrix.axes, "platform": recipe.platforms}
    excluded = ((f"matrix.exclude[{index}]", entry) for index, entry in enumerate(matrix.exclude))
    overridden = ((f"matrix.overrides[{index}].where", item.where) for index, item in enumerate(matrix.overrides))
    for path, entry in (*excluded, *overridden):
        # What is included is not excluded.
        more = matrix.include if path.endswith(".where") else ()
        for axis, glob in entry.items():
            values = (*own[axis], *(item[axis] for item in more if axis in item))
            # The platforms of a variable are those of whoever builds.
            if any(fnmatch.fnmatchcase(value, glob) or REFERENCE.search(value) for value in values):
                continue
            near = next((value for value in values if value.startswith(glob)), None) or nearest(glob, values)
            meant = f"; did you mean {near!r}?" if near else f", only {', '.join(values)}"
            yield f"{place(loaded, path)}: {path}: axis {axis} has no {glob!r}{meant}"


def _included(loaded: Loaded, settings: Settings, *, adds: bool) -> list[dict[str, str]]:
    """Return ``matrix.include`` with the values that the environment and the command line give axes; ``adds``: platforms are added."""
    names = {axis: axis_variable(axis) for axis in settings.axes} | {"platform": PLATFORM_OVERRIDE}
    given = {axis: values for axis, values in settings.axes.items() if names[axis] in settings.given}
    if adds:
        given.pop("platform", None)
    return [
        {axis: given[axis][0] if axis in given and value not in given[axis] else value for axis, value in entry.items()}
        for entry in loaded.recipe.matrix.include
    ]


def with_shared_wheels(drafts: Sequence[CellDraft], settings: Settings) -> tuple[CellDraft, ...]:
    """Return cells of one recipe with the cell that builds their wheel. Raises PlanError if a torch is too old to share."""
    wheel = settings.recipe.wheel
    floor = wheel.torch_abi or ""
    if floor:
        _check_torch(drafts, settings, floor)
    return share_wheels(drafts, "3.0" if wheel.py3 else wheel.abi3 or "", floor, py3=wheel.py3)


def _check_torch(drafts: Sequence[CellDraft], settings: Settings, floor: str) -> None:
    """Raise PlanError if a cell's torch is older than the recipe promises."""
    variable = next((item.value for item in settings.variables if item.name == axis_variable("torch")), "")
    releases = {draft.args.get(axis_variable("torch"), variable) for draft in drafts}
    if older := sorted(item for item in releases if _torch_release(item) < _torch_release(floor)):
        raise PlanError(
            f"wheel.torch-abi is {floor}, and the matrix has torch {', '.join(older)}",
            hint=f"lower wheel.torch-abi, or build for torch {floor} and newer only",
        )


def _check_args(settings: Settings, args: Sequence[Mapping[str, str]]) -> None:
    """Raise PlanError if an override of single cells sets an invalid value, or contradicts the id of a cell."""
    axis_variables = {axis_variable(axis) for axis in settings.axes}
    for name in (name for values in args for name in values if name in axis_variables):
        raise PlanError(
            f"{name} is an axis: a cell's id has its value, so no single cell can have another one",
            hint=f"select cells with --only, or set the axis for all cells: --set {name}=…",
        )
    variables = {item.name: item for item in settings.variables}
    check_values(
        replace(variables[name], value=value) for values in args for name, value in values.items() if name in variables
    )


def finish_cells(inputs: StageInputs, drafts: Sequence[CellDraft], own: str = "") -> tuple[Cell, ...]:
    """Return the cells with their base images and the releases that they need from the package index.

    Raises:
        PlanError: a base image or a toolkit lacks what a cell needs.
    """
    values = {item.name: item.value for item in inputs.settings.variables}
    image_variables = names_in((inputs.request.image,))
    images: dict[tuple[str, ...], tuple[Image, ...]] = {}
    needs: dict[str, tuple[Need, ...]] = {}
    cells = []
    for draft in drafts:
        # In the order of their use: the Pythons that compile, build the wheel, and test it.
        pythons = (inputs.native_python or draft.wheel_python, draft.wheel_python, draft.python)
        args = with_derived({**values, **draft.args}) if image_variables else {}
        key = (*pythons, draft.platform, *(args[name] for name in image_variables))
        if key not in images:
            is_linux = is_baked(draft.platform)
            images[key] = tuple(dict.fromkeys(_images(inputs, pythons, draft.platform, args))) if is_linux else ()
        cuda = draft.args.get("CUDA_VERSION", values.get("CUDA_VERSION", ""))
        if cuda not in needs:
            needs[cuda] = needed_releases(inputs.settings, inputs.toolkits, cuda)
        cell_args = {**draft.args, WHEEL_PYTHON: draft.wheel_python} if inputs.shared else draft.args
        more = (images[key], needs[cuda], draft.built_by, draft.abi3, own)
        cells.append(Cell(draft.id, draft.axes, cell_args, *more))
    return tuple(cells)


def _images(inputs: StageInputs, pythons: Sequence[str], platform: str, args: Mapping[str, str]) -> Iterator[Image]:
    """Yield the base images of a cell: those that build its wheel, then that of its test."""
    *builders, tester = pythons
    for python in builders:
        yield inputs.base.image(inputs.request, python, "" if inputs.crosses else platform, args)
    image = inputs.base.image(inputs.request, tester, platform, args)
    yield replace(image, tests=True) if inputs.crosses else image


def python_release(python: str) -> tuple[int, ...]:
    """Return a Python version for comparisons: ``3.13t`` → (3, 13)."""
    return tuple(map(int, python.removesuffix("t").split(".")))


def _torch_release(torch: str) -> tuple[int, ...]:
    """Return a torch release for comparisons: ``2.11.0+cu130`` → (2, 11, 0)."""
    return tuple(map(int, torch.partition("+")[0].split(".")))


def share_wheels(
    drafts: Sequence[CellDraft], floor: str, torch_floor: str = "", *, py3: bool = False
) -> tuple[CellDraft, ...]:
    """Return the cells with the cell that builds their wheel: of cells that differ only in their Python or their torch,
    that with the lowest.

    Cells that also differ in other build arguments build their own wheels, but with the same Python and torch, since the
    tested wheel is the published one. ``floor`` is the lowest Python of wheels with Python's stable ABI, ``torch_floor``
    the oldest torch of those with torch's; empty if the project has none. ``py3``: free-threaded Pythons take the wheel, too.
    """

    def shared_axes(draft: CellDraft) -> tuple[str, ...]:
        # A free-threaded Python loads no abi3 module.
        loads = (
            floor and (py3 or not draft.python.endswith("t")) and python_release(draft.python) >= python_release(floor)
        )
        return (*(["python"] if loads else []), *(["torch"] if torch_floor and "torch" in draft.axes else []))

    lowest: dict[object, CellDraft] = {}
    builders: dict[object, str] = {}
    for draft in sorted(drafts, key=_order):
        if shared := shared_axes(draft):
            lowest.setdefault(_axes_key(draft, shared), draft)
            builders.setdefault(_build_key(draft, shared), draft.id)
    return tuple(
        _shared_draft(draft, shared, lowest[_axes_key(draft, shared)], builders[_build_key(draft, shared)])
        if (shared := shared_axes(draft))
        else draft
        for draft in drafts
    )


def _shared_draft(draft: CellDraft, shared: Sequence[str], lowest: CellDraft, built_by: str) -> CellDraft:
    torch = axis_variable("torch")
    args = (
        {**draft.args, torch: lowest.args[torch], TESTED_TORCH: draft.axes["torch"]}
        if "torch" in shared
        else draft.args
    )
    return replace(draft, args=args, built_by=built_by, wheel_python=lowest.python, abi3="python" in shared)


def _order(draft: CellDraft) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    return _torch_release(draft.axes.get("torch", "0")), python_release(draft.python), draft.python.endswith("t")


def _axes_key(draft: CellDraft, shared: Sequence[str]) -> object:
    return tuple(shared), _without(draft.axes, shared)


def _build_key(draft: CellDraft, shared: Sequence[str]) -> object:
    return _axes_key(draft, shared), _without(draft.args, [axis_variable(axis) for axis in shared])


def _without(values: Mapping[str, str], names: Sequence[str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in values.items() if key not in names)
