"""Bakery's own variables are known, no recipe gets them, and no program that Bakery starts inherits an environment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from own_sources import nodes, trees

import bakery
import bakery_iree
import wheel_audit
from bakery.core.environment import OWN, PREFIX, for_stranger, for_tool
from bakery.core.errors import RecipeError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

TOPS = (Path(bakery.__file__).parent, Path(wheel_audit.__file__).parent, Path(bakery_iree.__file__).parent)
IN_IMAGES = ("toolchains/programs/", "programs/", "release/programs/", "emit.py")
"""What runs elsewhere, with an environment of its own."""

EXAMPLES = {"CUDA_VERSION", "COMPILER_CACHE_", "COMPILER_CACHE_READ_"}
"""A variable of a recipe, and parts of names in a template."""


def sources(*suffixes: str) -> Iterator[tuple[str, str]]:
    for top in TOPS:
        for path in sorted(top.rglob("*")):
            name = path.relative_to(top).as_posix()
            if path.suffix in suffixes and not name.startswith(IN_IMAGES):
                yield name, path.read_text()


def test_the_list_of_own_variables_is_that_of_the_source() -> None:
    found = {
        name
        for file, text in sources(".py", ".j2", ".toml")
        for name in re.findall(rf"(?<![A-Z_]){PREFIX}([A-Z_]+)", text)
    }
    # Read by a prefix: their names stand in the table of settings.
    by_prefix = {"BASE_DIGEST", "CACHE_DIR"}
    assert found - EXAMPLES == OWN - by_prefix


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_recipe_has_no_variable_of_an_own_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "bakery.toml"
    for text in (f'[variables]\n{name} = "none"\n', f'[matrix]\n{name.lower().replace("_", "-")} = ["none"]\n'):
        file.write_text(f'name = "demo"\n{text}')
        with pytest.raises(RecipeError) as caught:
            load(None, tmp_path)
        assert "another meaning to Docker, bake or Bakery" in str(caught.value.details)


def test_no_value_of_a_setting_is_an_own_variable_s(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[variables]\nMINE = "none"\n')
    settings = {"CACHE", "CACHE_BRANCH", "CACHE_DIR", "CACHE_READ_ONLY", "CACHE_REF", "BASE_REGISTRY", "BASE_DIGEST"}
    environ = {f"{PREFIX}{name}": "canary" for name in OWN - settings}
    plan = resolve(load(None, tmp_path)[0], None, environ)
    assert "canary" not in str([*plan.origins.values(), plan.values()])


@pytest.mark.parametrize(
    "name", ["BAKERY_CACHE_KEY", "BAKERY_COMPILER_CACHE_PASSWORD", "bakery_cache_key", "ACTIONS_RUNTIME_TOKEN",
             "ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
)  # fmt: skip
def test_no_secret_is_an_own_variable(tmp_path: Path, name: str) -> None:
    (tmp_path / "bakery.toml").write_text(f'name = "demo"\n[secrets.t]\nenv = "{name}"\nsteps = ["compile"]\n')
    with pytest.raises(RecipeError) as caught:
        load(None, tmp_path)
    assert "belongs to Bakery or to the CI runner" in str(caught.value.details)


MACHINE = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "BAKERY_CACHE_KEY": "canary",
    "BAKERY_COMPILER_CACHE_PASSWORD": "canary",
    "ACTIONS_RUNTIME_TOKEN": "canary",
    "HF_TOKEN": "mine",
    "PIP_INDEX_URL": "https://me:mine@index.example",
    "ARTIFACTORY_PASSWORD": "mine",
    "LIBRARY_TOKEN": "mine",
}


def test_a_tool_gets_no_variable_of_bakery() -> None:
    given = for_tool(MACHINE, {"MORE": "1"})
    assert "canary" not in given.values()
    assert given["HF_TOKEN"] == "mine"
    assert given["MORE"] == "1"
    assert for_tool(MACHINE, keeps=["ACTIONS_RUNTIME_TOKEN"])["ACTIONS_RUNTIME_TOKEN"] == "canary"


def test_a_stranger_gets_nothing_that_may_hold_a_credential() -> None:
    assert for_stranger(MACHINE) == {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C"}
    assert for_stranger(MACHINE, keeps=["PIP_", "LIB", "AR"]).keys() == {"PATH", "HOME", "LC_ALL", "PIP_INDEX_URL"}


# --- every call that starts a program says what environment it gets ---------------------------------

STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}


@cache
def makers() -> set[str]:
    """Return the functions that return a `CleanEnvironment`, as mypy checks."""
    functions = [node for tree in trees().values() for node in nodes(tree) if isinstance(node, ast.FunctionDef)]
    return {item.name for item in functions if item.returns and ast.unparse(item.returns) == "CleanEnvironment"}


def starts_program(call: ast.Call) -> bool:
    name = call.func
    if isinstance(name, ast.Name):
        return name.id == "Popen"
    if not (isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name)):
        return False
    module, method = name.value.id, name.attr
    return (module == "subprocess" and method in STARTS) or (
        module == "os" and (method.startswith(("exec", "spawn", "posix_spawn", "popen")) or method == "system")
    )


def made(expression: ast.AST, function: ast.AST) -> bool:
    """Say whether an environment comes from one of the two functions: called here, or a parameter of their type."""
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        return expression.func.id in makers()
    if not isinstance(expression, ast.Name):
        return False
    arguments = function.args if isinstance(function, ast.FunctionDef) else None
    typed = {
        item.arg
        for item in ([*arguments.args, *arguments.kwonlyargs] if arguments else [])
        if isinstance(item.annotation, ast.Name) and item.annotation.id == "CleanEnvironment"
    }
    assigned, rebound = (
        {
            target.id
            for node in nodes(function)
            if isinstance(node, ast.Assign) and made(node.value, ast.Pass()) is is_made
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for is_made in (True, False)
    )
    return expression.id in (typed | assigned) - rebound


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield every call with the function that it stands in."""
    pending = [(tree, tree)]
    while pending:
        node, function = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield child, function
            pending.append((child, child if isinstance(child, ast.FunctionDef) else function))


