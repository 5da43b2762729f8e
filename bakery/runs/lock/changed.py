"""Which cells have other locked materials than at a revision."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from bakery.core.errors import LockError
from bakery.core.git_command import git
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.resolve.changed_cells import Change
from bakery.runs.lock import lock_file
from bakery.runs.lock.model import Materials


def relocked(root: Path, plan: Plan, change: Change) -> dict[str, str]:
    """Return cell → why it is built: its materials in the lock of the project in ``root`` are not those at the revision.

    A lock that cannot be read counts as changed for all cells.
    """
    path, top = (root / plan.lock).resolve(), change.top.resolve()
    name = path.relative_to(top).as_posix() if path.is_relative_to(top) else ""
    if name not in change.files:
        return {}
    before = git(top, "cat-file", "blob", f"{change.commit}:{name}")
    with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
        old = Path(folder) / "old.lock"
        if before is not None:
            old.write_text(before, encoding="utf-8", errors="surrogateescape")
        try:
            then, now = (lock_file.read(item, plan.lock) for item in (old, path))
        except LockError:
            return {cell.id: f"changed: {plan.lock}" for cell in plan.cells}
    was, has = (lock_file.cells(item) if item else {} for item in (then, now))
    return {
        cell.id: f"its materials in {plan.lock} changed"
        for cell in plan.cells
        if _own(was.get(cell.id), cell) != _own(has.get(cell.id), cell)
    }


def _own(materials: Materials | None, cell: Cell) -> Materials | None:
    """Return the materials of a cell without the base images of others."""
    refs = {image.ref for image in cell.images}
    return materials and replace(
        materials, images={key: digest for key, digest in materials.images.items() if key[0] in refs}
    )
