"""Writes the records of each wheel of a run, and publishes them before the wheel."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from bakery.build.context import BakeContext
from bakery.build.context_files import files, tree_hash
from bakery.build.lock.model import Materials, read_materials
from bakery.build.publish import publish
from bakery.build.records.buildkit import (
    FOLDER,
    PROVENANCE,
    SBOM,
    Machine,
    Material,
    image_purl,
    merged,
    of_buildkit,
    without_user,
)
from bakery.build.records.provenance import definition, statement
from bakery.build.records.read import MAX_PROVENANCE_BYTES, package_materials, place_requirements
from bakery.build.scheduler import Schedule
from bakery.core.errors import OutputError
from bakery.core.files import read_plain
from bakery.core.git import compare_files, origin
from bakery.core.image_names import familiar
from bakery.core.names import MACHINES, Kind
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json


@dataclass
class Recorder:
    """Writes the records of one run; create it before the run, because it reads the source.

    ``materials``: cell → packages and base images of its wheel, for the cells whose records are written.
    """

    context: BakeContext
    schedule: Schedule
    materials: dict[str, Materials] = field(default_factory=dict, init=False)
    _began: datetime = field(default_factory=lambda: datetime.now(UTC), init=False)
    _source: tuple[Material, ...] = field(init=False)
    _sent: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._source = source_materials(self.context.plan, self.context.root)
        self._sent = _sent_images(self.context)

    def publish(
        self, cells: Sequence[Cell], wheels: Mapping[Path, str], metadata: Mapping[str, Json], folder: Path
    ) -> None:
        """Write the records of wheels (path → sha256) for ``cells`` to the output folder; up-to-date ones stay.

        ``metadata`` is buildx's of the wheel target, ``folder`` has the exported materials. Raises BakeError if the
        materials cannot be read, OutputError if a file cannot be written, and EngineError if the engine does not
        answer.
        """
        output = self.context.output / FOLDER
        cell = next(cell for cell in cells if cell.has(Kind.WHEEL))
        exported = read_materials(folder)
        materials = merged(
            [
                *self._source,
                *(
                    item
                    for key, provenance in metadata.items()
                    if key.startswith("buildx.build.provenance")
                    for item in of_buildkit(provenance, self._sent)
                ),
                *package_materials(exported),
            ]
        )
        self.materials[cell.id] = Materials(self._images(cell, materials), packages=exported.packages)
        defined = definition(
            self.context.plan,
            cell,
            materials,
            place_requirements(exported),
            cells,
            incremental=self.context.options.incremental,
        )
        written = [
            path
            for wheel, sha256 in wheels.items()
            if not is_recorded(output / f"{wheel.name}{PROVENANCE}", sha256, defined)
            for path in self._write(cell, wheel, sha256, defined, materials)
        ]
        if written:
            publish(written, output, root=self.context.root)

    def _images(self, cell: Cell, materials: Sequence[Material]) -> dict[tuple[str, str], str]:
        """Return (name in the files, platform) → digest of the base images of a cell that are among its materials."""
        digests = {item.uri: f"sha256:{item.digest.get('sha256', '')}" for item in materials if item.kind == "image"}
        purls = {
            image: image_purl(familiar(self.context.session.image_name(image)), image.platform) for image in cell.images
        }
        return {(image.ref, image.platform): digests[purl] for image, purl in purls.items() if purl in digests}

    def _write(
        self, cell: Cell, wheel: Path, sha256: str, defined: Mapping[str, Json], materials: Sequence[Material]
    ) -> tuple[Path, ...]:
        # Slow to import, and needed for new wheels only.
        from bakery.build.records.sbom import sbom

        folder = self.context.folder / "records" / cell.id
        document = statement(wheel.name, sha256, defined, self._built_by(cell), self._began, datetime.now(UTC))
        epoch = int(self.context.plan.args_of(cell)["SOURCE_DATE_EPOCH"])
        texts = {
            PROVENANCE: json.dumps(document, indent=1) + "\n",
            SBOM: sbom(wheel, sha256, materials, epoch),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, text in texts.items():
                (folder / f"{wheel.name}{suffix}").write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error}") from error
        return tuple(folder / f"{wheel.name}{suffix}" for suffix in texts)

    def _built_by(self, cell: Cell) -> Machine:
        seats = self.context.nodes.seats if self.context.nodes else ()
        seat = next((seat for seat in seats if seat.node.name == self.schedule.entries[cell.id].seat), None)
        if seat is None:
            return self._machine
        platform = seat.platforms[0] if seat.platforms else ""
        return Machine(seat.version, self._machine.buildx, f"linux/{MACHINES.get(platform, platform)}", "buildkit")

    @cached_property
    def _machine(self) -> Machine:
        info = self.context.engine.info
        return Machine(info.version, self.context.engine.buildx, f"linux/{info.architecture}")


def _sent_images(context: BakeContext) -> dict[str, str]:
    """Return sha256 → package URL of the base images that nodes are sent."""
    if not context.nodes:
        return {}
    return {
        layout.digest.removeprefix("sha256:"): image_purl(context.session.image_name(image), image.platform)
        for cell in context.task_cells
        for image, layout in context.layouts(cell).items()
    }


def source_materials(plan: Plan, root: Path) -> tuple[Material, ...]:
    """Return the project's source as it is sent to the engine.

    A repository that the engine clones is among BuildKit's materials, an archive of the index among the packages.
    Raises OutputError if a file of the project cannot be read.
    """
    folders = plan.context_paths()
    if not folders:
        return ()
    context = root / plan.context
    sent = files(context, folders, plan.ignore)
    digest = {"dirHash": tree_hash(sent)}
    name = f"source of {plan.recipe}"
    paths: list[Json] = [*sorted(folders)]
    checkout = compare_files(context, sent)
    if checkout is None:
        return (Material(name, "source", digest=digest, notes={"paths": paths}),)
    if checkout.changed:
        # What was sent is not that commit.
        changed: list[Json] = [*checkout.changed]
        notes: dict[str, Json] = {"paths": paths, "basedOn": checkout.commit, "changed": changed}
        return (Material(name, "source", digest=digest, notes=notes),)
    remote = without_user(origin(context))
    uri = f"git+{remote}@{checkout.commit}" if remote else ""
    return (Material(name, "source", uri, {"gitCommit": checkout.commit, **digest}, {"paths": paths}),)


def is_recorded(path: Path, sha256: str, defined: Mapping[str, Json]) -> bool:
    """Return whether a provenance already has these facts of a wheel: a second run only changes its times."""
    try:
        document = json.loads(read_plain(path, MAX_PROVENANCE_BYTES))
        same = (
            document["subject"][0]["digest"]["sha256"] == sha256 and document["predicate"]["buildDefinition"] == defined
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return same and path.with_name(path.name.removesuffix(PROVENANCE) + SBOM).is_file()
