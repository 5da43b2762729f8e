"""The meta package of wheels with a distribution for each CUDA release: its content, and what ``verify`` says of it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import plans
import pytest
from typer.testing import CliRunner
from wheels import write_wheel

from bakery.cli.app import app
from bakery.core.errors import AuditError, RecipeError
from bakery.release.meta import meta_packages
from bakery.release.verify import verify

RECIPE = """\
name = "demo"
[matrix]
python = ["3.11"]
cuda = ["12.9.1", "13.0.3"]
[wheel]
py3 = true
naming = { name = "demo-cu${CUDA_MAJOR}", meta = "demo" }
"""
METADATA = """\
Metadata-Version: 2.1
Name: demo-cu@
Version: 1.2
Summary: Kernels
License: one line
  and another
Requires-Python: >=3.9
Provides-Extra: test

# Demo
"""


def wheel(folder: Path, major: int, version: str = "1.2") -> Path:
    text = METADATA.replace("@", str(major)).replace("1.2", version)
    plain = write_wheel(folder, "py3-none-any", {}, filename=f"plain{major}.whl", metadata=text)
    path = folder / f"demo_cu{major}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name).replace(b"demo-1.0.dist-info", f"demo_cu{major}-{version}.dist-info".encode())
            target.writestr(name.replace("demo-1.0.dist-info", f"demo_cu{major}-{version}.dist-info"), data)
    plain.unlink()
    return path


def content(path: Path, name: str = "METADATA") -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"demo-1.2.dist-info/{name}").decode()


def test_the_meta_package_has_an_extra_for_each_distribution(tmp_path: Path) -> None:
    plan = plans.written(tmp_path, RECIPE)
    made = meta_packages(plan, [wheel(tmp_path, 13), wheel(tmp_path, 12)])
    assert made == meta_packages(plan, [tmp_path / f"demo_cu{major}-1.2-py3-none-any.whl" for major in (12, 13)])
    ((name, data),) = made.items()
    assert name == "demo-1.2-py3-none-any.whl"
    (tmp_path / name).write_bytes(data)
    assert content(tmp_path / name).splitlines() == [
        "Metadata-Version: 2.1",
        "Name: demo",
        "Version: 1.2",
        "Summary: Kernels",
        "License: one line",
        "  and another",
        "Requires-Python: >=3.9",
        "Provides-Extra: cu12",
        'Requires-Dist: demo-cu12==1.2; extra == "cu12"',
        "Provides-Extra: cu13",
        'Requires-Dist: demo-cu13==1.2; extra == "cu13"',
        "",
        "# Demo",
    ]


def test_pip_installs_the_distribution_of_the_extra(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    plan = plans.written(tmp_path, RECIPE)
    paths = [wheel(dist, 12), wheel(dist, 13)]
    for name, data in meta_packages(plan, paths).items():
        (dist / name).write_bytes(data)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-index", f"--find-links={dist}", "demo[cu13]"]
    subprocess.run([*pip, f"--dest={tmp_path / 'got'}"], check=True)
    assert {path.name for path in (tmp_path / "got").iterdir()} == {"demo-1.2-py3-none-any.whl", paths[1].name}


@pytest.mark.parametrize(
    ("majors", "versions", "said"),
    [([13], ["1.2"], "no wheel of demo-cu12"), ([12, 13], ["1.2", "1.3"], "has the versions 1.2, 1.3")],
)
def test_wheels_without_a_meta_package(tmp_path: Path, majors: list[int], versions: list[str], said: str) -> None:
    made = [wheel(tmp_path, *item) for item in zip(majors, versions, strict=True)]
    with pytest.raises(AuditError, match=said.replace("has the", "have the")):
        meta_packages(plans.written(tmp_path, RECIPE), made)


def test_verify_wants_the_meta_package_of_its_wheels(tmp_path: Path) -> None:
    plan = plans.written(tmp_path, RECIPE)
    paths = [wheel(tmp_path, 12), wheel(tmp_path, 13)]
    with pytest.raises(AuditError) as without:
        verify([plan], paths, tmp_path / "memory")
    assert any("demo-1.2-py3-none-any.whl is missing" in line for line in without.value.details)
    result = CliRunner().invoke(app, ["-C", str(tmp_path), "meta", "."])
    assert result.exit_code == 0, result.output
    (name,) = meta_packages(plan, paths)
    assert verify([plan], [*paths, tmp_path / name], tmp_path / "memory").wheels == 3
    (tmp_path / name).write_bytes(b"other")
    with pytest.raises(AuditError) as other:
        verify([plan], [*paths, tmp_path / name], tmp_path / "memory")
    assert any("is not the meta package of these wheels" in line for line in other.value.details)


def test_the_name_of_a_distribution_begins_with_that_of_its_meta_package(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        plans.written(tmp_path, RECIPE.replace('meta = "demo"', 'meta = "other"'))
    assert 'name = "other-cu${CUDA_MAJOR}"' in "\n".join(caught.value.details)


def test_a_recipe_without_a_meta_package(tmp_path: Path) -> None:
    plans.written(tmp_path, RECIPE.replace(', meta = "demo"', ""))
    result = CliRunner().invoke(app, ["-C", str(tmp_path), "meta", str(wheel(tmp_path, 12))])
    assert "no recipe has wheel.naming.meta" in str(result.exception)
    # The reusable workflow does not know whether one has it; its wheels are outside of the project.
    (tmp_path / "project").mkdir()
    for recipe, made in ((RECIPE.replace(', meta = "demo"', ""), 0), (RECIPE, 1)):
        plans.written(tmp_path / "project", recipe)
        wheels = [str(wheel(tmp_path, major)) for major in (12, 13)]
        result = CliRunner().invoke(app, ["-C", str(tmp_path / "project"), "meta", "--if-any", *wheels])
        assert result.exit_code == 0, result.output
        assert len([*tmp_path.glob("demo-1.2-*.whl")]) == made


def test_the_workflow_writes_it_before_the_wheels_are_verified(tmp_path: Path) -> None:
    plans.written(tmp_path, f'{RECIPE}[ci]\npublish = "pypi"\n')
    result = CliRunner().invoke(app, ["-C", str(tmp_path), "generate"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / ".github/workflows/bakery-demo.yml").read_text()
    assert text.count("wheel-bakery meta --") == 1
    assert (
        text.index("wheel-bakery meta --") < text.index("/demo-*-py3-none-any.whl") < text.index("wheel-bakery verify")
    )


def test_a_pull_request_that_bakes_few_cells_has_the_meta_package_of_these(tmp_path: Path) -> None:
    ci = '[ci]\npull-request = "first"\n'
    plans.written(tmp_path, RECIPE.replace('"demo-cu', '"Demo.X-cu').replace('meta = "demo"', 'meta = "Demo.X"') + ci)
    CliRunner().invoke(app, ["-C", str(tmp_path), "generate"])
    step = (tmp_path / ".github/workflows/bakery-demo.yml").read_text().partition("Write the meta package")[2]
    assert "BAKERY_PULL_REQUEST" in step.partition("- name")[0]
    assert "/demo_x-*-py3-none-any.whl" in step
    plans.written(tmp_path, RECIPE + ci)
    result = CliRunner().invoke(
        app, ["-C", str(tmp_path), "meta", str(wheel(tmp_path, 12))], env={"BAKERY_PULL_REQUEST": "true"}
    )
    assert result.exit_code == 0, result.output
    assert "cu13" not in content(tmp_path / "demo-1.2-py3-none-any.whl")
