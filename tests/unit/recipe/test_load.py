"""Finding recipes, workspaces, positions, and what any text whatever does to the loader."""

from __future__ import annotations

import contextlib
import json
import os
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample import sampled

from bakery.core.errors import RecipeError
from bakery.recipe import files, load, toml_file
from bakery.recipe.load import Loaded, from_python
from bakery.recipe.models import Builder, Matrix, Override, Recipe, Variable
from bakery.recipe.problems import Problem, describe, dotted, is_private, nearest, recipe_error, shorten
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_positions import Path as KeyPath
from bakery.recipe.toml_positions import TooMuch, line_of, positions


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def details(error: pytest.ExceptionInfo[RecipeError]) -> str:
    return "\n".join([error.value.message, *error.value.details, error.value.hint])


@contextlib.contextmanager
def refused(said: str) -> Iterator[None]:
    with pytest.raises(RecipeError) as caught:
        yield
    assert said in details(caught)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(tmp_path / "pyproject.toml", '[tool.wheel-bakery.workspace]\nrecipes = ["examples/cuda", "examples/cpp"]\n')
    write(tmp_path / "examples/cuda/bakery.toml", 'name = "example-cuda"\n\n[matrix]\npython = ["3.11"]\n')
    write(
        tmp_path / "examples/cpp/pyproject.toml",
        '[tool.wheel-bakery]\nname = "example-cpp"\nbuilder = { base = "debian" }\n',
    )
    return tmp_path


def names_of(recipes: tuple[Loaded, ...]) -> list[str]:
    return [item.recipe.name for item in recipes]


class TestFinding:
    def test_the_folder_itself(self, tmp_path: Path) -> None:
        file = write(tmp_path / "bakery.toml", 'name = "a"\n[matrix]\npython = ["3.11"]\n')
        (item,) = load.load(None, tmp_path)
        assert (item.file, item.root, item.folder) == (file, tmp_path, ".")
        assert item.positions == {"name": 1, "matrix": 2, "matrix.python": 3, "matrix.python[0]": 3}

    def test_pyproject_positions_are_those_of_the_table(self, tmp_path: Path) -> None:
        write(tmp_path / "pyproject.toml", '[project]\nname = "x"\n[tool.wheel-bakery]\nname = "a"\n')
        (item,) = load.load(None, tmp_path)
        assert item.positions == {"name": 4}

    @pytest.mark.parametrize("reference", ["sub", "sub/", "./sub", "sub/bakery.toml", "{}/sub"])
    def test_paths(self, tmp_path: Path, reference: str) -> None:
        write(tmp_path / "sub/bakery.toml", 'name = "a"\n')
        (item,) = load.load(reference.format(tmp_path), tmp_path)
        assert (item.root, item.folder) == (tmp_path / "sub", ".")

    @pytest.mark.parametrize(("file", "reference"), [("other.toml", "other.toml"), ("bakery.toml", "a")])
    def test_any_file_and_its_name(self, tmp_path: Path, file: str, reference: str) -> None:
        write(tmp_path / file, 'name = "a"\n')
        assert names_of(load.load(reference, tmp_path)) == ["a"]

    def test_shipped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = write(tmp_path / "lib/ujson.toml", 'name = "ujson"\n')
        monkeypatch.setattr(load, "shipped", lambda: {"ujson": file})
        (item,) = load.load("ujson", tmp_path)
        assert (item.file, item.root, item.folder) == (file, tmp_path, ".")

    def test_every_shipped_recipe_is_valid(self, tmp_path: Path) -> None:
        for name in files.shipped():
            assert names_of(load.load(name, tmp_path)) == [name]

    @pytest.mark.parametrize(
        "reference", ["nothing", "no/where", "gone.toml", "a\0b", "x" * 5000, "../..", "-", "", "~"]
    )
    def test_missing(self, tmp_path: Path, reference: str) -> None:
        with refused("shipped recipes:"):
            load.load(reference, tmp_path)

    def test_missing_here(self, tmp_path: Path) -> None:
        with pytest.raises(RecipeError) as caught:
            load.load(None, tmp_path)
        assert caught.value.message == "no recipe here"
        assert str(tmp_path) in details(caught)

    def test_missing_names_the_nearest(self, workspace: Path) -> None:
        with pytest.raises(RecipeError) as caught:
            load.load("exmple-cuda", workspace)
        assert caught.value.hint == "did you mean 'example-cuda'?"

    def test_gone_folder(self, tmp_path: Path) -> None:
        with pytest.raises(RecipeError):
            load.load(None, tmp_path / "gone")

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="whoever runs this may read everything")
    def test_unreadable(self, tmp_path: Path) -> None:
        write(tmp_path / "bakery.toml", 'name = "a"\n').chmod(0)
        with refused("may not be read"):
            load.load(None, tmp_path)

    def test_unreadable_by_any_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "bakery.toml", 'name = "a"\n')

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        with refused("the file may not be read"):
            load.load(None, tmp_path)

    def test_folder_in_the_place_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "bakery.toml").mkdir()
        with refused("this is a folder"):
            load.load(None, tmp_path)

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
    def test_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "bakery.toml")
        with refused("not a regular file"):
            load.load(None, tmp_path)

    @pytest.mark.parametrize("target", ["bakery.toml", "gone.toml"])
    def test_link_that_leads_nowhere(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "bakery.toml").symlink_to(target)
        with refused("1 problem in bakery.toml"):
            load.load(None, tmp_path)


