"""--since: what a change cannot touch is left out, and why; what is unknown is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from file_trees import write_files
from repositories import commit, git
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.recipes import narrow, plans
from bakery.runs.lock.model import VERSION
from bakery.runs.run_options import Options

RECIPE = """\
name = "demo"
[matrix]
python = ["3.11", "3.13"]
[builder]
environment = { LEVEL = "1" }
[test]
imports = ["demo"]
"""

Change = Callable[[Path], object]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a checkout of two projects, one of which is baked."""
    root = tmp_path / "repository" / "kernels"
    files = {
        "bakery.toml": RECIPE,
        "pyproject.toml": '[project]\nname = "demo"\nreadme = "README.md"\n',
        "README.md": "read me",
        "NOTES.md": "notes",
        "docs/index.md": "text",
        "src/demo/__init__.py": "",
        "src/demo/data.md": "data",
        "../other/main.py": "",
    }
    write_files(root, files)
    git(root.parent, "init")
    commit(root.parent)
    monkeypatch.chdir(root)
    return root


def planned(*words: str) -> tuple[list[str], dict[str, str]]:
    done = CliRunner().invoke(app, ["plan", "--json", "--since", "HEAD", *words], catch_exceptions=False)
    document = json.loads(done.stdout)
    cells = [cell["id"] for recipe in document["recipes"] for cell in recipe["cells"]]
    return cells, document["left_out"]["demo"]


def write(name: str, text: str) -> Change:
    return lambda root: write_files(root, {name: text})


def recipe(old: str, new: str) -> Change:
    assert old in RECIPE
    return write("bakery.toml", RECIPE.replace(old, new))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (write("../other/main.py", "x"), "outside the project"),
        (write("dist/demo-1.0-py3-none-any.whl", "x"), "never in the build context"),
        (write("src/demo/__pycache__/a.pyc", "x"), "never in the build context"),
        (recipe('name = "demo"', 'name = "demo"\ndescription = "words"'), "never in the build context"),
        (lambda root: None, "uses nothing"),
    ],
)
def test_harmless_changes(project: Path, change: Change, why: str) -> None:
    change(project)
    cells, left = planned()
    assert cells == []
    assert set(left) == {"cp311", "cp313"}
    assert all(why in reason for reason in left.values())


@pytest.mark.parametrize(
    "change",
    [
        write("src/demo/__init__.py", "x = 1"),
        write("src/demo/new.py", "x = 1"),
        # Data of the package, and a page that the metadata holds.
        write("src/demo/data.md", "other"),
        write("README.md", "other"),
        write("LICENSE", "terms"),
        # A build can read any file that it is sent, and backends read some that nothing names.
        write("LICENSE.md", "terms"),
        write("docs/__init__.py", ""),
        write("docs/version.txt", "2"),
        write("NOTES.md", "other"),
        write(".gitignore", "*.bin"),
        lambda root: (root / "src/demo/data.md").unlink(),
        write("pyproject.toml", '[project]\nname = "demo"\nreadme = "README.md"\nversion = "2"\n'),
        recipe('LEVEL = "1"', 'LEVEL = "2"'),
    ],
)
def test_changes_that_touch_every_cell(project: Path, change: Change) -> None:
    change(project)
    assert planned() == (["cp311", "cp313"], {})


def test_what_the_recipe_ignores_is_read_by_no_build(project: Path) -> None:
    recipe('name = "demo"', 'name = "demo"\nsource.ignore = ["docs", "*.md", "!README.md"]')(project)
    git(project, "commit", "-am", "no documentation")
    for name in ("docs/index.md", "NOTES.md"):
        (project / name).write_text("other")
    assert planned()[0] == []
    (project / "README.md").write_text("other")
    assert planned()[0] == ["cp311", "cp313"]


def test_wheels_in_any_output_folder_are_no_change(project: Path) -> None:
    for folder in ("out 2", "older"):
        (project / folder / ".provenance").mkdir(parents=True)
        (project / folder / "demo-1.0-py3-none-any.whl").write_text("x")
    (project / "out 2" / "notes.txt").write_text("x")
    options = Options(("wheel",), output=project / "out 2")
    selected, _ = narrow(plans(None, None), None, None, (), None, "HEAD", options=options)
    assert selected == []


IMAGE = "debian:bookworm-slim"
LOCK = """\
version = 3
recipe = "demo"
[images]
"debian:bookworm-slim" = {{ "linux/amd64" = "sha256:{image}" }}
[sources]
[suites]
[files]
"a-1-py3-none-any.whl" = {{ name = "a", version = "1", sha256 = "{a}" }}
"b-1-py3-none-any.whl" = {{ name = "b", version = "1", sha256 = "{b}" }}
[[packages]]
place = "builder"
cells = ["cp311"]
requirements = ["a"]
files = ["a-1-py3-none-any.whl"]
[[packages]]
place = "builder"
cells = ["cp313"]
requirements = ["b"]
files = ["b-1-py3-none-any.whl"]
"""


def lock(project: Path, **digests: str) -> None:
    values = dict.fromkeys(("image", "a", "b"), "0" * 64) | digests
    (project / "bakery.lock").write_text(LOCK.format(**values).replace("version = 3", f"version = {VERSION}", 1))


