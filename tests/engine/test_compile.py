"""Modules compiled for real: every kind of target, everything that can go wrong, and nothing compiled twice."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from command import ROOT, bakery, digests
from engines import fresh_engine
from runs import runs_of

from bakery.cli.json_schema import schema
from bakery_iree.models.module import ModuleRecord

pytestmark = [pytest.mark.engine]

DATA = ROOT / "packages/bakery-iree/tests/data/mlir"
TARGETS = (
    *("cpu:generic", "cpu:x86-64-v3", "cpu:host", "cpu:aarch64"),
    *("cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_120", "cuda:sm_90:explicit"),
    *("vulkan", "vulkan:ampere", "metal", "metal:ios", "rocm:gfx942"),
)
SAMPLE = ("cpu:generic", "cpu:host", "cuda:sm_80", "cuda:sm_90:explicit", "vulkan")
"""What needs other steps or other options; all kinds are a proof."""


def copied(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes((DATA / name).read_bytes())


@pytest.mark.parametrize("targets", [SAMPLE, pytest.param(TARGETS, marks=pytest.mark.proof)], ids=["sample", "all"])
def test_every_kind_of_target_in_one_command(tmp_path: Path, targets: tuple[str, ...]) -> None:
    words = [word for name in targets for word in ("--target", name)]
    copied(tmp_path, "matmul.mlir", "softmax.mlir")
    first = bakery(tmp_path, "compile", "matmul.mlir", "softmax.mlir", *words, "-o", "out")
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.vmfb")}
    assert sorted(made) == sorted(
        f"{name}.{t.replace(':', '-')}.vmfb" for name in ("matmul", "softmax") for t in targets
    )
    assert len(first.out.splitlines()) == len(made)
    assert b".target sm_90" in made["matmul.cuda-sm_90-explicit.vmfb"]
    assert b".target sm_80" in made["matmul.cuda-sm_80.vmfb"]
    for name, module in made.items():
        told = json.loads((tmp_path / "out" / name).with_suffix(".json").read_text())
        jsonschema.validate(told, schema("module"))
        assert ModuleRecord.model_validate(told).output.size == len(module)
    # Nothing else: no unfinished file, nothing of the step, no copy of an input.
    assert len(list((tmp_path / "out").iterdir())) == 2 * len(made)
    assert len(list(tmp_path.rglob("*.mlir"))) == 2
    assert not list(runs_of(tmp_path).glob("*/stage"))

    # What is there is kept; what is not is in the engine's cache, also for another folder, time and owner.
    again = bakery(tmp_path, "compile", "matmul.mlir", "softmax.mlir", *words, "-o", "out", "--json")
    fresh = {item["cell"] for item in json.loads(again.out)["modules"] if item["result"] != "kept"}
    # What is made for the machine itself is asked for again.
    assert fresh == {"matmul.cpu-host", "softmax.cpu-host"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "matmul.mlir").write_bytes((DATA / "matmul.mlir").read_bytes())
    (other / "matmul.mlir").chmod(0o600)
    same = [word for target in targets for word in ("--target", target) if target != "cpu:host"]
    cached = bakery(other, "compile", "matmul.mlir", *same, "-o", "out")
    assert not [title for title in cached.ran() if "compile_module" in title]
    assert (other / "out" / "matmul.cuda-sm_80.vmfb").read_bytes() == made["matmul.cuda-sm_80.vmfb"]


def test_broken_inputs_are_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    copied(tmp_path, "matmul.mlir", "bad_syntax.mlir")
    job = {
        "version": 1,
        "output": "out",
        "targets": ["cpu:generic"],
        "modules": [
            {"input": "matmul.mlir"},
            {"input": "bad_syntax.mlir", "name": "bad1"},
            {"input": "unknown.mlir", "name": "bad2"},
            {"input": "dialect.mlir", "name": "bad3"},
            {"input": "types.mlir", "name": "bad4"},
            {"input": "matmul.mlir", "name": "bad5", "flags": ["--iree-no-such-flag"]},
        ],
    }
    body = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  OP\n  return %0 : tensor<4xf32>\n}\n"
    ops = {
        "unknown": "%0 = stablehlo.nothing %a : tensor<4xf32>",
        "dialect": '%0 = "nobody.op"(%a) : (tensor<4xf32>) -> tensor<4xf32>',
        "types": "%0 = stablehlo.add %a, %a : tensor<5xf32>",
    }
    for name, op in ops.items():
        (tmp_path / f"{name}.mlir").write_text(body.replace("OP", op))
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = bakery(tmp_path, "compile", "job.json", code=11)
    assert done.out.splitlines() == [str(tmp_path / "out" / "matmul.cpu-generic.vmfb")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "matmul.cpu-generic.json",
        "matmul.cpu-generic.vmfb",
    ]
    assert "bad_syntax.mlir:2:25: error: " in done.err
    assert "unknown.mlir:2:" in done.err
    assert "types.mlir:2:" in done.err
    assert "5 of 6 modules failed" in done.err
    assert "module.mlir" not in done.err
    # The same failures again come from the cache; alone, each has an exit code of its own.
    assert bakery(tmp_path, "compile", "bad_syntax.mlir", "-t", "cpu:generic", "-o", "o", code=14).err
    crash = bakery(tmp_path, "compile", "dialect.mlir", "-t", "cpu:generic", "-o", "o", code=17)
    assert "the compiler crashed" in crash.err


def test_odd_names_reach_no_shell_and_no_template(tmp_path: Path) -> None:
    odd = "a 'b' \"c\" ${d} $(touch e) %{f}.mlir"
    (tmp_path / odd).write_bytes((DATA / "matmul.mlir").read_bytes())
    bakery(tmp_path, "compile", odd, "-t", "cpu:generic", "-o", "out dir")
    (module,) = (tmp_path / "out dir").glob("*.vmfb")
    assert odd.encode() not in module.read_bytes()
    assert not (tmp_path / "e").exists()


@pytest.mark.proof
def test_two_fresh_engines_make_the_same_bytes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What another machine shares with this one: the release, the flags and the input; neither caches nor images."""
    names = [name for name in TARGETS if name != "cpu:host"]
    words = [word for name in names for word in ("--target", name)]
    people = ({"USER": "ann", "TZ": "UTC"}, {"USER": "bob", "TZ": "Asia/Tokyo"})
    made = []
    for number, (place, who) in enumerate(zip(("one", "a much longer path/other"), people, strict=True)):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        copied(folder, "matmul.mlir", "softmax.mlir")
        with fresh_engine(tmp_path_factory.mktemp("e"), cores=number) as environment:
            done = bakery(
                folder,
                *("compile", "matmul.mlir", "softmax.mlir", *words, "-o", "out"),
                environment={**environment, **who},
                timeout_s=3600,
            )
        assert [title for title in done.ran() if "compile_module" in title]
        made.append(digests(folder / "out", "*.*"))
    assert len(made[0]) == 2 * 2 * len(names)
    assert made[0] == made[1]
