"""What a wheel was built from is found again, or it is said what is missing; by real repositories, without an engine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from provenance import MOMENT
from repositories import commit, git
from wheels import write_wheel

from bakery.core.errors import BakeryError, UnavailableError
from bakery.core.git import committed
from bakery.core.source_manifest import tree_hash
from bakery.plan.dockerfile import Command, Run
from bakery.recipe.load import load
from bakery.release.reproduce import RebuildOptions, _project, _taken
from bakery.resolve.plan import resolve
from bakery.runs.records.buildkit import FOLDER, Machine
from bakery.runs.records.provenance import definition, statement
from bakery.runs.records.read import MAX_PROVENANCE_BYTES, Provenance, locked_from_provenance, read
from bakery.runs.records.recorder import source_materials
from bakery.runs.source_files import source_of

RECIPE = 'name = "demo"\nsource = "pkg"\n[matrix]\npython = ["3.11"]\n[builder]\ntoolkit = "none"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "inside"
    folder.mkdir(parents=True)
    git(folder.parent, "init", "--quiet")
    (folder / "pkg").mkdir()
    (folder / "bakery.toml").write_text(RECIPE)
    (folder / "pkg" / "a.py").write_text("1\n")
    commit(folder.parent, 1_600_000_000)
    return folder


def recorded(project: Path) -> Provenance:
    """Return what bakery would record of a wheel that is built from the project as it is."""
    (loaded,) = load("./bakery.toml", project)
    plan = resolve(loaded, None, {}, committed(project / "pkg"))
    wheel = write_wheel(project.parents[1])
    defined = definition(plan, plan.cells[0], source_materials(plan, source_of(project, plan)))
    digest = sha256(wheel.read_bytes()).hexdigest()
    told = statement(wheel.name, digest, defined, Machine("1", "1", "linux/x86_64"), MOMENT, MOMENT)
    path = wheel.parent / FOLDER / f"{wheel.name}.provenance.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told))
    return read(wheel)


def test_the_project_as_it_is(project: Path) -> None:
    with _project(recorded(project), project, RebuildOptions()) as (root, plan):
        assert root == project
        assert plan.values()["SOURCE_DATE_EPOCH"] == "1600000000"
        # What a compiler cache gives back was not built again.
        commands = [
            item for stage in plan.stages for step in stage.steps if isinstance(step, Run) for item in step.commands
        ]
        assert not any(("/programs/with-ccache",) in item.words for item in commands if isinstance(item, Command))


def test_an_older_commit(project: Path) -> None:
    then = recorded(project)
    (project / "pkg" / "a.py").write_text("2\n")
    commit(project.parent, 1_700_000_000)
    with _project(then, project, RebuildOptions()) as (root, plan):
        assert root != project
        assert (root / "pkg" / "a.py").read_text() == "1\n"
        assert plan.values()["SOURCE_DATE_EPOCH"] == "1600000000"
    assert not root.exists()
    with _project(then, project, RebuildOptions(here=True)) as (root, _):
        assert root == project


def lose(project: Path) -> None:
    """Leave nothing of the first commit."""
    (project / "pkg" / "a.py").write_text("2\n")
    git(project.parent, "commit", "--quiet", "--all", "--amend", "--message", "x", at=1_700_000_000)
    git(project.parent, "reflog", "expire", "--expire=now", "--all")
    git(project.parent, "gc", "--quiet", "--prune=now")


def another_recipe(project: Path) -> None:
    (project / "bakery.toml").write_text(RECIPE.replace("3.11", "3.13"))
    lose(project)


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (lose, ("its files are not those", "is not in this repository")),
        (another_recipe, ("its files are not those", "is not in this repository")),
        (lambda project: (project / "bakery.toml").unlink(), ()),
    ],
)
def test_what_is_lost(project: Path, change: Callable[[Path], None], reasons: tuple[str, ...]) -> None:
    then = recorded(project)
    change(project)
    if not reasons:
        with _project(then, project, RebuildOptions()) as (root, _):
            assert root != project
        return
    with pytest.raises(UnavailableError) as caught, _project(then, project, RebuildOptions()):
        pass
    said = "\n".join(caught.value.details)
    assert all(reason in said for reason in reasons)


def test_work_in_progress(project: Path) -> None:
    (project / "pkg" / "b.py").write_text("new\n")
    then = recorded(project)
    assert then.source is not None
    assert "gitCommit" not in then.source[0]
    with _project(then, project, RebuildOptions()) as (root, _):
        assert root == project
    (project / "pkg" / "b.py").write_text("newer\n")
    with pytest.raises(UnavailableError) as caught, _project(then, project, RebuildOptions()):
        pass
    assert "these files were changed: pkg/b.py" in "\n".join(caught.value.details)


# --- a provenance of anybody


def rewritten(project: Path, change: Callable[[dict[str, Any]], object]) -> Provenance:
    """Return the provenance of a wheel after somebody changed its buildDefinition."""
    path = recorded(project).path
    told = json.loads(path.read_text())
    change(told["predicate"]["buildDefinition"])
    path.write_text(json.dumps(told))
    return read(path.parent.parent / path.name.removesuffix(".provenance.json"))


def refusal(project: Path, then: Provenance, again: RebuildOptions | None = None) -> str:
    with pytest.raises(UnavailableError) as caught, _project(then, project, again or RebuildOptions()):
        pass
    assert caught.value.exit_code == 9
    return "\n".join([caught.value.message, *caught.value.details])


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize(
    "setting",
    [
        "wheel-cp311.contexts.demo-wheel=git://host/evil.git#main",
        "wheel-cp311.cache-to=type=registry,ref=host/stolen", "*.cache-from=type=registry,ref=host/evil",
        "CACHE=registry", "CACHE_REF=host/stolen", "wheel-cp311.args.BUILDKIT_SYNTAX=host/evil",
        "*.args.SOURCE_DATE_EPOCH=1", "test-cp311.args.SOURCE_DATE_EPOCH=1", "*.platform=linux/arm64",
        "wheel-cp311.labels.a=b", "wheel-cp311.tags=host/evil", "wheel-cp311.extra-hosts.index=10.0.0.1",
        "wheel-cp311.no-cache=false", "UNDECLARED=1", "SOURCE_DATE_EPOCH", "",
    ],
)  # fmt: skip
def test_settings_that_are_no_variable_of_the_recipe(project: Path, setting: str, here: bool) -> None:
    then = rewritten(project, lambda told: told["externalParameters"]["settings"].append(setting))
    if setting == "SOURCE_DATE_EPOCH":
        assert "cannot understand --set" in refuse_any(project, then, here)
        return
    said = refusal(project, then, RebuildOptions(here=here))
    assert said.startswith("the provenance sets values that are not variables of the recipe")
    assert f"--set {shlex.quote(setting)}" in said
    assert said.count("--set") == 1, "the others are variables"


def refuse_any(project: Path, then: Provenance, here: bool) -> str:
    with pytest.raises(BakeryError) as caught, _project(then, project, RebuildOptions(here=here)):
        pass
    return "\n".join([caught.value.message, *caught.value.details])


def test_a_person_may_repeat_what_is_refused(project: Path) -> None:
    setting = "wheel-cp311.labels.a=b"
    then = rewritten(project, lambda told: told["externalParameters"]["settings"].append(setting))
    with _project(then, project, RebuildOptions(sets=(setting,))) as (_, plan):
        assert [str(item) for item in plan.overrides] == [setting]


def test_variables_of_the_recipe_are_taken_and_shown(project: Path) -> None:
    (project / "bakery.toml").write_text(RECIPE + '[variables]\nSPEED = "1"\n')
    commit(project.parent, 1_600_000_001)

    def change(told: dict[str, Any]) -> None:
        told["externalParameters"]["settings"] += ["wheel-cp311.args.SPEED=3"]

    then = rewritten(project, change)
    with _project(then, project, RebuildOptions()) as (_, plan):
        assert plan.args_of(plan.cells[0])["SPEED"] == "3"
    assert "a setting, from the provenance: wheel-cp311.args.SPEED=3" in list(_taken(then, RebuildOptions(), None))


def test_a_cache_of_the_recipe_is_neither_read_nor_written(project: Path) -> None:
    (project / "bakery.toml").write_text(RECIPE + '[cache]\nbackend = "registry"\nref = "host/cache"\n')
    commit(project.parent, 1_600_000_001)
    with _project(recorded(project), project, RebuildOptions()) as (_, plan):
        assert plan.cache.backend == "none"


@pytest.mark.parametrize(
    "file",
    ["../../elsewhere/bakery.toml", "/etc/passwd", "link/bakery.toml", "shipped recipe ../x", "shipped recipe gone"],
)
def test_a_recipe_that_is_not_the_project_s(project: Path, file: str) -> None:
    outside = project.parents[1] / "elsewhere"
    outside.mkdir()
    (outside / "bakery.toml").write_text(RECIPE)
    (project / "link").symlink_to(outside)
    then = rewritten(project, lambda told: told["externalParameters"]["recipe"].update(file=file))
    assert "a recipe that is not the project's" in refusal(project, then)


@pytest.mark.parametrize("cell", ["*", "cp31?", "cp312", "cp311.args.X=1"])
def test_a_cell_that_the_recipe_does_not_have(project: Path, cell: str) -> None:
    then = rewritten(project, lambda told: told["externalParameters"].update(cell=cell, settings=[]))
    assert f"no cell {cell!r}" in refusal(project, then)
    assert f"no cell {cell!r}" in refusal(project, then, RebuildOptions(here=True))


def test_files_without_a_hash(project: Path) -> None:
    def change(told: dict[str, Any]) -> None:
        for item in told["resolvedDependencies"]:
            item["digest"].pop("dirHash", None)

    then = rewritten(project, change)
    (project / "pkg" / "a.py").write_text("a backdoor\n")
    assert "the provenance has no hash of its files (dirHash)" in refusal(project, then)


def test_the_provenance_does_not_say_which_files_are_compared(project: Path) -> None:
    def change(told: dict[str, Any]) -> None:
        (item,) = told["resolvedDependencies"]
        item["annotations"]["paths"] = ["nothing"]
        item["digest"] = {"dirHash": tree_hash({})}

    then = rewritten(project, change)
    (project / "pkg" / "a.py").write_text("a backdoor\n")
    assert "its files are not those" in refusal(project, then)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": {"dirHash": "x y"}},
        {"digest": {"sha256": "--help"}},
        {"annotations": {"changed": 7, "basedOn": ["x"], "paths": {}}},
        {"annotations": {"version": "1", "places": ["build"]}, "name": "a\nb 1"},
    ],
)
def test_odd_records_are_told_and_no_traceback(project: Path, change: dict[str, Any]) -> None:
    def apply(told: dict[str, Any]) -> None:
        (item,) = told["resolvedDependencies"]
        item["digest"].pop("gitCommit", None)
        item.update(change)

    def reproduced() -> None:
        then = rewritten(project, apply)
        locked_from_provenance(then)
        (project / "pkg" / "a.py").write_text("2\n")
        with _project(then, project, RebuildOptions()):
            pass

    with pytest.raises(UnavailableError):
        reproduced()


@pytest.mark.parametrize("size", [MAX_PROVENANCE_BYTES + 1, 0])
def test_a_provenance_is_read_within_bounds(project: Path, size: int) -> None:
    path = recorded(project).path
    path.unlink()
    if size:
        path.write_bytes(b" " * size)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UnavailableError, match="larger than" if size else "no provenance"):
        read(path.parent.parent / path.name.removesuffix(".provenance.json"))
