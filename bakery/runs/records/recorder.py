"""Writes the records of each wheel of a run; they are published with the wheel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from bakery.core.addresses import without_credentials
from bakery.core.cell_ids import MACHINES
from bakery.core.errors import BakeError, OutputError
from bakery.core.git import compare_files, origin, tracked_files
from bakery.core.image_names import familiar
from bakery.core.source_manifest import SourceManifest, tree_hash
from bakery.engine.session import EngineSession
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.runs.bake_session import BakeSession
from bakery.runs.lock.model import Materials, read_materials
from bakery.runs.lock.pins import NodeImages
from bakery.runs.records.buildkit import (
    PROVENANCE,
    SBOM,
    Machine,
    Material,
    image_purl,
    merged,
    of_buildkit,
)
from bakery.runs.records.provenance import definition, statement
from bakery.runs.records.read import kept_records, package_materials, place_requirements
from bakery.runs.scheduler import Schedule
from bakery.runs.selection import Selection
from wheel_audit.readers import json_of


@dataclass
class Recorder:
    """Writes the records of one run; create it before the run, because it asks git about the source.

    ``materials``: cell → packages and base images of its wheel, for the cells whose records are written.
    """

    chosen: Selection
    folder: Path
    engine: EngineSession
    session: BakeSession
    node_images: NodeImages | None
    schedule: Schedule
    materials: dict[str, Materials] = field(default_factory=dict, init=False)
    _began: datetime = field(default_factory=lambda: datetime.now(UTC), init=False)
    _source: tuple[Material, ...] = field(init=False)
    _sent: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._source = source_materials(self.chosen.plan, self.chosen.source)
        images = self.node_images
        # sha256 → package URL of the base images that nodes are sent.
        self._sent = {
            layout.digest.removeprefix("sha256:"): image_purl(self.session.image_name(image), image.platform)
            for cell in (self.chosen.task_cells if images else ())
            for image, layout in (images.of(cell) if images else {}).items()
        }

    def write(
        self,
        cell: Cell,
        served: Sequence[Cell],
        wheels: Mapping[Path, str],
        metadata: Mapping[str, Json],
        folder: Path,
        changed: Sequence[str] = (),
    ) -> dict[Path, tuple[Path, Path]]:
        """Write the records of the wheels (path → sha256) that a cell built, in the run's folder; return wheel → records.

        Records in the output folder that have the same facts, and are those that the last run wrote, are copied: only
        their times would change. ``served``: the cells that take the wheels; ``metadata`` is buildx's of the wheel target,
        ``folder`` has the exported materials, ``changed`` are the files of the source that changed while the cells were
        built. Raises BakeError if the materials cannot be read, OutputError if a file cannot be written, and EngineError if
        the engine does not answer.
        """
        exported = read_materials(folder)
        source = [_unknown(item, changed) if changed else item for item in self._source]
        materials = merged([*source, *self._of_buildkit(cell, metadata), *package_materials(exported)])
        self.materials[cell.id] = Materials(self._images(cell, materials), packages=exported.packages)
        defined = definition(self.chosen.plan, cell, materials, place_requirements(exported), served)
        home = self.folder / "records" / cell.id
        written = {}
        try:
            home.mkdir(parents=True, exist_ok=True)
            for wheel, sha256 in wheels.items():
                texts = self._kept(wheel.name, sha256, defined) or self._texts(cell, wheel, sha256, defined, materials)
                written[wheel] = home / f"{wheel.name}{PROVENANCE}", home / f"{wheel.name}{SBOM}"
                for path, text in zip(written[wheel], texts, strict=True):
                    path.write_bytes(text)
        except OSError as error:
            raise OutputError(f"cannot write {home}: {error.strerror or error}") from error
        return written

    def _of_buildkit(self, cell: Cell, metadata: Mapping[str, Json]) -> Iterator[Material]:
        """Yield the materials in buildx's metadata. Raises BakeError if it has none, and the cell has a base image."""
        provenances = [value for key, value in metadata.items() if key.startswith("buildx.build.provenance")]
        if cell.images and not provenances:
            raise BakeError(
                f"{cell.id}: buildx did not say what the wheel was built from, so its record would lack the base image",
                hint="build it again; finished steps are cached",
            )
        for provenance in provenances:
            yield from of_buildkit(provenance, self._sent)

    def _kept(self, name: str, sha256: str, defined: Mapping[str, Json]) -> tuple[bytes, bytes] | None:
        """Return the records of a wheel in the output folder; None if they are to be written."""
        recorded = [item for record in self.chosen.previous.values() for item in record.wheels]
        known = next((item for item in recorded if (item.name, item.sha256) == (name, sha256)), None)
        texts = kept_records(self.chosen.run.output, known) if known else None
        return texts if texts and json_of(texts[0])["predicate"]["buildDefinition"] == defined else None

    def _images(self, cell: Cell, materials: Sequence[Material]) -> dict[tuple[str, str], str]:
        """Return (name in the files, platform) → digest of the base images of a cell that are among its materials."""
        digests = {item.uri: f"sha256:{item.digest.get('sha256', '')}" for item in materials if item.kind == "image"}
        purls = {image: image_purl(familiar(self.session.image_name(image)), image.platform) for image in cell.images}
        return {(image.ref, image.platform): digests[purl] for image, purl in purls.items() if purl in digests}

    def _texts(
        self, cell: Cell, wheel: Path, sha256: str, defined: Mapping[str, Json], materials: Sequence[Material]
    ) -> tuple[bytes, bytes]:
        # Slow to import, and needed for new wheels only.
        from bakery.runs.records.sbom import sbom

        document = statement(wheel.name, sha256, defined, self._built_by(cell), self._began, datetime.now(UTC))
        epoch = int(self.chosen.plan.args_of(cell)["SOURCE_DATE_EPOCH"])
        return (json.dumps(document, indent=1) + "\n").encode(), sbom(wheel, sha256, materials, epoch).encode()

    def _built_by(self, cell: Cell) -> Machine:
        nodes = self.engine.nodes.members if self.engine.nodes else ()
        node = next((node for node in nodes if node.node.name == self.schedule.entries[cell.id].worker), None)
        if node is None:
            return self._machine
        platform = node.platforms[0] if node.platforms else ""
        return Machine(node.version, self._machine.buildx, f"linux/{MACHINES.get(platform, platform)}", "buildkit")

    @cached_property
    def _machine(self) -> Machine:
        info = self.engine.info
        return Machine(info.version, self.engine.buildx, f"linux/{info.architecture}")


