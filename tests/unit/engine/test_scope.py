"""Whose cache mounts a bake uses: nobody but the user decides it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bakery.core.errors import OutputError, RecipeError
from bakery.engine.cache_scope import KEY_VARIABLE, cache_scope
from bakery.recipe.load import load


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder), **more}


def test_projects_recipes_and_users_have_scopes_of_their_own(tmp_path: Path) -> None:
    mine, yours = environ(tmp_path / "mine"), environ(tmp_path / "yours")
    points = [
        cache_scope(user, root, recipe)
        for user in (mine, yours)
        for root in (tmp_path / "a", tmp_path / "b")
        for recipe in ("x", "y")
    ]
    assert len(set(points)) == 8
    assert all(re.fullmatch("[0-9a-f]{32}", scope) for scope in points)
    assert cache_scope(mine, tmp_path / "a", "x") == points[0]
    # Recipes of the project's own source share its mounts; with a source from elsewhere they do not.
    shared = {cache_scope(mine, tmp_path / "a", recipe, is_own=True) for recipe in ("x", "y")}
    assert len(shared) == 1
    assert not shared & set(points)
    # A link is no other project, and names that run into each other are two.
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert cache_scope(mine, tmp_path / "link", "x") == points[0]


def test_a_key_stands_for_user_and_path(tmp_path: Path) -> None:
    one = cache_scope(environ(tmp_path / "mine", **{KEY_VARIABLE: "k"}), tmp_path / "a", "x")
    assert cache_scope(environ(tmp_path / "yours", **{KEY_VARIABLE: "k"}), tmp_path / "b", "x") == one
    assert cache_scope(environ(tmp_path / "mine", **{KEY_VARIABLE: "l"}), tmp_path / "a", "x") != one
    assert cache_scope(environ(tmp_path / "mine", **{KEY_VARIABLE: "k"}), tmp_path / "a", "y") != one
    # Nothing was written for it.
    assert not (tmp_path / "mine").exists()


def test_the_key_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "state" / "bakery"
    with ThreadPoolExecutor(16) as pool:
        scopes = set(pool.map(lambda _: cache_scope(environ(state.parent), tmp_path, "x"), range(64)))
    assert len(scopes) == 1
    assert [path.name for path in state.iterdir()] == ["cache-key"]
    assert (state / "cache-key").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o077 == 0


def test_the_key_lies_in_the_user_s_state(tmp_path: Path) -> None:
    cache_scope({"XDG_STATE_HOME": str(tmp_path / "xdg")}, tmp_path, "x")
    cache_scope({"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": "relative"}, tmp_path, "x")
    assert (tmp_path / "xdg" / "bakery" / "cache-key").is_file()
    assert (tmp_path / "home" / ".local" / "state" / "bakery" / "cache-key").is_file()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bakery").mkdir()
    (tmp_path / "bakery" / "cache-key").write_bytes(content)
    with pytest.raises(OutputError, match="cache-key is damaged"):
        cache_scope(environ(tmp_path), tmp_path, "x")


def test_a_state_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="the key of this user's cache mounts: Not a directory") as caught:
        cache_scope(environ(tmp_path / "file" / "state"), tmp_path, "x")
    assert KEY_VARIABLE in caught.value.hint


def test_a_path_of_any_bytes_has_a_scope(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert cache_scope(environ(tmp_path), folder, "x") != cache_scope(environ(tmp_path), tmp_path, "x")


@pytest.mark.parametrize("name", ["CACHE_KEY", "BUILDKIT_CACHE_MOUNT_NS", "CACHE_READ_ONLY"])
def test_no_recipe_has_a_variable_that_would_hold_it(tmp_path: Path, name: str) -> None:
    """``BAKERY_CACHE_KEY`` would be the value of a variable CACHE_KEY, which steps see."""
    (tmp_path / "bakery.toml").write_text(f'name = "demo"\n[variables]\n{name} = "x"\n')
    with pytest.raises(RecipeError) as caught:
        load(None, tmp_path)
    assert "this name is taken" in caught.value.details[0]


def test_what_needs_no_build_needs_no_key() -> None:
    code = "import sys, bakery.cli.app; print('bakery.engine.cache_scope' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
