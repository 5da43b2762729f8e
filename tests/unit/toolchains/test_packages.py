"""Which steps of a plan install packages, and what they may reach."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bakery.core.errors import RecipeError
from bakery.plan.dockerfile import Command, Run, Script
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

# --- the steps of a plan

MORE = {
    "folder": 'variables.CUDA_VERSION = "13.0.3"\n[builder]\ntoolkit = "cuda"\ncomponents = ["cublas"]\n[test]\nrequirements = ["pytest"]\n',
    "sdist": 'source = "sdist:ujson==5.10.0"\n',
    "native": '[native]\ncommand = "make"\ninto = "x"\nrequirements = ["cmake"]\nsystem-packages = ["curl"]\n',
    "image": '[image]\nrequirements = ["cmake"]\n',
    "plain": '[builder]\nbase = { image = "quay.io/x/builder:1" }\n[test]\nimports = ["demo"]\n',
}


@pytest.mark.parametrize("more", MORE)
def test_steps_with_credentials_start_no_python_with_packages(tmp_path: Path, more: str) -> None:
    """Python reads no ``.pth`` file there; what builds sources has neither credentials nor network nor pip's cache."""
    steps = '"requirements", "fetch"' if more == "sdist" else '"requirements"'
    text = f'name = "demo"\nsecrets.token = {{ env = "TOKEN", steps = [{steps}] }}\n{MORE[more]}'
    (tmp_path / "bakery.toml").write_text(text)
    (loaded,) = load(None, tmp_path)
    found = {"private": 0, "building": 0}
    for step in (step for stage in resolve(loaded).stages for step in stage.steps if isinstance(step, Run)):
        mounted = {mount.id for mount in step.mounts}
        private = mounted & {"pip-conf", "token"}
        words = " ".join(map(text_of, step.commands))
        if private:
            found["private"] += 1
            assert re.search(r"/programs/net .*-I -S /programs/packages (?!build)", words), words
            assert not re.search(r"python (?!-I -S)", words.replace("find-python", "")), words
        if "/programs/packages build" in words:
            found["building"] += 1
            assert (private, step.network) == (set(), False)
        if "bakery-pip" in mounted:
            assert private, words
    assert found["private"] >= 2
    assert found["building"] >= 1


def text_of(command: Command | Script) -> str:
    if isinstance(command, Script):
        return command.text
    return " ".join("".join(part if isinstance(part, str) else part.name for part in word) for word in command.words)


@pytest.mark.parametrize("table", ["builder", "native", "test", "image"])
def test_a_recipe_s_own_requirement_by_address_is_told_with_its_line(tmp_path: Path, table: str) -> None:
    more = 'command = "x"\ninto = "y"\n' if table == "native" else ""
    text = (
        f'name = "demo"\n[{table}]\n{more}requirements = [\n    "Own @ https://t0ken@host/own-1-py3-none-any.whl",\n]\n'
    )
    (tmp_path / "bakery.toml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load(None, tmp_path)
    said = "\n".join([caught.value.message, *caught.value.details, caught.value.hint])
    assert "is a URL, not a package of the index" in said
    assert 'builder.allow-direct = ["Own"]' in said
    assert "t0ken" not in said
    assert f"bakery.toml:{text.splitlines().index('requirements = [') + 2}" in said
    allowed = "allow-direct = ['own']\n"
    text = (
        text.replace("requirements", f"{allowed}requirements") if table == "builder" else f"{text}[builder]\n{allowed}"
    )
    (tmp_path / "bakery.toml").write_text(text)
    load(None, tmp_path)
