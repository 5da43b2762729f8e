"""The image with IREE's tools. Bakery ships its recipe, and bakes it when it is first needed.

Bakery also ships the hashes of its packages for the release that the recipe names: `wheel-bakery lock -r RECIPE` without
the materials of one machine (base images and their packages). Other releases are installed without hashes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from bakery.core.cell_ids import MACHINES
from bakery.core.errors import PlanError
from bakery.core.target_kinds import Kind
from bakery.emit.bakefile import bake_json
from bakery.emit.dockerfile import build_digest
from bakery.engine.client import Engine
from bakery.engine.session import EngineSession
from bakery.plan.cells import Target
from bakery.plan.delivery import Override
from bakery.plan.model import Plan
from bakery.recipe.files import shipped
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import SetOptions
from bakery.runs.buildx.board import Listener
from bakery.runs.conclusion import conclusion
from bakery.runs.lock import lock_file
from bakery.runs.lock.differences import requirements_of, stale
from bakery.runs.lock.model import Materials
from bakery.runs.pipeline import bake_plan
from bakery.runs.run_options import Options, PinnedMaterials

RECIPE = "iree-cpu"


def tool_image(
    engine: EngineSession, listener: Listener, version: str, *, recipe: str = RECIPE, machine: str = ""
) -> str:
    """Return the name of the image with IREE's tools; bake it if the engine does not have it.

    Its name has a digest of its recipe, so another recipe is another image. ``version`` is the release of IREE,
    ``recipe`` a shipped recipe, ``machine`` ``x86_64`` or ``aarch64``, empty for the engine's own. Raises BakeryError
    if it cannot be built.
    """
    folder = engine.paths.cache / "images" / recipe
    folder.mkdir(parents=True, exist_ok=True)
    client = Engine(engine.environment)
    # ``docker info`` says x86_64 or aarch64; other engines amd64 or arm64.
    architecture = machine or client.info().architecture
    plan, target = _planned(recipe, version, MACHINES.get(f"linux/{architecture}", architecture), folder)
    name = _name(plan, target, version)
    if not client.has_image(name):
        engine.say(f"baking {name}, which compiles and runs modules; this is done once")
        _bake(folder, plan, target, name, engine, listener)
    return name


def image_name(recipe: str, version: str, machine: str) -> str:
    """Return the name of the image for a recipe, a release of IREE and a machine. It is the same on every computer.

    Raises PlanError if the recipe has none for that machine.
    """
    # A folder that does not exist: in its own folder, the recipe would be a file of the project.
    plan, target = _planned(recipe, version, machine, shipped()[recipe].parent / "nowhere")
    return _name(plan, target, version)


def _planned(recipe: str, version: str, machine: str, folder: Path) -> tuple[Plan, Target]:
    (loaded,) = load(recipe, folder)
    plan = resolve(loaded, SetOptions({"IREE_VERSION": version}))
    targets = [item for item in plan.targets() if item.kind is Kind.IMAGE and MACHINES[item.cell.platform] == machine]
    if not targets:
        platforms = ", ".join(cell.platform for cell in plan.cells)
        raise PlanError(f"recipe {plan.recipe} has no image for {machine}", hint=f"it has {platforms}")
    return plan, targets[0]


def _name(plan: Plan, target: Target, version: str) -> str:
    return f"{plan.recipe}:{version}-{MACHINES[target.cell.platform]}-{_digest(plan, target)}"


def hashes(plan: Plan, target: Target) -> dict[str, Materials]:
    """Return cell → the packages whose hashes Bakery ships; empty if the plan needs other packages."""
    file = shipped()[plan.recipe].with_suffix(".lock")
    lock = lock_file.read(file, file.name)
    locked = lock_file.cells(lock) if lock else {}
    cell = target.cell
    return {} if stale(locked, {cell.id: requirements_of(plan, cell, {})}) else {cell.id: locked[cell.id]}


def _digest(plan: Plan, target: Target) -> str:
    locked = lock_file.text(lock_file.lock_of(plan.recipe, hashes(plan, target)))
    texts = [build_digest(plan), bake_json(plan, (target,))[target.name]["args"], locked]
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:12]


def _bake(folder: Path, plan: Plan, target: Target, name: str, engine: EngineSession, listener: Listener) -> None:
    named = replace(plan, overrides=(*plan.overrides, Override(target.name, "tags", False, name)))
    locked = hashes(plan, target)
    pinned = PinnedMaterials(locked, {}, f"{plan.recipe}.lock of bakery itself") if locked else None
    report = bake_plan(folder, named, Options((Kind.IMAGE.value,), (target.cell.id,), pinned=pinned), engine, listener)
    failed = conclusion([report])
    if failed:
        raise failed