def test_cells_with_other_locked_materials_are_built(project: Path) -> None:
    lock(project)
    assert planned()[0] == ["cp311", "cp313"]
    commit(project)
    assert planned()[0] == []
    lock(project, b="1" * 64)
    cells, left = planned()
    assert (cells, set(left)) == (["cp313"], {"cp311"})
    lock(project, image="1" * 64)
    ((_, plan),) = plans(None, None)
    assert planned()[0] == [cell.id for cell in plan.cells if IMAGE in [image.ref for image in cell.images]] != []
    (project / "bakery.lock").write_text("no lock")
    assert planned()[0] == ["cp311", "cp313"]
    (project / "bakery.lock").unlink()
    assert planned()[0] == ["cp311", "cp313"]


def test_a_new_python_is_the_only_cell(project: Path) -> None:
    recipe('"3.13"]', '"3.13", "3.14"]')(project)
    cells, left = planned()
    assert cells == ["cp314"]
    assert set(left) == {"cp311", "cp313"}


def test_a_value_of_one_cell_touches_that_cell(project: Path) -> None:
    (project / "bakery.toml").write_text(
        RECIPE.replace('LEVEL = "1"', 'LEVEL = "${LEVEL}"')
        + '[variables]\nLEVEL = "1"\n'
    )  # fmt: skip
    git(project, "commit", "-am", "a variable")
    with (project / "bakery.toml").open("a") as file:
        file.write('[[matrix.overrides]]\nwhere = { python = "3.13" }\nvariables = { LEVEL = "2" }\n')
    cells, left = planned()
    assert cells == ["cp313"]
    assert set(left) == {"cp311"}


def test_a_shared_wheel_is_built_for_all_its_cells(project: Path) -> None:
    (project / "bakery.toml").write_text(RECIPE + '[wheel]\nabi3 = "3.11"\n')
    git(project, "commit", "-am", "one wheel")
    (project / "bakery.toml").write_text(RECIPE.replace('"3.13"]', '"3.13", "3.14"]') + '[wheel]\nabi3 = "3.11"\n')
    assert planned() == (["cp311", "cp313", "cp314"], {})


def test_only_the_recipe_in_pyproject_changed(project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    (project / "bakery.toml").unlink()
    own = RECIPE.replace("[", "[tool.wheel-bakery.", 3).replace('python = [tool.wheel-bakery."', 'python = ["')
    table = own.replace('name = "demo"', '[tool.wheel-bakery]\nname = "demo"')
    (project / "pyproject.toml").write_text(text + table)
    commit(project)
    (project / "pyproject.toml").write_text(text + table + '[tool.wheel-bakery.output]\ndirectory = "wheels"\n')
    cells, left = planned()
    assert (cells, set(left)) == ([], {"cp311", "cp313"})
    (project / "pyproject.toml").write_text(text.replace("demo", "demo2") + table)
    assert planned()[0] == ["cp311", "cp313"]


def test_a_recipe_that_was_not_there_is_built(project: Path) -> None:
    git(project, "rm", "--cached", "bakery.toml")
    git(project, "commit", "-m", "none yet")
    assert planned() == (["cp311", "cp313"], {})


def test_no_revision_and_no_checkout_are_said(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["plan", "--since", "nope"])
    assert "there is no revision 'nope'" in str(done.exception)
    (tmp_path / "bare").mkdir()
    write("bakery.toml", RECIPE)(tmp_path / "bare")
    monkeypatch.chdir(tmp_path / "bare")
    done = CliRunner().invoke(app, ["plan", "--since", "HEAD"])
    assert "is not in a git checkout" in str(done.exception)


def test_what_cibuildwheel_is_told_touches_the_cells_that_it_builds(project: Path) -> None:
    (project / "bakery.toml").write_text(f'platforms = ["linux/amd64", "macos/arm64"]\n{RECIPE}')
    commit(project)
    with (project / "bakery.toml").open("a") as file:
        file.write('[macos]\nbefore-all = "brew install libomp"\n')

    def left(system: str) -> dict[str, str]:
        return narrow(plans(None, None, bake=False), None, None, (), None, "HEAD", system)[1]["demo"]

    assert set(left("linux")) == {"cp311", "cp313"}
    assert left("macos") == {}


OVERRIDES = """\
name = "demo"
platforms = ["linux/amd64", "macos/arm64"]
matrix.python = ["3.11", "3.12"]
builder.base = "manylinux_2_28"
[[matrix.overrides]]
where = { python = "3.12", platform = "linux/*" }
wheel = { abi3 = "3.12", max-size = "300 MB" }
[[matrix.overrides]]
where = { platform = "macos/*" }
builder = { environment = { X = "1" } }
test = { imports = ["pkg"] }
"""


@pytest.mark.parametrize(
    ("old", "new", "linux", "macos"),
    [
        ("300 MB", "200 MB", {"cp312"}, set()),
        ('X = "1"', 'X = "2"', set(), {"cp311", "cp312"}),
        ('["pkg"]', '["pkg.core"]', set(), {"cp311", "cp312"}),
        ("builder.base", 'wheel.max-size = "90 MB"\nbuilder.base', {"cp311"}, {"cp311", "cp312"}),
    ],
)
def test_settings_of_an_override_touch_its_cells(
    project: Path, old: str, new: str, linux: set[str], macos: set[str]
) -> None:
    (project / "bakery.toml").write_text(OVERRIDES)
    git(project, "commit", "-am", "overrides")
    (project / "bakery.toml").write_text(OVERRIDES.replace(old, new))
    for system, expected in {"linux": linux, "macos": macos}.items():
        selected, _ = narrow(plans(None, None, bake=False), None, None, (), None, "HEAD", system)
        assert {cell.id.split("-")[0] for _, plan in selected for cell in plan.cells} == expected
