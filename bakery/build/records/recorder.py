"""Writes down what each wheel of a run is made of, and publishes that before the wheel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from bakery.build.context_digest import files, tree_hash
from bakery.build.lock.materials import read
from bakery.build.publish import publish
from bakery.build.records.buildkit import FOLDER, PROVENANCE, SBOM, Machine, Material, merged, of_buildkit, without_user
from bakery.build.records.materials import packages, requirements
from bakery.build.records.provenance import definition, statement
from bakery.build.records.read import LARGEST
from bakery.core.errors import OutputError
from bakery.core.git import look, origin
from bakery.core.plain_files import read_plain
from bakery.engine.client import Engine
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json


@dataclass
class Recorder:
    """Records of one run; made before it begins, since the source is what it is then.

    Attributes:
        state: the run's folder.
        environment: leads to the engine.
        built_on: returns the node that built a cell, None for the engine; without it all is built on the engine.
        sent: sha256 → package URL, of base images that nodes were sent.
    """

    plan: Plan
    root: Path
    output: Path
    state: Path
    environment: Mapping[str, str]
    built_on: Callable[[Cell], Machine | None] | None = None
    sent: Mapping[str, str] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    source: tuple[Material, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.source = source_materials(self.plan, self.root)

    def publish(self, cell: Cell, wheels: Mapping[Path, str], metadata: Mapping[str, Json], told: Path) -> None:
        """Put the records of a cell's wheels (path → sha256) into the output folder; those that are up to date stay.

        Args:
            metadata: what buildx says of the cell's wheel target.
            told: the folder of what the wheel's ingredients told.

        Raises:
            BakeError: what they told cannot be read.
            OutputError: the folder or a file in it cannot be written.
            EngineError: the engine does not say who it is.
        """
        said = [value for key, value in metadata.items() if key.startswith("buildx.build.provenance")]
        made = read(told)
        materials = merged(
            [*self.source, *(item for one in said for item in of_buildkit(one, self.sent)), *packages(made)]
        )
        defined = definition(self.plan, cell, materials, requirements(made))
        written = [
            path
            for wheel, sha256 in wheels.items()
            if not is_recorded(self.output / FOLDER / f"{wheel.name}{PROVENANCE}", sha256, defined)
            for path in self._write(cell, wheel, sha256, defined, materials)
        ]
        if written:
            publish(written, self.output / FOLDER, root=self.root)

    def _write(
        self, cell: Cell, wheel: Path, sha256: str, defined: Mapping[str, Json], materials: Sequence[Material]
    ) -> tuple[Path, ...]:
        # Slow to import, and needed for new wheels only.
        from bakery.build.records.sbom import sbom
        from bakery.build.records.wheelfile import contents

        folder = self.state / "records" / cell.id
        told = statement(wheel.name, sha256, defined, self._built_by(cell), self.began, datetime.now(UTC))
        epoch = int(self.plan.args_of(cell)["SOURCE_DATE_EPOCH"])
        texts = {
            PROVENANCE: json.dumps(told, indent=1) + "\n",
            SBOM: sbom(wheel.name, sha256, contents(wheel), materials, epoch),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, text in texts.items():
                (folder / f"{wheel.name}{suffix}").write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error}") from error
        return tuple(folder / f"{wheel.name}{suffix}" for suffix in texts)

    def _built_by(self, cell: Cell) -> Machine:
        node = self.built_on(cell) if self.built_on else None
        return replace(node, buildx=self._machine.buildx) if node else self._machine

    @cached_property
    def _machine(self) -> Machine:
        engine = Engine(self.environment)
        info, buildx = engine.info(), engine.buildx_version()
        return Machine(info.version, ".".join(map(str, buildx or ())) or "unknown", f"linux/{info.architecture}")


def source_materials(plan: Plan, root: Path) -> tuple[Material, ...]:
    """Return the project's source as the engine is sent it.

    A source of a repository that the engine clones is among BuildKit's own materials, an archive of the index among
    the packages.

    Raises:
        OutputError: a file of the project cannot be read.
    """
    folders = plan.context_paths()
    return (_own(plan, root, folders),) if folders else ()


def _own(plan: Plan, root: Path, read: Sequence[str]) -> Material:
    context = root / plan.context
    sent = files(context, read, plan.ignore)
    digest = {"dirHash": tree_hash(sent)}
    name = f"source of {plan.recipe}"
    paths: list[Json] = [*sorted(read)]
    checkout = look(context, sent)
    if checkout is None:
        return Material(name, "source", digest=digest, notes={"paths": paths})
    if checkout.changed:
        # What was sent is not that commit.
        changed: list[Json] = [*checkout.changed]
        notes: dict[str, Json] = {"paths": paths, "basedOn": checkout.commit, "changed": changed}
        return Material(name, "source", digest=digest, notes=notes)
    remote = without_user(origin(context))
    uri = f"git+{remote}@{checkout.commit}" if remote else ""
    return Material(name, "source", uri, {"gitCommit": checkout.commit, **digest}, {"paths": paths})


def is_recorded(path: Path, sha256: str, defined: Mapping[str, Json]) -> bool:
    """Say whether a provenance says of a wheel what is to be said: another run of the same changes only its times."""
    try:
        told = json.loads(read_plain(path, LARGEST))
        same = told["subject"][0]["digest"]["sha256"] == sha256 and told["predicate"]["buildDefinition"] == defined
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return same and path.with_name(path.name.removesuffix(PROVENANCE) + SBOM).is_file()