class TestWorkspace:
    def test_all(self, workspace: Path) -> None:
        recipes = load.load(None, workspace)
        assert names_of(recipes) == ["example-cuda", "example-cpp"]
        assert [item.folder for item in recipes] == ["examples/cuda", "examples/cpp"]
        assert {item.root for item in recipes} == {workspace}
        assert recipes[1].positions == {"name": 2, "builder": 3, "builder.base": 3}

    @pytest.mark.parametrize(
        "reference", ["example-cpp", "examples/cpp", "examples/cpp/pyproject.toml", "./examples/cpp/"]
    )
    def test_one_is_the_same_however_it_is_named(self, workspace: Path, reference: str) -> None:
        assert load.load(reference, workspace) == load.load(None, workspace)[1:]

    def test_one_is_usable_while_another_is_broken(self, workspace: Path) -> None:
        write(workspace / "examples/cuda/bakery.toml", "name = 1\n")
        assert names_of(load.load("example-cpp", workspace)) == ["example-cpp"]
        with refused("examples/cuda/bakery.toml:1: name:"):
            load.load("example-cuda", workspace)

    def test_all_files_problems_at_once(self, workspace: Path) -> None:
        write(workspace / "examples/cuda/bakery.toml", "name = 1\n")
        write(workspace / "examples/cpp/pyproject.toml", "[tool.wheel-bakery]\nname = 2\n")
        with pytest.raises(RecipeError) as caught:
            load.load(None, workspace)
        assert caught.value.message == "problems in 2 recipes"
        assert "examples/cuda/bakery.toml:1:" in details(caught)
        assert "examples/cpp/pyproject.toml:2:" in details(caught)

    def test_own_recipe_goes_first(self, workspace: Path) -> None:
        text = (workspace / "pyproject.toml").read_text().replace("[tool", '[tool.wheel-bakery]\nname = "root"\n[tool')
        write(workspace / "pyproject.toml", text)
        assert names_of(load.load(None, workspace)) == ["root", "example-cuda", "example-cpp"]

    def test_same_name_twice(self, workspace: Path) -> None:
        write(workspace / "examples/cuda/bakery.toml", 'name = "example-cpp"\n')
        with refused("two recipes are named 'example-cpp'"):
            load.load(None, workspace)

    def test_link_that_leaves(self, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        outside = tmp_path_factory.mktemp("outside")
        write(outside / "bakery.toml", 'name = "outside"\n')
        (workspace / "examples/link").symlink_to(outside)
        write(workspace / "pyproject.toml", '[tool.wheel-bakery.workspace]\nrecipes = ["examples/link"]\n')
        with refused("is outside the workspace"):
            load.load(None, workspace)


class TestPython:
    def test_good(self, tmp_path: Path) -> None:
        builder = Builder(toolkit="cuda", environment={"A": "${CUDA_VERSION}"})
        recipe = Recipe(name="a", variables={"CUDA_VERSION": Variable(default="13.0.2")}, builder=builder)
        assert from_python(recipe, tmp_path) == Loaded(recipe, None, tmp_path)

    def test_names_are_checked(self, tmp_path: Path) -> None:
        override = Override(where={}, variables={"GONE": "1"})
        recipe = Recipe(name="a", variables={"PATH": Variable(default="x")}, matrix=Matrix(overrides=(override,)))
        with pytest.raises(RecipeError) as caught:
            from_python(recipe, tmp_path)
        assert "variables.PATH: this name is taken" in details(caught)
        assert "matrix.overrides[0].variables.GONE" in details(caught)

    def test_free_axes_count(self, tmp_path: Path) -> None:
        matrix = Matrix(axes={"torch": ("2.8",)}, exclude=({"torch": "2.*"},))
        from_python(Recipe(name="a", matrix=matrix, builder=Builder(environment={"T": "${TORCH_VERSION}"})), tmp_path)


SCANNED = """\
# comment [not.a.table]
name = "x"
"quoted.key" = 1
text = \"\"\"
[no.table]
no = "key"
\"\"\"
single = '''
a = [
'''
list = [
  "a", # ] comment
  [1,
   2],
  { k = "}" , l.m = [ 3 ] },
]

[a.b]
c.d = 1
[[t.u]]
v = 1
[[t.u]]
v = 2
[t.u.w]
x = 3
[a]
"""


class TestPositions:
    @pytest.mark.parametrize("text", [SCANNED, SCANNED.replace("\n", "\r\n")])
    def test_everything(self, text: str) -> None:
        assert {dotted(path): line for path, line in positions(text).items()} == {
            "name": 2,
            '"quoted.key"': 3,
            "text": 4,
            "single": 8,
            "list": 11,
            "list[0]": 12,
            "list[1]": 13,
            "list[1][0]": 13,
            "list[1][1]": 14,
            "list[2]": 15,
            "list[2].k": 15,
            "list[2].l": 15,
            "list[2].l.m": 15,
            "list[2].l.m[0]": 15,
            "a": 26,
            "a.b": 18,
            "a.b.c": 19,
            "a.b.c.d": 19,
            "t": 20,
            "t.u": 20,
            "t.u[0]": 20,
            "t.u[0].v": 21,
            "t.u[1]": 22,
            "t.u[1].v": 23,
            "t.u[1].w": 24,
            "t.u[1].w.x": 25,
        }

    def test_nearest_parent(self) -> None:
        lines: dict[KeyPath, int] = {("a",): 3}
        assert line_of(lines, ("a", "b", 0)) == 3
        assert line_of(lines, ("z",)) == 1

    @given(st.text())
    @example('a = """')
    @example("[[[[")
    @example("a = [[[{{{")
    @example("a." * 200)
    def test_ends_on_any_text(self, text: str) -> None:
        with contextlib.suppress(TooMuch):
            positions(text)

    @given(st.text(alphabet="ab.=[]{}\"'#,\n\\ 1"))
    def test_ends_on_almost_toml(self, text: str) -> None:
        with contextlib.suppress(TooMuch):
            positions(text)


# TOML, written by hand: the writer knows the line of everything it writes.
KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6),
)
SCALARS = st.one_of(
    st.integers(-99, 99), st.booleans(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=3),
    lambda inner: st.dictionaries(KEYS, VALUES | inner | st.lists(inner, min_size=1, max_size=3), max_size=4),
    max_leaves=6,
)


