"""What a workflow keeps on GitHub: releases with the source distribution, the release before, and nights. ``gh`` is a stand-in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from actions import Runner
from command import bakery
from gh import PRERELEASES
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
[builder]
toolkit = "none"
[wheel]
max-growth = "20 %"
[test]
imports = ["tiny"]
[ci]
cache = "none"
publish = "pypi"
github-release = true
sdist = true
schedule = "17 3 * * *"
nightly = 14
"""

DAY = 24 * 3600


def ran(folder: Path, environment: Mapping[str, str], version: str, manifest: str = "", **github: str) -> Runner:
    """Run the workflow of a project with this version; releases are in ``folder/releases``."""
    project = extension(folder / f"project-{version}", RECIPE, SOURCE)
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('version = "1.0"', f'version = "{version}"'))
    (project / "MANIFEST.in").write_text(manifest)
    bakery(project, "generate")
    work, releases = folder / f"run-{version}", folder / "releases"
    work.mkdir()
    if not releases.exists():
        releases.mkdir()
        (releases / PRERELEASES).write_text("[]")
    context = {"run_attempt": 1, "repository": "me/tiny", "token": "secret", "sha": "0" * 40, **github}
    own = {"GITHUB_SHA": "0" * 40, "GH_FOLDER": str(releases), "NO_PROXY": "127.0.0.1"}
    runner = Runner(project, work, {**os.environ, **environment, **own}, context)
    runner.run((project / ".github/workflows/bakery-tiny.yml").read_text())
    return runner


def tagged(version: str) -> dict[str, str]:
    return {"event_name": "push", "ref": f"refs/tags/v{version}", "ref_name": f"v{version}", "ref_type": "tag"}


NIGHT = {"event_name": "schedule", "ref": "refs/heads/main", "ref_name": "main", "ref_type": "branch"}


def failures(runner: Runner) -> list[tuple[str, str, str]]:
    return [(done.job, done.step, done.out[-3000:]) for done in runner.ran if done.code]


@pytest.mark.proof
def test_releases_and_nights(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    releases = tmp_path / "releases"
    # An older release without wheels is no release to compare with.
    (releases / "v0.9").mkdir(parents=True)
    (releases / PRERELEASES).write_text("[]")
    first = ran(tmp_path, engine_environment, "1.0", **tagged("1.0"))
    assert failures(first) == []
    (wheel,) = (path.name for path in (first.artifacts / "wheels-1").glob("*.whl"))
    assert sorted(path.name for path in (releases / "v1.0").iterdir()) == [wheel, "tiny-1.0.tar.gz"]
    assert sorted(path.name for path in (first.folder / "published").iterdir()) == [wheel, "tiny-1.0.tar.gz"]

    nightly = releases / "nightly"
    nightly.mkdir()
    (releases / PRERELEASES).write_text(json.dumps(["nightly"]))
    for name, days in {"old.whl": 15, "young.whl": 13}.items():
        (nightly / name).write_text("")
        os.utime(nightly / name, (time.time() - days * DAY,) * 2)
    night = ran(tmp_path, engine_environment, "1.1.dev3", **NIGHT)
    assert failures(night) == []
    assert "1 of 1 wheels compared with the release before" in "".join(done.out for done in night.ran)
    assert [path.name for path in sorted(nightly.iterdir())] == [wheel.replace("1.0", "1.1.dev3"), "young.whl"]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("version", "manifest", "github", "step", "said"),
    [
        ("1.2", "", NIGHT, "Add the wheels to the pre-release, and remove old ones", "would pass for a release"),
        ("1.2", "exclude src/core.cpp", tagged("1.2"), "Bake a wheel from the archive", "core.cpp"),
        ("1.2", "", tagged("1.2"), "Verify the wheels", "more than the 20 % of wheel.max-growth"),
    ],
    ids=["a night of no development version", "an archive without a file", "a wheel that grew"],
)
def test_what_is_refused(
    tmp_path: Path,
    engine_environment: Mapping[str, str],
    version: str,
    manifest: str,
    github: Mapping[str, str],
    step: str,
    said: str,
) -> None:
    if step == "Verify the wheels":
        before = tmp_path / "releases" / "v1.1"
        before.mkdir(parents=True)
        (before / "tiny-1.1-cp311-cp311-manylinux_2_17_x86_64.whl").write_text("small")
        (tmp_path / "releases" / PRERELEASES).write_text("[]")
    runner = ran(tmp_path, engine_environment, version, manifest, **github)
    ((_, where, out),) = failures(runner)
    assert where == step
    assert said in out
    assert "pypa/gh-action-pypi-publish" not in runner.used
