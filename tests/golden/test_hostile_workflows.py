"""Recipes whose texts are out to be more than text: what of them stands in a workflow, and what is refused."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import plans
import pytest
from pydantic import ValidationError
from workflow_judges import STRICT, parsed, schema_errors, zizmor

from bakery.core.errors import PlanError, RecipeError
from bakery.emit.files import generate
from bakery.recipe.load import load
from bakery.recipe.models import Ci
from bakery.resolve.delivery import workflow_settings
from bakery.resolve.plan import resolve
from bakery_iree.emit import module_workflow
from bakery_iree.errors import ModuleError
from bakery_iree.job.load import load as load_job
from bakery_iree.job.resolve import resolve as resolve_job
from bakery_iree.plan import JobFile
from bakery_iree.workspace import job_files

ATOMS = (
    *("'", '"', "''", '"""', "\\", "\\n", "\\u0041", "$(touch x)", "`touch x`", "$HOME", "$", "$$", "{{", "}}", "%0A"),
    *(
        ": ",
        " #",
        "- ",
        "? ",
        *["#", "-", "!", "|", ">", "%", "@", ",", "[", "]", "{", "}", "&a", "*a", "!!python/object"],
    ),
    *("~", "null", "true", "No", "0x10", "1e3", ".5", ".inf", "12:30:45", "2001-01-01", "=", "<<", "---", "...", "._1"),
    *(";", "&&", "||", "<", "> /etc/x", "!(a)", "{a,b}", "\u200b", "\u202e", "\ufeff", "\ufffe", "\uffff", "\ud7ff"),
    *("\ue000", "ü", "e\u0301", "𝒳", "\U0010ffff", "::add-mask::x", "::stop-commands::", "secrets.A", "on", "jobs:"),
    *("x" * 3000, " ", "  ", "a", "B", "0"),
)
"""None of them holds what is refused: line ends, control characters, an expression."""


def text(dice: random.Random, most: int = 8) -> str:
    return "".join(dice.choice(ATOMS) for _ in range(dice.randint(1, most))).replace("${{", "{{")


def folder(dice: random.Random) -> str:
    # `${` is a reference there; a leading dash or tilde and a way out are refused.
    return "d" + text(dice).replace("..", "").replace("${", "")


def ref(dice: random.Random) -> str:
    # What names no branch is refused.
    kept = re.sub(r"[\s~^:\\?*+\[\]]|\.\.|//", "", text(dice))
    return f"b{kept}e".replace("..", "").replace("${{", "{{")


Texts = dict[str, str]

PLACES = ("branch", "tag", "arm", "amd", "install", "publish", "url", "output", "file", "cache", "axis")


def hostile(dice: random.Random) -> Texts:
    found = {place: text(dice) for place in PLACES}
    name = "".join(dice.choice("abc.-_") for _ in range(5))
    address = f"https://example.com/{name}?{text(dice)}".replace(" ", "").replace("${{", "{{")
    requirement = f"wheel-bakery @ {address}"
    refs = {"branch": ref(dice), "tag": ref(dice)}
    return {
        **found,
        **refs,
        "output": folder(dice),
        "install": requirement,
        "file": folder(dice),
        "cache": f"/{folder(dice)}",
    }


BENIGN = {
    **{place: f"{place}-placeholder" for place in PLACES},
    "install": "wheel-bakery==1.0",
    "cache": "/cache-placeholder",
}


