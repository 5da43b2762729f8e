"""Tests on a GPU: what the bake leaves out, the folder of the tests, the records, and what ``verify`` refuses."""

from __future__ import annotations

import json
from ctypes.util import find_library
from pathlib import Path

import pytest
from gpu_tests import RECIPE, planned
from typer.testing import CliRunner
from wheels import write_wheel

from bakery.cli.app import app
from bakery.core.errors import AuditError, OutputError, PlanError, UnavailableError, UsageError
from bakery.emit.dockerfile import dockerfile
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.release.gpu_record import gpu_fault, planned_tests
from bakery.release.gpu_test import prepare, run
from bakery.release.verify import verify
from wheel_audit.plain_files import file_sha256

TAG = "py3-none-manylinux_2_17_x86_64"


def test_the_bake_leaves_the_command_out(tmp_path: Path) -> None:
    with_gpu = dockerfile(planned(tmp_path))
    without = dockerfile(planned(tmp_path, RECIPE.replace("gpu = true", "")))
    assert "tests/one" not in with_gpu
    assert "tests/one" in without
    assert "--import demo" in with_gpu


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "demo"\n[test]\ngpu = true\n', "there is no test.command"),
        ('name = "demo"\n[ci]\ngpu-runner = "big"\n', "no test needs a GPU"),
        (
            'name = "demo"\n[ci.test-publish]\nenvironment = "testpypi"\nurl = "https://host/legacy/"\n',
            "nothing is published after it",
        ),
    ],
)
def test_settings_that_contradict_each_other(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        planned(tmp_path, text)


def test_the_job_runs_before_everything_is_published(tmp_path: Path) -> None:
    planned(tmp_path, RECIPE + '[ci]\ngpu-runner = "gpu-t4"\npublish = "pypi"\npages = true\ngithub-release = true\n')
    result = CliRunner().invoke(app, ["-C", str(tmp_path), "generate"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / ".github/workflows/bakery-demo.yml").read_text()
    assert "runs-on: gpu-t4" in text
    assert "verify --require-gpu-test" in text
    assert text.count("needs: [wheels, gpu-test") == 4


def record_of(plan: Plan, wheel: Path, **changes: Json) -> Path:
    record: dict[str, Json] = {
        "format": 2,
        "sha256": file_sha256(wheel),
        "gpus": [{"name": "G"}],
        "result": "passed",
        "fault": "",
        "tests": planned_tests(plan, plan.cells[0]),
    }
    path = wheel.parent / ".provenance" / f"{wheel.name}.gpu-test.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**record, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"sha256": "0" * 64}, "is about another file"),
        ({"result": "failed", "fault": "test command"}, "failed its test on a GPU: test command"),
        ({"gpus": []}, "is no record"),
        ({"format": 1}, "is no record"),
        ({"tests": "none"}, "is about other tests"),
        ({"tests": []}, "is about other tests"),
        ({"tests": [{"load": True, "imports": ["demo"], "command": "true"}]}, "is about other tests"),
    ],
)
def test_records_that_are_refused(tmp_path: Path, changes: dict[str, Json], fault: str) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    record_of(plan, wheel, **changes)
    found = gpu_fault(plan, wheel)
    assert fault in found if fault else not found


def test_no_record_and_no_json(tmp_path: Path) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    assert "was not tested" in gpu_fault(plan, wheel)
    record_of(plan, wheel).write_text("[" * 100_000)
    assert "is no record" in gpu_fault(plan, wheel)


def test_verify_demands_the_record(tmp_path: Path) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    with pytest.raises(AuditError) as without:
        verify([plan], [wheel], tmp_path / "memory", gpu=True)
    assert any("was not tested on a GPU" in line for line in without.value.details)
    record_of(plan, wheel)
    assert verify([plan], [wheel], tmp_path / "memory", gpu=True).wheels == 1


def test_verify_without_such_a_recipe(tmp_path: Path) -> None:
    planned(tmp_path, RECIPE.replace("gpu = true", ""))
    wheel = write_wheel(tmp_path, TAG)
    result = CliRunner().invoke(app, ["-C", str(tmp_path), "verify", "--require-gpu-test", str(wheel)])
    assert isinstance(result.exception, UsageError)


def test_wheels_of_other_recipes(tmp_path: Path) -> None:
    plan = planned(tmp_path, RECIPE.replace("gpu = true", ""))
    with pytest.raises(UsageError, match="no wheel to test"):
        prepare([(tmp_path, plan)], [write_wheel(tmp_path, TAG)], tmp_path / "tests-folder")


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has a driver of NVIDIA")
def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    folder = tmp_path / "prepared"
    with pytest.raises(UnavailableError, match="cannot test the wheels"):
        run(folder, prepare([(tmp_path, plan)], [wheel], folder), installed=True)


def test_what_a_checkout_links_to_is_not_carried_away(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("topsecret")
    project = tmp_path / "project"
    project.mkdir()
    plan = planned(project, RECIPE.replace('["tests"]', '["tests", "k"]'))
    wheel = write_wheel(project, TAG)
    (project / "k").write_text("k")
    (project / "tests" / "inner").symlink_to("one")
    folder = tmp_path / "prepared"
    prepare([(project, plan)], [wheel], folder)
    assert (folder / "files/demo/tests/inner").read_text() == "1"
    assert (folder / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    for number, name in enumerate(("tests/one", "tests", "k")):
        (project / name).rename(tmp_path / f"old{number}")
        (project / name).symlink_to(secret.parent if name == "tests" else secret)
        with pytest.raises(OutputError, match="link"):
            prepare([(project, plan)], [wheel], tmp_path / f"prepared{number}")
        (project / name).unlink()
        (tmp_path / f"old{number}").rename(project / name)
    assert not any(path.read_bytes() == b"topsecret" for path in tmp_path.glob("prepared*/**/*") if path.is_file())


def test_the_record_is_neither_read_nor_written_through_a_link(tmp_path: Path) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    victim, folder = tmp_path / "victim", tmp_path / "prepared"
    victim.write_text("mine")
    prepare([(tmp_path, plan)], [wheel], folder)
    (folder / "run.py").write_text("")
    (folder / "records").mkdir()
    record = folder / "records" / f"{wheel.name}.gpu-test.json"
    record.write_text("{}")
    kept = wheel.parent / ".provenance" / record.name
    kept.parent.mkdir(exist_ok=True)
    kept.symlink_to(victim)
    with pytest.raises(OutputError, match="is a link"):
        run(folder, [wheel], installed=True)
    kept.unlink()
    run(folder, [wheel], installed=True)
    assert kept.read_text() == "{}"
    record.unlink()
    record.symlink_to(victim)
    with pytest.raises(OutputError, match="is a link"):
        run(folder, [wheel], installed=True)
    assert victim.read_text() == "mine"
