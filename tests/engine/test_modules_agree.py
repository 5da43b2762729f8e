"""What is compiled for several CPUs agrees with numpy, and so with one another: small modules drawn at random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import bakery
from hypothesis import HealthCheck, Phase, given, settings
from small_modules import Small, batches

pytestmark = pytest.mark.engine

TARGETS = ["cpu:generic", "cpu:x86-64-v3", "cpu:host"]


def agree(folder: Path, batch: dict[str, Small], targets: list[str]) -> None:
    """Compile a batch for all targets, and compare all of it with numpy."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    modules = []
    for name, small in batch.items():
        (folder / f"{name}.mlir").write_text(small.text)
        inputs = [f"{name}.{index}.npy" for index in range(len(small.shapes))]
        for place, content in zip(inputs, small.inputs(), strict=True):
            (folder / place).write_bytes(content)
        modules.append({"input": f"{name}.mlir", "checks": [{"inputs": inputs, "reference": f"reference.py:{name}"}]})
    functions = "\n\n".join(small.function(name) for name, small in batch.items())
    (folder / "reference.py").write_text(f"import numpy as np\n\n\n{functions}")
    (folder / "job.json").write_text(json.dumps({"version": 1, "targets": targets, "modules": modules}))
    done = bakery(folder, "compile", "job.json", "--validate", "--json")
    found = json.loads(done.out)["validation"]
    assert len(found) == len(batch) * len(targets)
    for item in found:
        assert item["status"] == "passed", item
        assert all(error["elements"] for check in item["checks"] for error in check["errors"])


_SETTINGS = {"deadline": None, "phases": [Phase.explicit, Phase.generate], "suppress_health_check": list(HealthCheck)}


@pytest.mark.proof
@settings(**_SETTINGS, max_examples=4)
@given(batch=batches(each=6))
def test_many_modules_agree_with_numpy(tmp_path: Path, batch: dict[str, Small]) -> None:
    agree(tmp_path / "batch", batch, [*TARGETS, "cpu:x86-64-v2"])


@pytest.mark.proof
@pytest.mark.usefixtures("emulation")
@settings(**_SETTINGS, max_examples=2)
@given(batch=batches(each=1))
def test_modules_agree_on_another_machine(tmp_path: Path, batch: dict[str, Small]) -> None:
    agree(tmp_path / "batch", batch, ["cpu:aarch64", "cpu:generic"])