def toml(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def recipe(texts: Mapping[str, str], axis: str) -> str:
    given = {place: toml(value) for place, value in texts.items()}
    return f"""\
name = "hostile"
description = {given["branch"]}
platforms = ["linux/amd64", "linux/arm64"]
[matrix]
python = ["3.13"]
flavour = [{toml(axis)}]
[builder]
environment = {{ FLAVOUR = "${{FLAVOUR}}" }}
[output]
directory = {given["output"]}
[cache]
backend = "local"
directory = {given["cache"]}
[secrets.one]
env = "TOKEN"
steps = ["compile"]
[secrets.two]
file = {given["file"]}
steps = ["compile"]
[secrets.three]
command = [{given["tag"]}]
steps = ["compile"]
[ci]
branches = [{given["branch"]}]
tags = [{given["tag"]}]
runners = {{ "linux/amd64" = {given["amd"]}, "linux/arm64" = {given["arm"]} }}
install = [{given["install"]}]
publish = {given["publish"]}
publish-url = {given["url"]}
pages = true
"""


def workflow(place: Path, texts: Mapping[str, str], axis: str) -> str:
    plan = plans.written(place, recipe(texts, axis))
    return generate(plan)[plan.workflow]


def module_jobs(place: Path, path: str) -> str:
    (place / "m.mlir").write_text("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
    (place / "job.json").write_text('{"version": 1, "targets": ["cpu:x86-64-v3"], "modules": [{"input": "m.mlir"}]}')
    job = JobFile(path, resolve_job(load_job(place / "job.json", "job.json")))
    ci = workflow_settings(Ci(install=("wheel-bakery==1.0",)))
    return module_workflow([job], ci, lambda recipe, version, machine: f"{recipe}:{version}-{machine}")


def filled(value: Any, texts: Iterable[tuple[str, str]]) -> Any:
    """Return a document with the hostile texts in the places of the harmless ones."""
    if isinstance(value, dict):
        return {key: filled(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, texts) for item in value]
    if isinstance(value, str):
        for old, new in texts:
            value = value.replace(old, new)
    return value


def made(place: Path, count: int) -> list[Path]:
    """Write that many workflows; each says what a harmless recipe's does, with other texts."""
    found = []
    for number in range(count):
        dice = random.Random(number)
        texts, axis = hostile(dice), text(dice)
        path = place / f"recipe-{number}.yml"
        path.write_text(workflow(place, texts, axis), encoding="utf-8")
        # NFC is what the loader makes of every text.
        pairs = [(BENIGN[name], unicodedata.normalize("NFC", value)) for name, value in texts.items()]
        assert parsed(path.read_text()) == filled(parsed(workflow(place, BENIGN, axis)), pairs), texts
        found.append(path)
        if number % 10 == 0:
            path = place / f"job-{number}.yml"
            name = text(dice)
            path.write_text(module_jobs(place, name), encoding="utf-8")
            one = parsed(module_jobs(place, "job-placeholder"))
            two = parsed(path.read_text())
            rows = [item["jobs"]["modules"]["strategy"]["matrix"]["include"] for item in (one, two)]
            # The name is made of the path, with the characters that artifacts may have.
            rows[0][0]["name"] = rows[1][0]["name"]
            assert two == filled(one, [("job-placeholder", name)])
            found.append(path)
    return found


def judge(files: list[Path]) -> None:
    assert schema_errors("github-workflows", files) == []
    assert zizmor(*STRICT, *files) == ""


def test_hostile_texts_are_texts(tmp_path: Path) -> None:
    judge(made(tmp_path, 6))


@pytest.mark.proof
def test_200_recipes_with_hostile_texts(tmp_path: Path) -> None:
    judge(made(tmp_path, 200))


def test_no_text_of_a_recipe_is_in_a_script(tmp_path: Path) -> None:
    scripts = [
        [
            step["run"]
            for job in parsed(workflow(tmp_path, texts, "a"))["jobs"].values()
            for step in job["steps"]
            if "run" in step
        ]
        for texts in (BENIGN, {**BENIGN, **{place: f"other-{BENIGN[place]}" for place in ("output", "file", "tag")}})
    ]
    assert scripts[0] == scripts[1]
    assert not any("placeholder" in script for script in scripts[0])


EXPRESSION = "${{ github.event.pull_request.title }}"


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("branch", "ci.branches[0]"),
        ("tag", "ci.tags[0]"),
        ("amd", 'ci.runners."linux/amd64"'),
        ("install", "ci.install[0]"),
        ("publish", "ci.publish"),
        ("url", "ci.publish-url"),
        ("output", "output.directory"),
        ("file", "secrets.two.file"),
        ("cache", "cache.directory"),
    ],
)
def test_an_expression_is_refused_with_its_line(tmp_path: Path, place: str, key: str) -> None:
    value = f"{BENIGN[place]}{EXPRESSION}" if place != "install" else f"wheel-bakery @ https://host/{EXPRESSION}"
    written = recipe({**BENIGN, place: value.replace(" ", "")}, "a")
    (tmp_path / "bakery.toml").write_text(written)
    with pytest.raises(RecipeError) as caught:
        load(None, tmp_path)
    lines = [number for number, said in enumerate(written.splitlines(), 1) if "${{" in said]
    told = [f"bakery.toml:{line}: {key}: expected no '${{{{'" for line in lines]
    assert any(detail.startswith(start) for detail in caught.value.details for start in told)


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        *["a~", "a^", "a:b", "a\\", "a..b", "/a", "a/", "a//b", "a.", "[a", "a]", "[]", "[z-a]", "?", "+", "a?+", "!"],
    ],
)
def test_a_filter_that_github_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="expected a filter of branches"):
        Ci(branches=(name,))


@pytest.mark.parametrize("name", ["main", "release/*", "**", "v[0-9]+.[0-9]+", "!old/**", "feature-ü", "v?x*", "a@b#c"])
def test_a_filter_that_github_takes(name: str) -> None:
    assert Ci(tags=(name,)).tags == (name,)


def test_an_expression_in_a_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bakery-iree.toml").write_text(f'jobs = ["{EXPRESSION}.json"]\n')
    with pytest.raises(RecipeError) as caught:
        job_files(tmp_path)
    assert any("bakery-iree.toml:1: jobs[0]: expected no '${{'" in detail for detail in caught.value.details)
    (tmp_path / "m.mlir").write_text("module {}")
    job = {"version": 1, "output": EXPRESSION, "targets": ["cpu"], "modules": [{"input": "m.mlir"}]}
    (tmp_path / "job.json").write_text(json.dumps(job, indent=1))
    with pytest.raises(ModuleError) as refused:
        load_job(tmp_path / "job.json", "job.json")
    assert refused.value.details[0].startswith("job.json:3: output: expected no '${{'")


def test_no_expression_comes_by_another_way(tmp_path: Path) -> None:
    """Whatever leads a text to the workflow, what writes it refuses an expression that is not bakery's."""
    with pytest.raises(PlanError, match="is not allowed in a workflow"):
        module_jobs(tmp_path, EXPRESSION)


def test_a_source_file_of_any_name_is_a_comment(tmp_path: Path) -> None:
    plan = resolve(load("ujson", tmp_path)[0])
    plan = replace(plan, source_file="a\x07\u2028\ufffe\nname: evil\n#")
    assert plan.ci is None
    ci = workflow_settings(Ci(install=("wheel-bakery==1.0",)))
    text = generate(replace(plan, ci=ci))[plan.workflow]
    assert parsed(text)["name"] == "wheels of ujson"
