"""What an index lacks of a plan, by the names of its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from packaging.version import Version
from plans import plan_with

from bakery.core.errors import UnavailableError, UsageError
from bakery.plan.model import Plan
from bakery.release.coverage import Coverage, coverage, project_of

OFFERED = {"torch": "2.9.1 2.11.0 2.12.0 2.12.1 2.13.0rc1 2.14.0+cpu", "cuda-toolkit": "12.8.1 13.0.2 13.1.0"}


def releases(name: str) -> list[Version]:
    return list(map(Version, OFFERED.get(name, "").split()))


def file(version: str, python: str = "cp311", abi: str = "", platform: str = "manylinux_2_28_x86_64") -> str:
    return f"demo-{version}-{python}-{abi or python}-{platform}.whl"


def covered(plan: Plan, *files: str, version: str = "", ignored: tuple[tuple[str, str], ...] = ()) -> Coverage:
    return coverage(plan, "demo", version, files, releases, ignored)


PLAIN = {"matrix": {"python": ["3.11", "3.13"]}}


def test_a_cell_without_a_wheel_is_missing() -> None:
    found = covered(plan_with(**PLAIN), file("1.0"), file("1.1"), file("1.0", "cp313"))
    assert (found.version, found.cells, found.missing) == ("1.1", 2, ("cp313",))
    assert not found.complete
    assert covered(plan_with(**PLAIN), file("1.0"), file("1.1"), file("1.0", "cp313"), version="1.0").missing == ()


def test_other_files_of_the_index_do_no_harm() -> None:
    others = ("demo-1.1.tar.gz", "demo-1.1.zip", "not a wheel.whl", file("2.0a1"), file("1.1", "cp39"))
    arm = file("1.1", platform="manylinux_2_28_aarch64")
    found = covered(plan_with(**PLAIN), *others, arm, file("1.1"))
    assert (found.version, found.missing) == ("1.1", ("cp313",))


def test_an_index_without_the_project_lacks_all() -> None:
    found = covered(plan_with(**PLAIN))
    assert (found.version, found.missing) == ("", ("cp311", "cp313"))


@pytest.mark.parametrize("kind", ["fifo", "zeros", "outside", "deep", "long"])
def test_a_hostile_pyproject_names_no_project(tmp_path: Path, kind: str) -> None:
    """The first one waited for ever, the second one took all memory."""
    root, file = tmp_path / "root", tmp_path / "root" / "pyproject.toml"
    root.mkdir()
    (tmp_path / "other.toml").write_text("[project]\nname = 'other'\n")
    if kind == "fifo":
        os.mkfifo(file)
    elif kind in ("zeros", "outside"):
        file.symlink_to("/dev/zero" if kind == "zeros" else tmp_path / "other.toml")
    else:
        file.write_text("x = " + ("[" * 100_000 if kind == "deep" else "1" * 100_000) + "\n[project]\nname='x'\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml does not name the project"):
        project_of(plan_with(**PLAIN), root)


def test_one_wheel_covers_all_cells_that_it_serves() -> None:
    abi3 = file("1.0", abi="abi3")
    assert covered(plan_with(**PLAIN), abi3).missing == ()
    assert covered(plan_with(**PLAIN, wheel={"abi3": "3.11"}), abi3).missing == ()
    assert covered(plan_with(**PLAIN, wheel={"abi3": "3.11"})).missing == ("cp311", "cp313")


def test_wheels_for_releases_of_torch_are_told_apart_by_their_local_version() -> None:
    plan = plan_with(
        matrix={"python": ["3.13"], "torch": ["2.10.0", "2.11.0"]},
        builder={"framework": "torch"},
        wheel={"naming": {"local": "torch${TORCH_MINOR}"}},
    )
    found = covered(plan, file("1.0+torch2.10", "cp313"))
    assert found.missing == ("cp313-torch211",)
    assert found.newer["torch"] == ("2.12", "2.14")
    accepted = covered(plan, ignored=(("torch", "2.1[34]"), ("python", "*"), ("cuda", "2.12")))
    assert accepted.newer == {"torch": ("2.12",)}


def test_a_release_that_is_a_variable_counts_like_an_axis() -> None:
    plan = plan_with(variables={"CUDA_VERSION": "12.8.1"}, builder={"toolkit": "cuda"}, matrix={"python": ["3.13"]})
    assert covered(plan).newer["cuda"] == ("13.0", "13.1")


def test_new_pythons_are_those_of_the_images() -> None:
    newer = covered(plan_with(matrix={"python": ["3.11", "3.14t"]}, builder={"base": "manylinux_2_28"})).newer
    assert "3.15" in newer["python"]
    assert "3.12" not in newer["python"]
    assert set(newer) == {"python"}


def test_an_index_without_the_framework_is_no_answer() -> None:
    plan = plan_with(variables={"JAX_VERSION": "0.9.0"}, builder={"framework": "jax"})
    with pytest.raises(UnavailableError, match="has no jax"):
        covered(plan)


def test_the_name_of_the_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not name the project"):
        project_of(plan_with(), tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "My_Kernels"\n')
    assert project_of(plan_with(), tmp_path) == "my-kernels"
    assert project_of(plan_with(source="sdist:ujson==5.10.0"), tmp_path) == "ujson"
