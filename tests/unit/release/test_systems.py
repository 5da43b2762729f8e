"""Platforms of macOS and Windows in recipes: cells, names, promises, and what is refused with reasons."""

from __future__ import annotations

import json
from pathlib import Path

import plans
import pytest

from bakery.cli.bake import uses_cibuildwheel
from bakery.cli.recipes import narrow
from bakery.cli.tables.plan import github_matrix as matrix
from bakery.core.errors import PlanError, RecipeError, UsageError
from bakery.emit.files import generate
from bakery.plan.model import Plan
from bakery.resolve.rules import judge
from bakery.runs.cibuildwheel.run import cells_here, check_buildable
from bakery.runs.expectations import promises

THREE = 'platforms = ["linux/amd64", "macos/arm64", "windows/amd64"]\n'


def plan(folder: Path, text: str, *sets: str) -> Plan:
    return plans.written(folder, f'name = "demo"\n{text}', *sets)


def test_bake_sees_only_its_own_cells(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE)
    assert [cell.id for cell in made.cells] == ["cp311"]
    assert [cell.id for cell in made.cibuildwheel_cells] == ["cp311-macosx_arm64", "cp311-win_amd64"]
    alone = plan(tmp_path, "")
    texts, before = generate(made), generate(alone)
    assert texts["bake/demo.hcl"] == before["bake/demo.hcl"]
    assert texts["dockerfiles/demo.Dockerfile"] == before["dockerfiles/demo.Dockerfile"]
    assert not any(path.startswith("cibuildwheel/") for path in before)
    assert {"cibuildwheel/demo.toml", "cibuildwheel/smoke.py"} <= texts.keys()


def test_two_platforms_of_linux_still_name_theirs(tmp_path: Path) -> None:
    made = plan(tmp_path, 'platforms = ["linux/amd64", "linux/arm64", "macos/amd64"]\n')
    assert [cell.id for cell in made.cells] == ["cp311-linux_x86_64", "cp311-linux_aarch64"]
    assert [cell.id for cell in made.cibuildwheel_cells] == ["cp311-macosx_x86_64"]


