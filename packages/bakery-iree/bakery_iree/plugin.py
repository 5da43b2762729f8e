"""What ``wheel-bakery`` gets from this distribution: `bakery.cli.plugins.Plugin`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from bakery.cli.plugins import Entry
from bakery_iree.errors import EXIT_CODES

if TYPE_CHECKING:
    from bakery.plan.delivery import Repository


class Modules:
    """The commands for IREE modules."""

    title: str = "IREE modules"
    commands: Mapping[str, Entry] = MappingProxyType(
        {
            "compile": Entry("Compile MLIR modules.", "bakery_iree.commands.compile:compile_"),
            "validate": Entry(
                "Run compiled modules and compare their results.", "bakery_iree.commands.modules:validate"
            ),
            "benchmark": Entry(
                "Measure the latency and throughput of compiled modules.", "bakery_iree.commands.modules:benchmark"
            ),
        }
    )
    exit_codes: Mapping[int, str] = MappingProxyType(EXIT_CODES)

    def schemas(self) -> Mapping[str, Mapping[str, object]]:
        """Return the schemas of jobs and of the records of modules."""
        from bakery.cli.json_schema import schema_of
        from bakery_iree.models.job import Job
        from bakery_iree.models.module import ModuleRecord

        return {"job": schema_of(Job), "module": schema_of(ModuleRecord, by_users=False)}

    def files(self, folder: Path, repository: Repository) -> Mapping[str, str]:
        """Return the workflow of the jobs of a workspace."""
        from bakery_iree.workspace import workflow_files

        return workflow_files(folder, repository)


plugin = Modules()
