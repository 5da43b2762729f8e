"""What all bakes of one recipe share: plan, environment, secrets, pinned materials."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakery.core.errors import InterruptedBake, reported
from bakery.core.files import write
from bakery.emit.dockerfile import program_texts
from bakery.emit.files import run_texts
from bakery.engine.cache_scope import cache_scope
from bakery.plan.cells import Image, Target
from bakery.plan.model import Plan
from bakery.runs.buildx.bake import BakeRequest, open_bakes
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.cell_tasks import CellTask
from bakery.runs.processes import caught
from bakery.runs.repository import write_repository
from bakery.runs.secrets.mask import Mask
from bakery.toolchains.program_mounts import CONTEXT


def write_run_files(plan: Plan, state: Path) -> str:
    """Write the files of a run into its folder; return the value of ``--set`` that makes its steps mount these programs.

    Programs of the checkout are not used. Raises OutputError if a file cannot be written.
    """
    programs = (state / "bin").absolute()
    folder, texts = state.absolute(), run_texts(plan)
    write(folder, {os.path.relpath(folder / name, folder): text for name, text in texts.items()})
    write_programs(programs, program_texts(plan))
    return f"*.contexts.{CONTEXT}={programs}"


def write_programs(folder: Path, texts: Mapping[str, str]) -> None:
    """Write programs into a folder that steps mount. Raises OutputError if a file cannot be written."""
    write(folder, texts)
    # The modes of the stage: they are part of BuildKit's cache key.
    with reported(f"cannot write {folder}"):
        for path in {folder, *(folder / name for name in texts), *((folder / name).parent for name in texts)}:
            path.chmod(0o755)


@dataclass(frozen=True, slots=True)
class Pins:
    """The inputs that a build must use.

    Attributes:
        overrides: target → values of ``--set`` for its base images and for the context with its packages.
        reads: folders outside the project in the overrides.
        locked: a lock has all of it.
    """

    overrides: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    locked: bool = False

    def overrides_of(self, targets: Sequence[Target]) -> tuple[str, ...]:
        """Return the overrides of some targets."""
        return tuple(item for target in targets for item in self.overrides.get(target.name, ()))


@dataclass(frozen=True, slots=True)
class BakeSession:
    """What the bakes of one recipe share.

    Attributes:
        image_names: (image in the files, platform) → name of the image in the engine.
        variables: of the bake file, besides the plan's.
        reads: files outside the project with secrets.
        record_folder: for the contexts with recorded packages, if a provenance is reproduced.
    """

    root: Path
    plan: Plan
    environment: Mapping[str, str]
    image_names: Mapping[tuple[str, str], str]
    variables: Mapping[str, str]
    listener: Listener
    state_folder: Path
    reads: tuple[Path, ...] = ()
    mask: Mask = field(default_factory=lambda: Mask({}))
    builder: str | None = None
    no_cache: bool = False
    record_folder: Path | None = None

    def image_name(self, image: Image) -> str:
        """Return the engine's name of an image."""
        return self.image_names.get((image.ref, image.platform), image.ref)

    @property
    def scope(self) -> str:
        """The namespace of the cache mounts."""
        is_own = bool(self.plan.source_context.folder)
        return cache_scope(self.environment, self.root, self.plan.recipe, is_own=is_own)

    def request(
        self, targets: Sequence[Target], folder: Path, pins: Pins, *, ignore: tuple[str, ...] | None = None
    ) -> BakeRequest:
        """Write the files of the plan into a run's folder, and return a request that bakes targets with them.

        The committed files may be outdated. ``ignore``: the patterns of files that are not sent; None for the plan's.
        The caller adds the overrides of single targets (`Pins.overrides_of`). Raises OutputError.
        """
        base = folder.absolute()
        plan = replace(
            self.plan,
            dockerfile=str(base / "Dockerfile"),
            bakefile=str(base / "bake.hcl"),
            ignore=self.plan.ignore if ignore is None else ignore,
        )
        programs = write_run_files(plan, folder)
        return BakeRequest(
            root=self.root,
            bakefile=Path(plan.bakefile),
            targets=tuple(targets),
            environment={**self.environment, **pins.environment},
            variables={**self.plan.values(), "DEST": str(folder / "stage"), **self.variables},
            state=folder,
            scope=self.scope,
            overrides=(
                *map(str, self.plan.overrides),
                programs,
                *write_repository(self.root, self.plan, folder, self.environment),
            ),
            builder=self.builder,
            no_cache=self.no_cache,
            reads=(folder, *self.reads, *pins.reads),
            mask=self.mask,
            plan=self.plan,
        )


def request_of_task(common: BakeRequest, task: CellTask, plan: Plan, pins: Pins) -> BakeRequest:
    """Return the request of a task's bake, from the ``common`` one of all tasks."""
    materials = plan.materials_of(task.targets)
    sets = [item for target in materials for item in plan.materials_overrides(target)]
    overrides = (*common.overrides, *pins.overrides_of((*task.targets, *materials)), *sets)
    return replace(common, targets=task.targets, beside=materials, overrides=overrides)


def bake_once(request: BakeRequest, listener: Listener) -> BakeOutcome:
    """Run one bake; the outcome has its failures. Raises InterruptedBake after a signal."""
    ended: list[BakeOutcome] = []
    board = Board({target.name: target.cell.id for target in request.targets})
    with caught() as signals, open_bakes(board, request.logs, signals, listener) as bakes:
        bakes.start(request)
        while not ended:
            ended = [outcome for _, outcome in bakes.turn()]
    if signals.arrived:
        raise InterruptedBake(f"interrupted by {signals.name}: the build was ended", hint="nothing was changed")
    return ended[0]
