"""The provenance of a wheel: an in-toto Statement v1 with a SLSA provenance v1 predicate.

Nothing of the machine is in it: no user, no host, no path, no value of a secret. Both formats are specified at
https://in-toto.io/Statement/v1 and https://slsa.dev/spec/v1.0/provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from bakery import __version__
from bakery.core.addresses import without_credentials
from bakery.core.names import TESTED_TORCH, WHEEL_PYTHON, axis_variable
from bakery.emit.dockerfile import build_digest
from bakery.plan.cells import Cell
from bakery.plan.delivery import Override
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.runs.records.buildkit import Machine, Material

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "tag:wheel-bakery,2026:wheel/v1"
SERVED = "alsoServes"
"""The cells that take the wheel of another one, which was tested for them, without ``wheel.abi3``."""

BUILDER = "tag:wheel-bakery,2026:bakery"

_EFFECTIVE = ("args", "platform", "contexts", "network", "target")
"""Keys of overrides that can change a wheel; the others name caches, tags, outputs and secrets."""


def definition(
    plan: Plan,
    cell: Cell,
    materials: Iterable[Material],
    requirements: Mapping[str, Json] | None = None,
    served: Sequence[Cell] = (),
) -> dict[str, Json]:
    """Return SLSA's buildDefinition: all inputs of the wheel; ``requirements``: place → requirements.

    ``served``: the cells that take the wheel; they are named if the plan does not say so.
    """
    others: list[Json] = [item.id for item in served if item.built_by != cell.id]
    external: dict[str, Json] = {
        "recipe": {"name": plan.recipe, "file": plan.source_file},
        "cell": cell.id,
        "axes": dict(cell.axes),
        "settings": [without_credentials(text) for text in settings(plan, cell)],
        "arguments": {name: without_credentials(value) for name, value in plan.args_of(cell).items()},
        **_before_build(plan.of(cell)),
    }
    internal: dict[str, Json] = {
        "bakery": __version__,
        "dockerfile": {"sha256": build_digest(plan)},
        **({"requirements": dict(requirements)} if requirements else {}),
        **({SERVED: others} if others else {}),
    }
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": external,
        "internalParameters": internal,
        "resolvedDependencies": [_descriptor(item) for item in materials],
    }


def _before_build(plan: Plan) -> dict[str, Json]:
    """Return the recipe's command before the build, which may have changed the source."""
    command = plan.facts.before_build
    command = without_credentials(command)
    return {"beforeBuild": {"command": command, "network": "before-build" in plan.network}} if command else {}


def statement(
    name: str,
    sha256: str,
    defined: Mapping[str, Json],
    machine: Machine,
    began: datetime,
    ended: datetime,
) -> dict[str, Json]:
    """Return the statement about a wheel; ``began``: start of the bake (UTC), ``ended``: when the wheel was ready."""
    versions: dict[str, Json] = {"bakery": __version__, machine.program: machine.engine, "buildx": machine.buildx}
    engine: dict[str, Json] = {
        "name": "engine",
        "uri": f"pkg:generic/{machine.program}@{quote(machine.engine)}",
        "annotations": {"platform": machine.platform},
    }
    run_details: dict[str, Json] = {
        "builder": {"id": BUILDER, "version": versions, "builderDependencies": [engine]},
        "metadata": {"startedOn": _time(began), "finishedOn": _time(ended)},
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha256}}],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": dict(defined), "runDetails": run_details},
    }


def settings(plan: Plan, cell: Cell) -> tuple[str, ...]:
    """Return values of ``--set`` that give the same plan: all that was set, and the time from git."""
    from_axes = {axis_variable(axis): value for axis, value in cell.axes.items()}
    values_set = {name: from_axes.get(name, value) for name, value in plan.given.items()}
    values = plan.values()
    values_set |= {
        f"wheel-{cell.id}.args.{name}": value
        for name, value in cell.args.items()
        if name not in from_axes and name not in (WHEEL_PYTHON, TESTED_TORCH) and values.get(name) != value
    }
    values_set["SOURCE_DATE_EPOCH"] = values["SOURCE_DATE_EPOCH"]
    texts = [f"{name}={value}" for name, value in sorted(values_set.items())]
    return (*texts, *(str(item) for item in plan.overrides if _matters(item)))


def _matters(override: Override) -> bool:
    key = override.key.partition(".")[0]
    # A folder of the machine as context is a path of it; no other machine has it.
    return key in _EFFECTIVE and (key != "contexts" or "://" in override.value)


def _descriptor(material: Material) -> Json:
    """Return in-toto's ResourceDescriptor of a material."""
    descriptor: dict[str, Json] = {"name": material.name}
    descriptor |= {"uri": material.uri} if material.uri else {}
    descriptor |= {"digest": dict(material.digest)} if material.digest else {}
    return descriptor | {"annotations": {"kind": material.kind, **material.notes}}


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
