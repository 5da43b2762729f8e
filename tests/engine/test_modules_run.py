"""Compiled modules run for real: validated, measured, bundled. What is run is what iree-compile 3.13.0 wrote."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command import bakery, shell
from iree_modules import DATA, recorded, targets
from runs import runs_of

from bakery_iree.bundle import bundle
from bakery_iree.modules import find_modules
from bakery_iree.npy import npy

pytestmark = pytest.mark.engine

ONES = ["64x64xf32=1"] * 3
"""Of the matrix product and sum: each element is 65."""

CALL = [word for value in ONES for word in ("--input", value)]


@pytest.fixture(scope="module")
def image(
    engine_environment: Mapping[str, str], debian: str, ca_bundle: Path | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Give an image with what a bundle requires, on Debian and nothing else."""
    folder = tmp_path_factory.mktemp("image")
    targets(folder / "out")
    bundle(find_modules([folder / "out"]), folder / "kit")
    name = f"bakery-test/modules:{os.getpid()}"
    build = [
        "docker", "build", "--provenance=false", "--tag", name, "--file",
        f"{Path(__file__).parent}/modules.Dockerfile",
    ]  # fmt: skip
    build += ["--secret", f"id=ca-bundle,src={ca_bundle}"] if ca_bundle else []
    shell(engine_environment, *build, str(folder / "kit"))
    yield name
    shell(engine_environment, "docker", "rmi", "--force", name)


def results(text: str) -> dict[str, dict[str, Any]]:
    return {item["module"]: item for item in json.loads(text)["modules"]}


