"""What a wheel was built from is found again, or it is said what is missing; by real repositories, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from test_checkout import commit, git
from test_record import MOMENT
from wheels import write_wheel

from bakery.checkout import committed
from bakery.emit.files import generate
from bakery.errors import UnavailableError
from bakery.load import load
from bakery.plan import Command, Run
from bakery.record.facts import FOLDER, Machine
from bakery.record.provenance import definition, statement
from bakery.record.read import Recorded, read
from bakery.recorder import source_materials
from bakery.reproduce import Again, _project
from bakery.resolve.lower import resolve

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


def recorded(project: Path) -> Recorded:
    """Return what bakery would record of a wheel that is built from the project as it is."""
    (loaded,) = load("./bakery.toml", project)
    plan = resolve(loaded, (), {}, committed(project / "pkg"))
    wheel = write_wheel(project.parents[1])
    defined = definition(plan, plan.cells[0], generate(plan), source_materials(plan, project))
    digest = sha256(wheel.read_bytes()).hexdigest()
    told = statement(wheel.name, digest, defined, Machine("1", "1", "linux/x86_64"), MOMENT, MOMENT)
    path = wheel.parent / FOLDER / f"{wheel.name}.provenance.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told))
    return read(wheel)


def test_the_project_as_it_is(project: Path) -> None:
    with _project(recorded(project), project, Again()) as (root, plan):
        assert root == project
        assert plan.values()["SOURCE_DATE_EPOCH"] == "1600000000"
        # What a compiler cache gives back was not built again.
        commands = [
            item for stage in plan.stages for step in stage.steps if isinstance(step, Run) for item in step.commands
        ]
        assert not any(("with-ccache",) in item.words for item in commands if isinstance(item, Command))


def test_an_older_commit(project: Path) -> None:
    then = recorded(project)
    (project / "pkg" / "a.py").write_text("2\n")
    commit(project.parent, 1_700_000_000)
    with _project(then, project, Again()) as (root, plan):
        assert root != project
        assert (root / "pkg" / "a.py").read_text() == "1\n"
        assert plan.values()["SOURCE_DATE_EPOCH"] == "1600000000"
    assert not root.exists()
    with _project(then, project, Again(here=True)) as (root, _):
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
        with _project(then, project, Again()) as (root, _):
            assert root != project
        return
    with pytest.raises(UnavailableError) as caught, _project(then, project, Again()):
        pass
    said = "\n".join(caught.value.details)
    assert all(reason in said for reason in reasons)


def test_work_in_progress(project: Path) -> None:
    (project / "pkg" / "b.py").write_text("new\n")
    then = recorded(project)
    assert then.source is not None
    assert "gitCommit" not in then.source[0]
    with _project(then, project, Again()) as (root, _):
        assert root == project
    (project / "pkg" / "b.py").write_text("newer\n")
    with pytest.raises(UnavailableError) as caught, _project(then, project, Again()):
        pass
    assert "these files were changed: pkg/b.py" in "\n".join(caught.value.details)