def offences(name: str, tree: ast.AST) -> Iterator[str]:
    for call, function in calls(tree):
        if (
            isinstance(call.func, ast.Name)
            and call.func.id == "CleanEnvironment"
            and not name.endswith("environment.py")
        ):
            yield f"{name}:{call.lineno} makes an environment of its own"
        if starts_program(call):
            given = [word.value for word in call.keywords if word.arg == "env"]
            if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("posix_spawn"):
                given = call.args[2:3]
            if not (given and made(given[0], function)):
                yield f"{name}:{call.lineno} starts a program whose environment is not for_tool(…) or for_stranger(…)"


def test_programs_get_an_environment_that_was_made_for_them() -> None:
    assert [wrong for name, tree in trees().items() for wrong in offences(name, tree)] == []


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(['x'])",
        "subprocess.run(['x'], env=os.environ)",
        "subprocess.Popen(['x'], env={**os.environ, 'A': 'b'})",
        "subprocess.run(['x'], env=dict(environ))",
        "subprocess.run(['x'], env=for_tool() | os.environ)",
        "def f(environ: Mapping[str, str]): subprocess.run(['x'], env=environ)",
        "def f():\n    e = for_tool()\n    e = os.environ\n    subprocess.run(['x'], env=e)",
        "os.system('x')",
        "os.posix_spawnp('x', ['x'], os.environ)",
        "CleanEnvironment(dict(os.environ))",
    ],
)
def test_another_environment_is_found(text: str) -> None:
    assert list(offences("core/x.py", ast.parse(text)))


def test_what_is_made_for_them_is_allowed() -> None:
    fine = "def f(environ: CleanEnvironment): subprocess.run(['x'], env=environ)\nsubprocess.run(['x'], env=for_tool(a, b))"
    assert not list(offences("core/x.py", ast.parse(fine)))