@pytest.mark.proof
def test_modules_are_validated_by_a_job(tmp_path: Path, image: str) -> None:
    targets(tmp_path / "out")
    recorded(
        tmp_path / "out",
        "ident",
        name="ident",
        target={"name": "cpu", "backend": "cpu", "architecture": "", "machine": "x86_64", "device": "local-task"},
    )
    (tmp_path / "reference.py").write_text(
        "import numpy as np\n\ndef product(a, b, c):\n    return a @ b + c\n\n"
        "def wrong(a, b, c):\n    found = a @ b + c\n    found[3, 5] += 1\n    return found\n\n"
        "def spy(a, b, c):\n    import socket\n    socket.create_connection(('192.0.2.1', 80), 2)\n"
    )
    (tmp_path / "a.npy").write_bytes(npy("float32", (64, 64), b"\0\0\0\x3f" * 64 * 64))
    good = [
        {"inputs": ONES, "expected": ["64x64xf32=65"]},
        {"inputs": ["a.npy", "64x64xf32=2", "64x64xf32=3"], "reference": "reference.py:product"},
    ]
    both = ["3xi32=1 2 3", "7", "bf16=2.5"]
    job: dict[str, Any] = {
        "version": 1,
        "modules": [
            {"input": "matmul.mlir", "checks": good},
            {"input": "ident.mlir", "checks": [{"function": "second", "inputs": both, "expected": both}]},
        ],
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = bakery(tmp_path, "validate", "job.json", "--image", image, "--json")
    found = results(done.out)
    passed = {title for title, item in found.items() if item["status"] == "passed"}
    # x86-64-v4 passes where the machine has AVX-512, and is reported as what it is where it has not.
    assert {"matmul.cpu-generic", "matmul.cpu-x86-64-v3", "ident.cpu"} <= passed
    assert found["matmul.cuda-a100"]["status"] == found["matmul.vulkan-ampere"]["status"] == "not run"
    assert "PTX for sm_80" in found["matmul.cuda-a100"]["inspected"][1]
    assert {check["status"] for check in found["matmul.cuda-a100"]["checks"]} == {"not run"}
    record = json.loads((tmp_path / "out" / "matmul.cpu-generic.json").read_text())
    assert record["validation"] == {key: value for key, value in found["matmul.cpu-generic"].items() if key != "module"}
    assert record["validation"]["runtime"] == "3.13.0"
    assert not list(runs_of(tmp_path).glob("*/stage"))
    # By --strict, what was not run is a failure; and a bundle is written of what did not fail.
    bakery(tmp_path, "validate", "job.json", "--image", image, "--only", "matmul.cuda*", "--strict", code=15)
    bakery(tmp_path, "validate", "job.json", "--image", image, "--only", "matmul.*", "--bundle", "kit.tar")
    assert (tmp_path / "kit.tar").is_file()

    job["modules"] = [
        {
            "input": "matmul.mlir",
            "checks": [
                good[0],
                {"inputs": ONES, "expected": ["64x64xf32=66"], "tolerance": {"float32": {"atol": 1.0}}},
                {"inputs": ONES, "reference": "reference.py:wrong"},
                {"inputs": ONES, "reference": "reference.py:spy"},
                {"inputs": ONES, "reference": "reference.py:none"},
            ],
        }
    ]
    (tmp_path / "job.json").write_text(json.dumps(job))
    failed = bakery(
        tmp_path, "validate", "job.json", "--image", image, "--only", "*generic", "--bundle", "b.tar", code=15
    )
    assert "1 of 4096 elements are wrong: expected 66.0 at [3, 5], got 65.0; largest error 1," in failed.err
    assert "Network is unreachable" in failed.err
    assert "there is no function none" in failed.err
    record = json.loads((tmp_path / "out" / "matmul.cpu-generic.json").read_text())
    assert [check["status"] for check in record["validation"]["checks"]] == ["passed", "passed", *["failed"] * 3]
    assert not (tmp_path / "b.tar").exists()


@pytest.mark.proof
def test_module_for_another_machine_is_told_as_what_it_is(tmp_path: Path, image: str) -> None:
    """The record lies: the code is aarch64's. Without a record, the code itself says for which machine it is."""
    module = tmp_path / "a.vmfb"
    shutil.copy(DATA / "matmul.cpu-aarch64.vmfb", module)
    found = results(
        bakery(tmp_path, "validate", "a.vmfb", *CALL, "--expected", "64x64xf32=65", "--image", image, "--json").out
    )
    assert (found["a"]["status"], found["a"]["emulated"]) == ("not run", False)
    # The machine's number in the ELF file, its name in the archive, and the checksum that goes with it: now the module
    # says that it is for x86-64, and IREE finds out.
    content = module.read_bytes().replace(b"arm_64.so", b"x86_64.so")
    at = content.index(b"\x7fELF")
    with zipfile.ZipFile(module) as archive:
        code = archive.infolist()[1]
    end = at + code.file_size
    patched = content[at : at + 18] + b"\x3e" + content[at + 19 : end]
    old, new = (struct.pack("<I", number) for number in (code.CRC, zlib.crc32(patched)))
    module.write_bytes((content[:at] + patched + content[end:]).replace(old, new))
    done = bakery(tmp_path, "validate", "a.vmfb", *CALL, "--expected", "64x64xf32=65", "--image", image, code=15)
    assert "INCOMPATIBLE" in done.err


@pytest.mark.proof
def test_modules_are_measured_and_compared(tmp_path: Path, image: str) -> None:
    recorded(tmp_path)
    words = ("benchmark", ".", *CALL, "--cores", "0", "--repetitions", "30", "--image", image)
    first = bakery(tmp_path, *words, "--save-baseline", "base.json", "--json")
    (measured,) = results(first.out).values()
    figures = measured["benchmark"]
    assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"] < 10
    assert (figures["repetitions"], figures["warmup"], figures["cores"]) == (30, 10, "0")
    record = json.loads((tmp_path / "matmul.cpu-x86-64-v3.json").read_text())
    assert record["benchmark"] == figures
    # A machine under load is no regression here: the threshold is wide, and the false baseline far away.
    bakery(tmp_path, *words, "--baseline", "base.json", "--threshold", "1000")
    base = json.loads((tmp_path / "base.json").read_text())
    base["benchmarks"][0]["record"]["p50"] /= 1e6
    (tmp_path / "fast.json").write_text(json.dumps(base))
    slower = bakery(tmp_path, *words, "--baseline", "fast.json", code=16)
    assert "times the baseline" in slower.err
    base["benchmarks"][0]["record"]["machine"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(base))
    assert "the machine 'another'" in bakery(tmp_path, *words, "--baseline", "other.json", "--json").out


def test_bundle_runs_where_there_is_nothing_else(
    tmp_path: Path, image: str, engine_environment: Mapping[str, str]
) -> None:
    targets(tmp_path / "out")
    bundle(find_modules([tmp_path / "out"]), tmp_path / "kit.tar")
    script = (
        "cd /tmp && tar -xf - && cd kit && python run.py && "
        "python run.py matmul --input 64x64xf32=1 --input 64x64xf32=2 --input 64x64xf32=3 --output /tmp/o.npy && "
        "python run.py matmul --input /tmp/o.npy --input 64x64xf32=0 --input /tmp/o.npy && "
        "python run.py matmul --target cpu:generic --input 64x64xf32=1 --input 64x64xf32=1 --input 64x64xf32=1; "
        "python run.py matmul --target cpu:aarch64 --input 64x64xf32=1 --input 64x64xf32=1 --input 64x64xf32=1; echo rc $?; "
        "printf x >> modules/matmul.cpu-generic.vmfb; python run.py matmul --target cpu:generic; echo rc $?"
    )
    with (tmp_path / "kit.tar").open("rb") as file:
        done = subprocess.run(
            ["docker", "run", "--rm", "--interactive", "--network=none", image, "sh", "-c", script],
            env=dict(engine_environment),
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    here, chosen = done.stdout.splitlines()[:2]
    level = json.loads(here.removeprefix("this machine: "))["level"]
    best = "cpu:generic" if level < 3 else f"cpu:x86-64-v{level}"
    assert chosen.startswith(f"matmul: {best} of ")
    assert f"run: matmul for {best}" in done.stderr
    assert done.stdout.count("[131. 131. 131. ... 131. 131. 131.]") == 6
    assert done.stdout.count("[65. 65. 65. ... 65. 65. 65.]") == 6
    assert "run: cpu:aarch64 does not load" in done.stderr
    assert "matmul.cpu-generic.vmfb is damaged" in done.stderr
    assert done.stdout.splitlines()[-1] == "rc 1"
