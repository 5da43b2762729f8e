"""Why stages are built again: what a bake keeps of its inputs, and how two of them differ."""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plans
import pytest
from runs import runs_of
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.tables.run import replaced
from bakery.plan.model import Plan
from bakery.recipe.models import Recipe
from bakery.runs.cell_inputs import MAX_FILES, CellInputs, bakes_of, current, inputs_of, listed, write
from bakery.runs.cell_profile import CellProfile, Command, StepTime
from bakery.runs.cell_tasks import cell_tasks
from bakery.runs.journal import INPUTS, MAX_JOURNALS, Record, Result, open_journal
from bakery.runs.lock.model import LockedFile, Materials, Packages
from bakery.runs.rebuild_reasons import all_changes, changed_since_wheel, changes, names_packages, ran_stages, reasons
from bakery.runs.run_report import RunReport
from bakery.toolchains import programs

LOG = """\
[2026-11-23T16:35:29.520659 14   ] Command line: ccache g++ -O2 @ -c src/a.cpp -o /tmp/tmpq1w2/a.o
[2026-11-23T16:35:29.520659 14   ] Working directory: /work
[2026-11-23T16:35:29.520700 15   ] Command line: ccache g++ --version
[2026-11-23T16:35:29.521039 14   ] Source file: src/a.cpp
[2026-11-23T16:35:29.521045 14   ] Object file: /tmp/tmpq1w2/a.o
[2026-11-23T16:35:29.521400 15   ] Result: called_for_link
[2026-11-23T16:35:29.809900 14   ] Result: cache_miss
"""
"""Lines of ccache 4.11; 4.7 has the same."""