class Writer:
    """Writes nested data as TOML and notes where each path went."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def mark(self, path: KeyPath) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def table(self, data: dict[str, object], path: KeyPath, header: str) -> None:
        later = []
        for key, value in data.items():
            is_list = isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
            if isinstance(value, dict) or is_list:
                later.append((key, value))
                continue
            self.mark((*path, key))
            self.text += f"{json.dumps(key, ensure_ascii=False)} = "
            self.value(value, (*path, key))
            self.text += " # [x]\n"
        for key, value in later:
            name = f"{header}.{json.dumps(key, ensure_ascii=False)}".lstrip(".")
            if isinstance(value, dict):
                self.mark((*path, key))
                self.text += f"[{name}]\n"
                self.table(value, (*path, key), name)
                continue
            self.mark((*path, key))
            assert isinstance(value, list)
            for index, item in enumerate(value):
                self.mark((*path, key, index))
                self.text += f"[[{name}]]\n"
                self.table(item, (*path, key, index), name)

    def value(self, value: object, path: KeyPath) -> None:
        if isinstance(value, list):
            self.text += "[\n"
            for index, item in enumerate(value):
                self.mark((*path, index))
                self.value(item, (*path, index))
                self.text += ",\n# ] }\n"
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for number, (key, item) in enumerate(value.items()):
                self.text += ", " if number else " "
                self.mark((*path, key))
                self.text += f"{json.dumps(key, ensure_ascii=False)} = "
                self.value(item, (*path, key))
            self.text += " }"
        else:
            self.text += json.dumps(value, ensure_ascii=False)


@given(TABLES)
def test_positions_of_written_toml(data: dict[str, object]) -> None:
    writer = Writer()
    writer.table(data, (), "")
    assert tomllib.loads(writer.text) == data
    assert positions(writer.text) == writer.lines


class TestAnyInput:
    @given(st.binary(max_size=300))
    def test_bytes(self, content: bytes) -> None:
        self.check(content)

    @given(st.text(max_size=200))
    def test_text(self, text: str) -> None:
        self.check(text.encode("utf-8", "surrogatepass"))

    @given(
        st.sampled_from(["name", "matrix.python", "matrix.x", "variables.A", "source", "builder", "wheel.repair"]),
        VALUES,
    )
    def test_any_value_anywhere(self, key: str, value: object) -> None:
        writer = Writer()
        writer.value(value, ())
        self.check(f"{key} = {writer.text}\n".encode())

    @given(TABLES)
    @example({"[key]": 1})
    @example({"variables": {"[key]": 1}})
    def test_any_table(self, data: dict[str, object]) -> None:
        writer = Writer()
        writer.table(data, (), "")
        self.check(writer.text.encode())

    def check(self, content: bytes) -> None:
        try:
            data = toml_file.parse(content, "bakery.toml").data
        except RecipeError as error:
            lines = error.details
        else:
            problems = load._problems(data)
            assert bool(problems) or find_problems(Recipe, data) == []
            lines = recipe_error("x", problems).details
        assert all(len(line) < 2000 and line.isprintable() for line in lines)


class TestWording:
    @pytest.mark.parametrize(
        ("path", "value", "secret"),
        [
            (("builder", "environment", "A"), "hunter2", True),
            (("wheel", "config-settings", "a"), "hunter2", True),
            (("variables", "API_TOKEN"), "hunter2", True),
            (("source", "git"), "https://me:pw@host/a.git", True),
            (("test", "command"), "curl -H ghp_0123456789abcdef0123", True),
            (("name",), "kernels", False),
            (("matrix", "author"), "x", False),
        ],
    )
    def test_secrets(self, path: tuple[str, ...], value: str, secret: bool) -> None:
        assert is_private(path, value) is secret
        assert (value in describe(value, path)) is not secret

    def test_values_are_short_and_printable(self) -> None:
        assert shorten("a\x1b[31m\n\u202e" + "b" * 100) == "a\\x1b[31m\\n\\u202e" + "b" * 52 + "…"

    def test_nearest_ignores_case_and_underscores(self) -> None:
        assert nearest("System_Packages", ["system-packages", "network"]) == "system-packages"
        assert nearest("zzz", ["name"]) is None

    def test_most(self) -> None:
        error = recipe_error("x", [Problem(("a", index), "bad", "fix") for index in range(250)])
        assert error.message == "250 problems in x"
        assert error.details[-1] == "and 150 more"


# --- files that are out to take long, or to be shown

BEGIN = 'name = "a"\n'
MANY = 9_500


def numbered(text: str, number: int) -> str:
    """Return a text again and again, with a number in place of ``%d``."""
    return "".join(text.replace("%d", str(item)) for item in range(number))


LONG = {
    "a key of many parts": "a" + ".a" * 50_000 + " = 1\n",
    "a table of many parts": "[a" + ".a" * 50_000 + "]\n",
    "many long keys": numbered("a." * 18 + "k%d = 1\n", MANY),
    "nested lists": "a = " + "[" * 900 + "1," * 100_000 + "]" * 900 + "\n",
    "nested tables": "a = " + "{a = " * 300 + "1" + "}" * 300 + "\n",
    "a key behind a deep list": "a = " + "[" * 101 + "\"x, '''\"" + "]" * 101 + "\nb" + ".b" * 50_000 + " = 1\n",
    "unknown keys": numbered("k%d = 1\n", 100_000),
    "fewer unknown keys": numbered("k%d = 1\n", MANY),
    "wrong values": "[matrix]\npython = [" + "1," * MANY + "]\n",
    "wrong requirements": "[builder]\nrequirements = [" + '"a(",' * MANY + "]\n",
    "a long requirement": "[builder]\nrequirements = ['a " + ">1," * 200_000 + "']\n",
    "many axes": "[matrix]\n" + numbered("a%d = ['0']\n", 4_500) + "include = 1\n",
    "what looks like a password": "description = 5 ://" + "a:" * 400_000 + "\n",
    "unknown variables": "native = { into = 'x', command = '" + numbered("${A%d}", 60_000) + "' }\n[variables]\n"
    "" + numbered("B%d = '1'\n", 15_000),
    "many patterns": "[source]\nignore = [" + numbered("'*a%d*',", MANY) + "]\n",
    "a long pattern": "[source]\nignore = ['" + "*a" * 200_000 + "b']\n",
    "many recipes": "[workspace]\nrecipes = [" + numbered("'k%d',", MANY) + "]\n",
}


@pytest.mark.parametrize("name", sampled(LONG, 4))
def test_no_text_keeps_the_loader_busy(tmp_path: Path, name: str) -> None:
    write(tmp_path / "bakery.toml", BEGIN + LONG[name])
    began = time.process_time()
    with pytest.raises(RecipeError):
        load.load(None, tmp_path)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["bakery.toml", "pyproject.toml"])
def test_a_link_out_of_the_project_is_not_read(tmp_path: Path, name: str) -> None:
    project, private = tmp_path / "project", tmp_path / "private"
    project.mkdir()
    private.write_text("canary = the first line\n")
    (project / name).symlink_to(private)
    for reference in (None, f"./{name}", "."):
        with pytest.raises(RecipeError) as caught:
            load.load(reference, project)
        assert "a link to a file outside the project" in details(caught)
        assert "canary" not in details(caught)
    # One that stays inside is read.
    (project / "sub").mkdir()
    (project / name).unlink()
    write(project / "real.toml", BEGIN)
    (project / "sub" / "bakery.toml").symlink_to("../real.toml")
    (item,) = load.load("./sub", project)
    assert item.recipe.name == "a"


def test_two_recipes_in_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text('name = "one"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "one"\n')
    assert [item.recipe.name for item in load.load(None, tmp_path)] == ["one"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "one"\n[tool.wheel-bakery]\nname = "two"\n')
    with pytest.raises(RecipeError) as caught:
        load.load(None, tmp_path)
    assert caught.value.details == (
        "pyproject.toml:3: tool.wheel-bakery: bakery.toml beside this file has a recipe, too; only one of them is read",
        "    move what you need to bakery.toml, and remove this table",
    )


def test_a_recipe_of_a_folder_above_is_named(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text('name = "one"\n')
    inner = tmp_path / "src" / "pkg"
    inner.mkdir(parents=True)
    with pytest.raises(RecipeError) as caught:
        load.load(None, inner)
    assert "a folder above has one: `wheel-bakery -C ../.. …` uses it" in caught.value.details