def test_a_recipe_needs_a_platform_of_linux(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no platform is a Linux platform: macos/arm64"):
        plan(tmp_path, 'platforms = ["macos/arm64"]\n')


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("darwin/arm64", "macos/arm64"),
        ("macosx_arm64", "macos/arm64"),
        ("win_amd64", "windows/amd64"),
        ("windows/x64", "windows/amd64"),
        ("linux/x86_64", "linux/amd64"),
    ],
)
def test_other_spellings_are_understood(written: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        plan(tmp_path, f'platforms = ["{written}"]\n')
    assert any(f"did you mean '{meant}'?" in line for line in caught.value.details)


def test_the_oldest_macos_is_promised(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE + '[macos]\nminimum = "12.3"\n')
    mac, windows = made.cibuildwheel_cells
    wheel = tmp_path / "demo-1.0-cp311-cp311-macosx_12_3_arm64.whl"
    (expected,) = promises(made, mac, None, [wheel])
    assert (expected.platform, expected.plat) == ("macos/arm64", "macosx_12_3_arm64")
    assert 'MACOSX_DEPLOYMENT_TARGET = "12.3"' in generate(made)["cibuildwheel/demo.toml"]
    (expected,) = promises(made, windows, None, [tmp_path / "demo-1.0-cp311-cp311-win_amd64.whl"])
    assert (expected.platform, expected.plat) == ("windows/amd64", None)


BROKEN = {
    "system-python": THREE
    + '[builder]\nbase = { image = "quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1" }\n[matrix]\npython = ["3.8"]\n',
    "system-cuda": THREE + '[variables]\nCUDA_VERSION = "13.0.3"\n[builder]\ntoolkit = "cuda"\n',
    "system-native": THREE + '[native]\ncommand = "make"\ninto = "lib"\n',
    "system-names": THREE + '[wheel]\nalso-named = [{ local = "x" }]\n',
    "system-secrets": THREE + '[secrets.token]\nenv = "TOKEN"\nsteps = ["compile"]\n',
    "windows-quotes": THREE + "[test]\ncommand = \"python -c 'import demo'\"\n",
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_cannot_be_is_found_by_a_rule(rule: str, tmp_path: Path) -> None:
    found = {finding.rule.id: finding for finding in judge(plan(tmp_path, BROKEN[rule]))}
    assert rule in found
    assert all("macosx" in cell or "win" in cell for cell in found[rule].cells)
    # The same recipe for Linux alone breaks nothing of this kind.
    alone = judge(plan(tmp_path, BROKEN[rule].removeprefix(THREE)))
    assert not {finding.rule.id for finding in alone} & BROKEN.keys()


def test_a_command_in_double_quotes_breaks_nothing(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE + '[test]\ncommand = """python -c "assert dict(a=\'b\')" """\n')
    assert not judge(made)


def test_on_linux_what_needs_a_dockerfile_is_refused_at_once(tmp_path: Path) -> None:
    made = plan(tmp_path, BROKEN["system-cuda"].removeprefix(THREE) + '[native]\ncommand = "make"\ninto = "lib"\n')
    with pytest.raises(PlanError, match="cannot be built by cibuildwheel") as caught:
        check_buildable(made, made.cells)
    assert len(caught.value.details) == 2


def test_cells_are_chosen_by_system_and_glob(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE + '[matrix]\npython = ["3.11", "3.13"]\n[wheel]\nabi3 = "3.11"\n')
    assert [cell.id for cell in cells_here(made, "macos", ())] == ["cp311-macosx_arm64", "cp313-macosx_arm64"]
    # The cell that builds comes along with the one that takes its wheel.
    assert [cell.id for cell in cells_here(made, "windows", ("cp313-*",))] == ["cp311-win_amd64", "cp313-win_amd64"]
    with pytest.raises(UsageError, match="no cell of macos matches nothing"):
        cells_here(made, "macos", ("nothing",))
    with pytest.raises(UsageError, match="no platform of macos"):
        cells_here(plan(tmp_path, ""), "macos", ())


def test_a_bake_says_where_the_others_are_built(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not baked, but built on macos"):
        plan(tmp_path, THREE).select(("wheel",), ("cp311-macosx*",))


@pytest.mark.parametrize(("platform", "elsewhere"), [("linux", False), ("darwin", True), ("win32", True)])
def test_the_system_chooses_the_back_end(platform: str, elsewhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert uses_cibuildwheel("auto") is elsewhere
    assert uses_cibuildwheel("cibuildwheel")
    assert not uses_cibuildwheel("bake")
    with pytest.raises(UsageError, match="unknown backend"):
        uses_cibuildwheel("nix")


def test_the_matrix_of_jobs_has_all_systems(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE + '[matrix]\npython = ["3.11", "3.13"]\n[wheel]\nabi3 = "3.11"\n')
    jobs = json.loads(matrix([made], ()))["include"]
    assert [(job["runner"], job["cells"]) for job in jobs] == [
        ("ubuntu-24.04", "cp311 cp313"),
        ("macos-15", "cp311-macosx_arm64 cp313-macosx_arm64"),
        ("windows-2025", "cp311-win_amd64 cp313-win_amd64"),
    ]
    assert {(job["cache"], job["free-disk"]) for job in jobs} == {("gha", False)}
    (job,) = json.loads(matrix([made], ("*-win_amd64",)))["include"]
    assert job["job"] == "cp311-win_amd64+1"
    with pytest.raises(UsageError, match="no cell matches nothing"):
        matrix([made], ("nothing",))


def test_a_system_can_be_sharded(tmp_path: Path) -> None:
    made = plan(tmp_path, THREE + '[matrix]\npython = ["3.11", "3.13", "3.14"]\n')
    parts = [narrow([(tmp_path, made)], None, None, (), f"{part}/2", None, "macos")[0] for part in (1, 2)]
    cells = [[cell.id for cell in cells_here(found, "macos", ())] for ((_, found),) in parts]
    assert cells == [["cp311-macosx_arm64", "cp313-macosx_arm64"], ["cp314-macosx_arm64"]]
