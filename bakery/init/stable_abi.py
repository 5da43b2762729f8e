"""Which wheels a project builds for several Pythons: abi3 ones, and ``py3-none`` ones. It runs nothing of the project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import BakeryError
from bakery.core.inside import leads
from bakery.core.source_manifest import SourceManifest
from bakery.init.findings import Fact
from bakery.init.read_native import Cargo, NativeBuild, read_cargo, read_meson
from bakery.init.read_python import Metadata, read_metadata
from bakery.init.tree import Tree, scan
from bakery.plan.model import Plan
from bakery.plan.values import expand
from bakery.resolve.rules import project
from bakery.resolve.rules.project import Project

_ABI3 = re.compile(r"cp3(\d{1,2})")
_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "meson.build")


def one_wheel(metadata: Metadata, meson: NativeBuild, cargo: Cargo | None) -> Fact | None:
    """Return the lowest Python of the project's abi3 wheel, such as ``3.9``; ``py3`` for a ``py3-none`` one; None for none."""
    pyproject = metadata.pyproject
    for tag in metadata.wheel_tags:
        if match := _ABI3.fullmatch(tag.text):
            return Fact(f"3.{match[1]}", tag.place)
        if re.fullmatch(r"py3\d{0,2}", tag.text):
            return Fact("py3", tag.place)
    if pyproject.get("tool", "meson-python", "limited-api") is True:
        return meson.abi3
    uses_rust = metadata.needs("setuptools-rust") or metadata.setup.extensions.get("RustExtension")
    if not uses_rust and metadata.backend.text != "maturin":
        return None
    return cargo.abi3 if cargo else None


def read_project(plan: Plan, source: SourceManifest) -> Project:
    """Return what rules need to know of the source of a plan, with its wheel for several Pythons; see `project.read_project`."""
    folder = plan.source_context.folder
    environment = {name: expand(value, {}) for name, value in plan.facts.environment}
    shared = _read_one_wheel(source.folder / folder / plan.facts.subdirectory, environment) if folder else None
    return project.read_project(plan, source, shared and (shared.text, str(shared.place)))


def _read_one_wheel(folder: Path, environment: Mapping[str, str]) -> Fact | None:
    tree = Tree(
        folder,
        names := frozenset(name for name in _FILES if leads(folder / name)),
        tuple(sorted(names)),
        frozenset(),
    )
    try:
        metadata = read_metadata(tree, environment)
        uses_meson = metadata.pyproject.get("tool", "meson-python", "limited-api") is True
        if uses_meson or metadata.pyproject.fact("tool", "maturin", "manifest-path"):
            # The file that says it may be in any folder.
            tree = scan(folder)
        return one_wheel(metadata, read_meson(tree), read_cargo(tree, metadata.pyproject, []))
    except BakeryError:
        return None
