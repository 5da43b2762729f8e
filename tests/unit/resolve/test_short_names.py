"""Bases by short name: which image each cell gets, and what a recipe or the environment may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plans import plan_with

from bakery.core.errors import AuditError, PlanError, RecipeError, UsageError
from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations, identifier
from bakery.emit.dockerfile import dockerfile
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.recipe.load import load
from bakery.release.verify import verify
from bakery.resolve.rules.subject import subjects
from bakery.toolchains.facts import pinned_images

DIGEST = "sha256:" + "0" * 64
BOTH = ["linux/amd64", "linux/arm64"]
PLACES = {name: rows[0].image.rpartition("/")[0] for name, rows in pinned_images().items()}


def plan_of(base: object, *sets: str, environ: dict[str, str] | None = None, **parts: Any) -> Plan:
    builder = {"base": base, **parts.pop("builder", {})}
    return plan_with(*sets, root=Path("/project"), environ=environ, **{"name": "demo", "builder": builder, **parts})


def refs(plan: Plan) -> list[str]:
    return [image.ref for cell in plan.cells for image in cell.images]


@pytest.mark.parametrize("name", pinned_images())
def test_each_platform_has_its_image(name: str) -> None:
    plan = plan_of(name, platforms=BOTH, matrix={"python": ["3.12"]})
    rows = pinned_images()[name]
    assert refs(plan) == [f"{row.image}:{row.tag}" + (f"@{row.digest}" if row.digest else "") for row in rows]
    assert [plan.cells[0].platform, plan.cells[1].platform] == BOTH
    text = dockerfile(plan)
    for row, platform in zip(rows, ("amd64", "arm64"), strict=True):
        assert f"FROM ${{BASE_REGISTRY}}{row.image.removeprefix(PLACES[name])}:{row.tag}" in text
        assert f" AS base-{platform}\n" in text
    assert "FROM base-${TARGETARCH} AS root\n" in text
    # BuildKit sets it: a default would be the same for all platforms.
    assert "ARG TARGETARCH=" not in text
    assert f'ARG BASE_REGISTRY="{PLACES[name]}"\n' in text


def test_every_python_of_the_image_is_accepted() -> None:
    pythons = pinned_images()["manylinux_2_28"][0].pythons
    assert {"3.10", "3.12", "3.14t", "3.15"} <= set(pythons)
    plan = plan_of("manylinux_2_28", matrix={"python": list(pythons)})
    assert [cell.axes["python"] for cell in plan.cells] == list(pythons)
    assert len(set(refs(plan))) == 1


@pytest.mark.parametrize(("python", "hint"), [("3.8", "TAG from before 2026-05-07"), ("3.16", "it has 3.9, 3.10")])
def test_python_that_the_image_lacks(python: str, hint: str) -> None:
    with pytest.raises(PlanError, match=f"base 'manylinux_2_28' has no Python {python}") as raised:
        plan_of("manylinux_2_28", matrix={"python": [python]})
    assert hint in (raised.value.hint or "")
    assert ("TAG" in (raised.value.hint or "")) is (python == "3.8")


@pytest.mark.parametrize(("python", "hint"), [("3.12", 'use base = "manylinux_2_28"'), ("3.8", "name an image")])
def test_debian_names_the_base_that_has_the_python(python: str, hint: str) -> None:
    with pytest.raises(PlanError, match=f"base 'debian' has no Python {python}") as raised:
        plan_of("debian", matrix={"python": [python]})
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("base", "sets", "environ"),
    [
        ({"provider": "manylinux_2_28", "registry": "m.example:5000/pypa"}, (), {}),
        ("manylinux_2_28", ("BASE_REGISTRY=m.example:5000/pypa",), {}),
        ("manylinux_2_28", (), {"BAKERY_BASE_REGISTRY": "m.example:5000/pypa"}),
    ],
)
def test_mirror_has_the_same_images(base: object, sets: tuple[str, ...], environ: dict[str, str]) -> None:
    plan = plan_of(base, *sets, environ=environ)
    row = pinned_images()["manylinux_2_28"][0]
    assert refs(plan) == [f"m.example:5000/pypa/manylinux_2_28_x86_64:{row.tag}@{row.digest}"]
    assert 'default     = "m.example:5000/pypa"' in bakefile(plan)


@pytest.mark.parametrize(
    ("base", "name", "mirrored"),
    [
        ("debian", "manylinux_2_28", {"linux/arm64"}),
        ("${NAME}", "manylinux_2_28", {"linux/amd64", "linux/arm64"}),
        ("${NAME}", "debian", None),
        ("debian", "debian", None),
    ],
)
def test_a_mirror_is_for_the_cells_that_have_such_a_base(base: str, name: str, mirrored: set[str] | None) -> None:
    def plan() -> Plan:
        overrides = [{"where": {"platform": "linux/arm64"}, "builder": {"base": name}}]
        matrix = {"python": ["3.11"], "overrides": overrides}
        mirror = "BASE_REGISTRY=mirror.example/pypa"
        return plan_of(base, mirror, platforms=BOTH, variables={"NAME": name}, matrix=matrix)

    if mirrored is None:
        with pytest.raises(UsageError, match="the recipe has no such variable"):
            plan()
    else:
        cells = plan().cells
        assert {cell.platform for cell in cells if cell.images[0].ref.startswith("mirror.example/pypa/")} == mirrored


def test_image_of_ones_own_has_another_digest() -> None:
    plan = plan_of("manylinux_2_28", environ={"BAKERY_BASE_DIGEST": DIGEST})
    assert refs(plan)[0].endswith(f"@{DIGEST}")
    assert refs(plan) == refs(plan_of({"provider": "manylinux_2_28", "digest": DIGEST}))
    # It is no base's with a name of its own.
    assert DIGEST not in refs(plan_of({"image": "a/b:1"}, environ={"BAKERY_BASE_DIGEST": DIGEST}))[0]
    with pytest.raises(PlanError, match="one digest cannot pin base 'manylinux_2_28'"):
        plan_of({"provider": "manylinux_2_28", "digest": DIGEST}, platforms=BOTH)
    with pytest.raises(PlanError, match="is not the digest"):
        plan_of("manylinux_2_28", environ={"BAKERY_BASE_DIGEST": "latest"})
    with pytest.raises(PlanError) as raised:
        plan_of("manylinux_2_28", environ={"BAKERY_BASE_REGISTRY": "https://m.example"})
    assert "BASE_REGISTRY: expected a registry" in raised.value.details[0]


def test_a_stage_digest_follows_the_platform_and_the_image() -> None:
    plan = plan_of("manylinux_2_28", platforms=BOTH)
    first, second = (Lineage(plan).of(cell) for cell in plan.cells)
    assert {"base-amd64", "base-arm64"} & set(first) == {"base-amd64"}
    assert {"base-amd64", "base-arm64"} & set(second) == {"base-arm64"}
    other = plan_of("manylinux_2_34", platforms=BOTH)
    assert Lineage(other).of(other.cells[0])["root"] != first["root"]


def test_the_c_library_of_a_base() -> None:
    names = ("manylinux2014", "manylinux_2_28", "manylinux_2_34", "musllinux_1_2", "manylinux_2_28_cuda12_9", "debian")
    found = [next(subjects(plan_of(name))).libc for name in names]
    assert found == [
        *(("glibc", release) for release in ("2.17", "2.28", "2.34")),
        *(("musl", "1.2"), ("glibc", "2.28"), ("glibc", "2.36")),
    ]


def test_cibuildwheel_gets_the_same_image() -> None:
    for name, kind in (("manylinux2014", "manylinux"), ("musllinux_1_2", "musllinux")):
        plan = plan_of(name, platforms=["linux/amd64", "macos/arm64"])
        assert identifier(plan.cells[0]) == f"cp311-{kind}_x86_64"
    for base, line in (
        ("musllinux_1_2", f'musllinux-x86_64-image = "{refs(plan)[0]}"'),
        ({"image": "a/b:1", "digest": DIGEST}, f'manylinux-x86_64-image = "a/b:1@{DIGEST}"'),
        ("debian", 'manylinux-x86_64-image = "manylinux_2_28"'),
    ):
        made = plan_of(base)
        on_linux = replace(made, cibuildwheel_cells=made.cells)
        assert any(line in text for text in configurations(on_linux).values())


def test_a_release_for_musl_has_wheels_for_musl(tmp_path: Path) -> None:
    for name, tag in (("musllinux_1_2", "manylinux_2_28"), ("manylinux_2_28", "musllinux_1_2")):
        wheel = tmp_path / f"demo-1.0-cp311-cp311-{tag}_x86_64.whl"
        wheel.write_bytes(b"")
        with pytest.raises(AuditError) as raised:
            verify([plan_of(name)], [wheel], tmp_path / "cache")
        assert f"{wheel.name}: in no plan" in raised.value.details


@pytest.mark.parametrize(
    ("builder", "problem"),
    [
        ('base = { registry = "m.example/pypa" }', "registry is for a base with a short name"),
        ('base = { provider = "debian", digest = "' + DIGEST + '" }', "digest belongs to an image"),
        ('base = "manylinux_2_28"\ntoolkit = "image"', "name one that has it"),
        ('base = { provider = "manylinux_2_28", registry = "https://m" }', "a registry and an owner"),
    ],
)
def test_wrong_recipes(tmp_path: Path, builder: str, problem: str) -> None:
    (tmp_path / "bakery.toml").write_text(f'name = "demo"\nvariables.CUDA_VERSION = "12.9.1"\n[builder]\n{builder}\n')
    with pytest.raises(RecipeError) as raised:
        load(None, tmp_path)
    assert problem in str(raised.value.details)


@pytest.mark.parametrize(
    ("base", "toolkit", "more"),
    [
        ("manylinux_2_28_cuda12_9", "image", {}),
        ("manylinux_2_28", "wheels", {}),
        ("manylinux_2_28", "repository", {"cuda_repository": "https://m.example/cuda/repos/rhel8/x86_64"}),
    ],
)
def test_cuda_on_a_short_name(base: str, toolkit: str, more: dict[str, str]) -> None:
    release = "13.0.3" if toolkit == "wheels" else "12.9.1"
    plan = plan_of(base, builder={"toolkit": toolkit, **more}, variables={"CUDA_VERSION": release})
    assert refs(plan)[0].startswith(pinned_images()[base][0].image)
    assert next(subjects(plan)).cuda.startswith(release[:4])