def _unknown(source: Material, changed: Sequence[str]) -> Material:
    """Return a source of which nobody knows what a build was sent: no commit, and no hash of its files."""
    notes: dict[str, Json] = {"paths": source.notes["paths"], "changedWhileBuilt": [*changed]}
    return Material(source.name, source.kind, notes=notes)


def source_materials(plan: Plan, source: SourceManifest) -> tuple[Material, ...]:
    """Return the project's source as it is sent to the engine.

    A repository that the engine clones is among BuildKit's materials, an archive of the index among the packages.
    Raises OutputError if a file of the project cannot be read.
    """
    folders = plan.context_paths()
    if not folders:
        return ()
    sent = source.files
    digest = {"dirHash": tree_hash(sent)}
    name = f"source of {plan.recipe}"
    paths: list[Json] = [*sorted(folders)]
    checkout = compare_files(source.folder, sent, source.would_send)
    if checkout is None:
        return (Material(name, "source", digest=digest, notes={"paths": paths}),)
    notes: dict[str, Json] = {"paths": paths}
    if checkout.submodules:
        notes["submodules"] = {**checkout.submodules}
    if left_out := source.left_out(tracked_files(source.folder), plan.source_context.default_ignore):
        notes["notSent"] = [*left_out]
    if checkout.changed:
        # What was sent is not that commit.
        notes |= {"basedOn": checkout.commit, "changed": [*checkout.changed]}
        return (Material(name, "source", digest=digest, notes=notes),)
    remote = without_credentials(origin(source.folder))
    uri = f"git+{remote}@{checkout.commit}" if remote else ""
    return (Material(name, "source", uri, {"gitCommit": checkout.commit, **digest}, notes),)
