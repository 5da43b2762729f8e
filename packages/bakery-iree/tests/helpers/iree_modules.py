"""Compiled IREE modules of tests/data/modules, with their records."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from bakery_iree.job.resolve import all_targets
from bakery_iree.models.module import ModuleRecord
from bakery_iree.modules import record_text

DATA = Path(__file__).parents[1] / "data" / "modules"
"""A matrix product and a sum of 64×64 float32 for each target, and two functions that give what they take."""

RECORD: dict[str, Any] = {
    "version": 1,
    "name": "matmul",
    "compiler": "3.13.0",
    "runtime": "3.13.0",
    "target": {
        "name": "cpu:x86-64-v3",
        "backend": "cpu",
        "architecture": "x86-64-v3",
        "machine": "x86_64",
        "device": "local-task",
    },
    "flags": [],
    "input": {"name": "matmul.mlir", "sha256": "0" * 64, "size": 1},
    "functions": [],
}


def recorded(folder: Path, source: str = "matmul.cpu-v3", **changes: Any) -> Path:
    """Put a module with a record into a folder; return its path."""
    document = {**RECORD, **changes}
    if target := all_targets().get(document["target"]["name"]):
        document = {**document, "flags": target.flags, **changes}
    path = folder / f"{document['name']}.{document['target']['name'].replace(':', '-')}.vmfb"
    folder.mkdir(exist_ok=True)
    shutil.copy(DATA / f"{source}.vmfb", path)
    content = path.read_bytes()
    output = {"name": path.name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    record = ModuleRecord.model_validate({"output": output, **document})
    path.with_suffix(".json").write_text(record_text(record))
    return path


CUDA = {"name": "cuda:sm_89", "backend": "cuda", "architecture": "sm_89", "device": "cuda"}


def targets(folder: Path) -> None:
    """Put the matmul module of each of six targets into a folder."""
    base = RECORD["target"]
    for name, architecture in (
        ("cpu:generic", "generic"),
        ("cpu:x86-64-v3", "x86-64-v3"),
        ("cpu:x86-64-v4", "x86-64-v4"),
    ):
        recorded(folder, target={**base, "name": name, "architecture": architecture})
    recorded(
        folder, "matmul.cpu-aarch64", target={**base, "name": "cpu:aarch64", "machine": "aarch64", "architecture": ""}
    )
    recorded(folder, "matmul.cuda", target={**CUDA, "name": "cuda:a100", "architecture": "a100"})
    recorded(
        folder, "matmul.vulkan", target={**CUDA, "name": "vulkan:ampere", "backend": "vulkan", "architecture": "ampere"}
    )
