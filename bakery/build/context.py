"""What the steps of a run share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.build.cell_tasks import CellTask
from bakery.build.context_files import context_stamp
from bakery.build.journal import Record
from bakery.build.lock.model import Materials
from bakery.build.options import Options
from bakery.build.secrets.mask import Mask
from bakery.build.shared_wheels import Families
from bakery.plan.cells import Cell, Image, Target
from bakery.plan.model import Plan, ignored_output

if TYPE_CHECKING:
    from bakery.build.buildx.bake import BakeRequest
    from bakery.build.session import BuildSession, Pins
    from bakery.engine.image_digests import PresentImages
    from bakery.engine.nodes import Nodes
    from bakery.engine.oci_layouts import Layout
    from bakery.engine.session import EngineSession


@dataclass(kw_only=True)
class RunContext:
    """What the steps of a run share, with any backend; each step adds its results.

    Attributes:
        environment: of the process, with the address of the engine.
        previous: cell → its record of the last run.
        tasks: name → task; finished ones are removed.
        finished: cell → its record, if it is not built again.
        keys: cell → digest of its inputs.
        stamp: of the files that steps read, before they were read for the keys; empty if nobody looks at it.
        contents: file that steps read → the begin of its digest, and its mode.
        locked: cell → the materials that its build must use.
        wheel_of: cell → the cell whose wheel it takes without ``wheel.abi3``: as the last run found, then this one.
        times: cell → what its steps do → seconds, as they took when they last ran: in earlier runs, then in this one.
        families: of the tasks, if the backend can test a wheel that another task built.
    """

    root: Path
    plan: Plan
    options: Options
    environment: Mapping[str, str]
    say: Callable[[str], None]
    state_folder: Path
    previous: Mapping[str, Record]
    targets: tuple[Target, ...] = ()
    tasks: dict[str, CellTask] = field(default_factory=dict)
    finished: dict[str, Record] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    stamp: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    locked: Mapping[str, Materials] = field(default_factory=dict)
    wheel_of: dict[str, str] = field(default_factory=dict)
    times: dict[str, Mapping[str, float]] = field(default_factory=dict)
    families: Families = field(default_factory=dict)
    folder: Path = field(init=False)

    @cached_property
    def present_images(self) -> PresentImages:
        """The digests of images that a bake takes from the engine."""
        from bakery.engine.image_digests import PresentImages

        return PresentImages(self.environment, self.options.builder)

    @property
    def output(self) -> Path:
        """The folder that receives wheels."""
        return self.options.output or self.root / self.plan.output

    @property
    def ignore(self) -> tuple[str, ...]:
        """The patterns of files that never enter the build context, with the output folder: its wheels are no input."""
        output, root = self.output.absolute(), self.root.absolute()
        inside = output.is_relative_to(root)
        pattern = ignored_output(output.relative_to(root).as_posix()) if inside else ""
        return (*self.plan.ignore, *((pattern,) if pattern and pattern not in self.plan.ignore else ()))

    def stamp_now(self) -> str:
        """Return the stamp of the files that steps read. Raises OutputError if one cannot be read."""
        return context_stamp(self.root / self.plan.context, self.plan.context_paths(), self.ignore)

    @property
    def mask(self) -> Mask:
        """The secrets that must not be in a wheel or a log."""
        return Mask({})

    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the builder; None for the engine."""
        return None

    @property
    def peaks(self) -> dict[str, int]:
        """Cell → MB that it needed in an earlier run."""
        return {name: record.memory for name, record in self.previous.items()}

    @property
    def keeps_going(self) -> bool:
        """Whether a failed cell stops only the cells that depend on it."""
        return len(self.tasks) > 1 if self.options.keep_going is None else self.options.keep_going


@dataclass(kw_only=True)
class BakeContext(RunContext):
    """What the steps of a run with buildx share."""

    engine: EngineSession
    resources: ExitStack
    cache_targets: tuple[Target, ...] = ()
    session: BuildSession = field(init=False)
    pins: Pins = field(init=False)

    @property
    def mask(self) -> Mask:
        """The secrets of the run."""
        return self.session.mask

    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the builder; None for the engine."""
        return self.engine.nodes

    @property
    def task_targets(self) -> list[Target]:
        """The targets of all tasks."""
        return [target for task in self.tasks.values() for target in task.targets]

    @property
    def task_cells(self) -> list[Cell]:
        """The cells of all tasks."""
        return [task.cell for task in self.tasks.values()]

    @property
    def lock_name(self) -> str:
        """The name in messages of the lock that the build must use; empty for none."""
        pinned = self.options.pinned
        return "" if not self.pins.locked else pinned.record if pinned else self.plan.lock

    def request(self, common: BakeRequest, task: CellTask, node: str) -> BakeRequest:
        """Return the request of a task's bake, from that of all tasks; ``node`` is empty for the engine."""
        materials = self.plan.materials_of(task.targets)
        targets = (*task.targets, *materials)
        sets = [
            *self.pins.overrides_of(targets),
            *(item for target in materials for item in self.plan.materials_overrides(target)),
        ]
        request = replace(common, targets=task.targets, beside=materials, overrides=(*common.overrides, *sets))
        if not (node and self.nodes):
            return request
        sets = [item for sets in self.image_overrides(targets).values() for item in sets]
        return replace(
            request,
            builder=self.nodes.node(node).builder,
            overrides=(*request.overrides, *sets),
            reads=(*request.reads, self.engine.layouts.folder),
        )

    def pins_on_node(self, targets: Sequence[Target]) -> Pins:
        """Return the pins of targets that a node builds."""
        sets = self.image_overrides(targets)
        overrides = {name: (*self.pins.overrides.get(name, ()), *more) for name, more in sets.items()}
        return replace(self.pins, overrides=overrides, reads=(*self.pins.reads, self.engine.layouts.folder))

    def image_overrides(self, targets: Sequence[Target]) -> dict[str, list[str]]:
        """Return target → values of ``--set`` that send a node the base images which only this machine's engine has."""
        from bakery.build.lock.pins import context_of

        sets: dict[str, list[str]] = {}
        for target in targets:
            layouts = self.layouts(target.cell)
            sets[target.name] = [
                f"{target.name}.contexts.{context_of(image, target)}={layouts[image].context}"
                for image in target.images
                if image in layouts
            ]
        return sets

    def layouts(self, cell: Cell) -> dict[Image, Layout]:
        """Return the base images of a cell that only this machine's engine has; they are sent to nodes."""
        layouts = {
            image: self.engine.layouts.of(self.session.image_name(image), image.platform) for image in cell.images
        }
        return {image: layout for image, layout in layouts.items() if layout}