@pytest.fixture
def explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Give a function that returns what the program prints for a log of a compile in a project."""
    (tmp_path / "program.py").write_text(programs.text("count-ccache"))
    texts = tmp_path / "texts.txt"
    texts.write_text("/tmp/tmpq1w2/a.o\t\t1a=src/a.cpp\t2b=src/own.h\n")
    names: dict[str, Any] = runpy.run_path(str(tmp_path / "program.py"))
    monkeypatch.setitem(names["explain"].__globals__, "CALLS", str(tmp_path / "calls-%s.json"))
    monkeypatch.setitem(names["explain"].__globals__, "TEXTS", str(texts))
    monkeypatch.setitem(names["explain"].__globals__, "STOPPED", str(tmp_path / "asked"))

    def told(log: str) -> str:
        names["explain"](log.replace("/work", str(tmp_path)))
        return capsys.readouterr().out

    return told


def test_reasons(explain: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = "bakery: timed missed 0.000 0.000 0 /tmp/*/a.o: "
    assert explain(LOG) == f"{start}never compiled here\n"
    # Folders of random names are no difference.
    again = LOG.replace("tmpq1w2", "tmpe3r4")
    assert "neither command nor source changed" in explain(again)
    assert explain(LOG.replace("@", "-DX=1")) == f"{start}arguments: now -DX=1, before @\n"
    # A header that is new, another that changed.
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t1a=src/a.cpp\t3b=src/own.h\t1=b/new.h\n")
    assert explain(LOG.replace("@", "-DX=1")) == f"{start}changed: b/new.h, src/own.h\n"
    assert explain(LOG.replace("cache_miss", "preprocessed_cache_hit")) == ""
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\toption -march=native\n")
    assert explain(LOG.replace("cache_miss", "preprocessor_error")) == f"{start}not cached: option -march=native\n"
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t1a=src/a.cpp\n")
    # Another Python has other arguments, and that is no change.
    monkeypatch.setenv("PYTHON_VERSION", "3.99")
    assert explain(LOG) == f"{start}never compiled here\n"


def test_a_command_that_was_stopped_forgets_nothing(explain: Callable[[str], str], tmp_path: Path) -> None:
    """It asked git after its first compiles, and runs again in another step."""
    explain(LOG)
    (tmp_path / "asked").symlink_to("state")
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/try.o\t\t1a=src/try.cpp\n")
    assert "try.o: never compiled here" in explain(LOG.replace("a.o", "try.o").replace("a.cpp", "try.cpp"))
    (tmp_path / "asked").unlink()
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t3c=src/a.cpp\t2b=src/own.h\n")
    assert explain(LOG).endswith("a.o: changed: src/a.cpp\n")


@pytest.mark.parametrize("text", ["[", "[]", '{"/tmp/*/a.o": 1}', '{"/tmp/*/a.o": [1, 2]}'])
def test_calls_that_the_project_wrote(explain: Callable[[str], str], tmp_path: Path, text: str) -> None:
    explain(LOG)
    (path,) = tmp_path.glob("calls-*.json")
    path.write_text(text)
    assert explain(LOG).startswith("bakery: timed missed")


def test_the_command_shows_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11"]\n')
    command = Command(kind="compile", start=0, seconds=1, mb=0, name="g++/a.cpp")
    profile = CellProfile(
        recipe="demo", cell="cp311", cores=2, steps=(), commands=(command,), misses=("a.o: changed: src/own.h",)
    )
    folder = runs_of(tmp_path) / "one" / "profiles"
    folder.mkdir(parents=True)
    (folder / "cp311.json").write_text(profile.model_dump_json())
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["why", "cp311", "--compiler-cache", "--json"])
    assert '"object": "a.o",' in done.stdout
    assert '"reason": "changed: src/own.h"' in done.stdout
    done = CliRunner().invoke(app, ["why", "cp311", "--compiler-cache"])
    assert done.stdout == "a.o\n  changed: src/own.h\n"


CELL = "cp311"


def planned(root: Path, *sets: str, level: str = "1", flag: str = "", base: str = "debian") -> Plan:
    environment = {"LEVEL": "${LEVEL}", **({"CFLAGS": flag} if flag else {})}
    recipe = {
        "name": "demo",
        "variables": {"LEVEL": level},
        "matrix": {"python": ["3.11", "3.13"]},
        "builder": {"base": base, "environment": environment},
    }
    return plans.planned(Recipe.model_validate(recipe), root, *sets)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.c").write_text("int a;\n")
    (folder / "src" / "b.c").write_text("int b;\n")
    (folder / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def now(root: Path, state: Path, plan: Plan, locked: dict[str, Materials] | None = None) -> CellInputs:
    tasks = cell_tasks(plan.select(("wheel",)))
    stages = inputs_of(plan, tasks.values(), locked or {})[CELL]
    return current(root, plan, CELL, CellInputs(stages=stages, files={}), state, {}).model_copy(
        update={"stages": stages}
    )


def said(old: CellInputs, new: CellInputs, ran: dict[str, bool] | None = None) -> dict[str, str]:
    return {reason.stage: str(reason) for reason in reasons(old, new, ran)}


def test_files_that_changed(root: Path, state: Path) -> None:
    plan = planned(root)
    old = now(root, state, plan)
    assert set(said(old, now(root, state, plan)).values()) == {f"{stage}: cached" for stage in old.stages}
    (root / "src" / "a.c").write_text("int other;\n")
    (root / "src" / "b.c").chmod(0o755)
    (root / "src" / "c.c").write_text("")
    (root / "pyproject.toml").unlink()
    new = now(root, state, plan)
    texts = said(old, new)
    assert texts["compile"] == "compile: rebuilt, pyproject.toml is gone (and 3 more)"
    assert changes(old, new, "compile") == (
        "pyproject.toml is gone",
        "src/a.c changed",
        "the mode of src/b.c changed",
        "src/c.c is new",
    )
    assert texts["repair"] == "repair: rebuilt, because compile is"
    assert texts["requirements"].startswith("requirements: rebuilt if another result differs, as project may")
    assert texts["base"] == "base: cached"
    # What the engine did counts: it may have a result of earlier times, or nothing at all.
    ran = dict.fromkeys(new.stages, False) | {"compile": True, "repair": True, "base": True}
    texts = said(old, new, ran)
    assert texts["project"] == "project: cached"
    assert texts["base"] == "base: rebuilt, the engine did not have it"
    assert texts["repair"] == "repair: rebuilt, because compile is"


@pytest.mark.parametrize(
    ("change", "stage", "reason"),
    [
        (lambda root: planned(root, level="2"), "compile", "build argument LEVEL 1 -> 2"),
        (lambda root: planned(root, "wheel-cp311.args.LEVEL=3"), "compile", "build argument LEVEL 1 -> 3"),
        (lambda root: planned(root, flag="-O3"), "compile", "environment variable CFLAGS is now -O3"),
        (lambda root: planned(root, base="manylinux_2_28"), "root", "base "),
    ],
    ids=["variable", "override", "environment", "base"],
)
def test_what_the_recipe_changed(
    root: Path, state: Path, change: Callable[[Path], Plan], stage: str, reason: str
) -> None:
    old, new = now(root, state, planned(root)), now(root, state, change(root))
    assert any(text.startswith(reason) for text in all_changes(old, new)), all_changes(old, new)
    if stage in old.stages:
        assert said(old, new)[stage].startswith(f"{stage}: rebuilt")


def test_packages_of_the_lock(root: Path, state: Path) -> None:
    plan = planned(root)

    def locked(version: str) -> dict[str, Materials]:
        file = LockedFile(name="setuptools", version=version, sha256="ab" * 32)
        return {CELL: Materials(packages={"build": Packages(("setuptools",), {"setuptools.whl": file})})}

    old, new = now(root, state, plan, locked("80.1")), now(root, state, plan, locked("80.2"))
    assert all_changes(old, new) == ("package setuptools 80.1 -> 80.2",)
    assert names_packages(new)
    # Without a lock, they are known at the end of a bake: nothing was removed or added before.
    unlocked = now(root, state, plan)
    assert not names_packages(unlocked)
    assert all_changes(old, unlocked) == all_changes(unlocked, new) == ()


def test_base_images(root: Path, state: Path) -> None:
    plan = planned(root)

    def baked(digit: str) -> CellInputs:
        images = {(image.ref, image.platform): f"sha256:{digit * 64}" for image in plan.cells[0].images}
        return now(root, state, plan, {CELL: Materials(images)})

    (change,) = all_changes(baked("1"), baked("2"))
    assert change == "image debian:bookworm-slim sha256:111111111111 -> sha256:222222222222"


def bake(root: Path, state: Path, run: str, result: Result = Result.DONE) -> Path:
    """Leave what a run leaves: a journal, and the inputs of its cells."""
    plan = planned(root)
    inputs = now(root, state, plan)
    journal = open_journal(state, "demo")
    contents = {name: bytes.fromhex(digest) for name, digest in inputs.files.items()}
    write(journal.path, run, contents, {CELL: inputs.stages, "cp313": inputs.stages})
    journal.write(Record(CELL, "key", result))
    return journal.path


def test_bakes_that_are_kept(root: Path, state: Path) -> None:
    for number in range(MAX_JOURNALS + 2):
        journal = bake(root, state, str(number))
    runs = [inputs.run for _, inputs in bakes_of(state, "demo", CELL)]
    assert runs == ["6", "5", "4", "3", "2"]
    assert len(list(state.rglob(f"*{INPUTS}"))) == MAX_JOURNALS
    assert not list(bakes_of(state, "demo", "cp399"))
    # Cells share what is equal.
    assert len(json.loads(journal.with_suffix(INPUTS).read_text())["stages"]) < 2 * 30
    for damage in ("", "[", "{}", '{"run":"6","files":{},"stages":[],"cells":{"cp311":{"base":4}}}'):
        journal.with_suffix(INPUTS).write_text(damage)
        os.utime(journal.with_suffix(INPUTS), (len(damage), len(damage)))
        assert next(bakes_of(state, "demo", CELL))[1].run == "5"


def test_what_changed_since_the_wheel(root: Path, state: Path) -> None:
    stages = now(root, state, planned(root)).stages
    assert changed_since_wheel(state, "demo", CELL, stages) == ""
    bake(root, state, "1")
    assert changed_since_wheel(state, "demo", CELL, stages) == ""
    (root / "src" / "a.c").write_text("broken")
    bake(root, state, "2", Result.FAILED)
    (root / "src" / "a.c").write_text("int repaired;\n")
    (root / "src" / "b.c").write_text("int c;\n")
    bake(root, state, "3")
    assert changed_since_wheel(state, "demo", CELL, stages) == "src/a.c changed (and 1 more)"


def test_large_trees_and_strange_names() -> None:
    assert list(listed({"caf\udce9.c": b"12345678aa"})) == ["caf\ufffd.c"]
    many = {f"{number % 3}/{number}": number.to_bytes(10) for number in range(MAX_FILES + 1)}
    before = listed(many)
    assert set(before) == {"0", "1", "2"}
    assert [name for name, digest in listed({**many, "1/1": bytes(10)}).items() if before[name] != digest] == ["1"]


def test_stages_that_the_engine_ran(tmp_path: Path) -> None:
    titles = {"[base 1/2] FROM x": False, "[base 2/2] RUN y": True, "[linux/arm64 compile 2/2] RUN z": False}
    steps = tuple(StepTime(title=title, start=0, seconds=1, cached=cached) for title, cached in titles.items())
    profile = CellProfile(recipe="demo", cell=CELL, cores=1, steps=steps, commands=())
    folder = tmp_path / "runs" / "one" / "profiles"
    folder.mkdir(parents=True)
    (folder / f"{CELL}.json").write_text(profile.model_dump_json())
    assert ran_stages(tmp_path, "demo", CELL, "one") == {"base": False, "compile": True}
    assert ran_stages(tmp_path, "demo", CELL, "two") is None
    assert ran_stages(tmp_path, "other", CELL, "one") is None


def test_the_command(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[variables]\nLEVEL = "1"\n[matrix]\npython = ["3.11", "3.13"]\n[builder.environment]\nLEVEL = "${LEVEL}"\n'
    (root / "bakery.toml").write_text(f'name = "demo"\n{text}')
    monkeypatch.chdir(root)
    monkeypatch.setenv("BAKERY_STATE_DIR", str(state))
    error = CliRunner().invoke(app, ["why", CELL]).exception
    assert str(error) == "no kept run baked cp311"
    bake(root, state, "1")
    (root / "src" / "a.c").write_text("int other;\n")
    done = CliRunner().invoke(app, ["why", CELL, "--all"])
    assert "compile: rebuilt, src/a.c changed\n" in done.stdout, done.output
    assert "repair: rebuilt, because compile is\n" in done.stdout
    first, second, *_ = CliRunner().invoke(app, ["why", CELL]).stdout.splitlines()
    assert first.startswith("src/a.c changed: ")
    assert first.endswith("compile run again")
    assert second.startswith("with them: ")
    assert "repair" in second
    every = CliRunner().invoke(app, ["why"])
    assert "cp311: the next run, after 1:" in every.output
    assert "cp313: the next run, after 1:" in every.output
    document = json.loads(CliRunner().invoke(app, ["why", CELL, "--json"]).stdout)
    assert (document["bake"], document["run"]) == ("next", "1")
    assert {"stage": "compile", "state": "rebuilt", "because": ["src/a.c changed"]} in document["stages"]
    bake(root, state, "2")
    document = json.loads(CliRunner().invoke(app, ["why", CELL, "--json"]).stdout)
    assert (document["bake"], document["run"]) == ("last", "2")
    assert {"stage": "compile", "state": "rebuilt", "because": ["src/a.c changed"]} in document["stages"]


def test_lines_about_replaced_wheels(tmp_path: Path) -> None:
    report = RunReport("demo", (), tmp_path / "dist", tmp_path, 1.0)
    assert replaced(report) == ()
    names = {"a.whl": "src/a.c changed", "b.whl": "", "c.whl": "src/a.c changed"}
    report = RunReport("demo", (), tmp_path / "dist", tmp_path, 1.0, replaced=names)
    assert replaced(report) == ("replaced 2 wheels in dist (src/a.c changed)", "replaced dist/b.whl")
    assert report.to_json()["replaced"] == names
