"""What the steps of a run with ``docker buildx bake`` share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from bakery.build.buildx.bake import BakeRequest
from bakery.build.cell_tasks import CellTask
from bakery.build.context import RunContext
from bakery.build.lock.materials import Materials
from bakery.build.lock.pins import context_of
from bakery.build.secrets.mask import Mask
from bakery.build.secrets.read import RunSecrets
from bakery.build.session import BuildSession, Pins
from bakery.engine.nodes import Nodes
from bakery.engine.oci_layouts import Layout
from bakery.engine.session import EngineSession
from bakery.plan.cells import Cell, Image, Target


@dataclass(kw_only=True)
class BakeContext(RunContext):
    """What the steps of a run with buildx share.

    Attributes:
        resources: closed at the end of the run: secrets, the run's folder.
        locked: cell → the materials that its build must use; empty where nothing is locked.
        cache_targets: the targets that carry compiler caches.
    """

    engine: EngineSession
    resources: ExitStack
    locked: Mapping[str, Materials] = field(default_factory=dict)
    cache_targets: tuple[Target, ...] = ()
    secrets: RunSecrets = field(init=False)
    session: BuildSession = field(init=False)
    pins: Pins = field(init=False)

    @property
    def mask(self) -> Mask:
        """The secrets of the run."""
        return self.secrets.mask

    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the builder; None for the one engine."""
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
        """What messages call the lock that the build is held to; empty for none."""
        pinned = self.options.pinned
        return "" if not self.pins.locked else pinned.record if pinned else self.plan.lock

    def request(self, common: BakeRequest, task: CellTask, node: str) -> BakeRequest:
        """Return the request of a task's bake.

        Args:
            common: the request of all tasks.
            node: empty for the one engine.
        """
        materials = self.plan.materials_of(task.targets)
        targets = (*task.targets, *materials)
        sets = [
            *self.pins.overrides_of(targets),
            *(item for target in materials for item in self.plan.materials_overrides(target)),
        ]
        request = replace(common, targets=task.targets, beside=materials, overrides=(*common.overrides, *sets))
        if not (node and self.nodes):
            return request
        layouts = self.layouts(task.cell)
        sets = [
            f"{target.name}.contexts.{context_of(image, target)}={layouts[image].context}"
            for target in targets
            for image in target.images
            if image in layouts
        ]
        return replace(
            request,
            builder=self.nodes.node(node).builder,
            overrides=(*request.overrides, *sets),
            reads=(*request.reads, self.engine.layouts.folder),
        )

    def layouts(self, cell: Cell) -> dict[Image, Layout]:
        """Return the base images of a cell that only the engine of this machine has: nodes are sent them."""
        layouts = {
            image: self.engine.layouts.of(self.session.image_name(image), image.platform) for image in cell.images
        }
        return {image: layout for image, layout in layouts.items() if layout}
