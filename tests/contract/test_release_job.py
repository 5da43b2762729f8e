"""The script of the workflow's ``release`` job. A stand-in for ``gh`` keeps the release in a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

WORKFLOW = Path(__file__).parents[1] / "golden" / "workflows" / "ujson-release.yml"
TAG = "v1.0"
GH = """\
#!/bin/bash
set -eu
verb=$2
shift 2
while test "$1" != --; do
    if test "$1" = --dir; then into=$2; fi
    shift
done
folder=$RELEASES/$2
case $verb in
view) test -d "$folder" ;;
create) mkdir "$folder" ;;
download) mkdir -p "$into" && cp "$folder"/*.whl "$into" ;;
upload) if test -e "$folder/${3##*/}"; then exit 1; fi && cp "$3" "$folder" ;;
esac
"""


def run(folder: Path) -> int:
    """Run the step as GitHub does, in a new folder with the downloaded wheels; return its exit status."""
    document = YAML(typ="safe").load(WORKFLOW.read_text())
    (step,) = [item for item in document["jobs"]["release"]["steps"] if item.get("name") == "Upload the wheels"]
    work = folder / f"work-{len(list(folder.iterdir()))}"
    (work / step["env"]["OUTPUT"]).parent.mkdir(parents=True)
    (work / step["env"]["OUTPUT"]).symlink_to(folder / "wheels")
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "RELEASES": str(folder / "releases"),
        "GITHUB_REF_NAME": TAG,
        "OUTPUT": step["env"]["OUTPUT"],
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=work, env=environment, check=False, capture_output=True).returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("bin", "releases", "wheels"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    for version in ("1.0", "1.0+cu130"):
        (tmp_path / "wheels" / f"demo-{version}-py3-none-any.whl").write_text(version)
    return tmp_path


def released(folder: Path) -> dict[str, str]:
    return {path.name.split("-")[1]: path.read_text() for path in (folder / "releases" / TAG).iterdir()}


def test_all_wheels_are_uploaded_to_a_new_release(folder: Path) -> None:
    assert run(folder) == 0
    assert released(folder) == {"1.0": "1.0", "1.0+cu130": "1.0+cu130"}


def test_a_rerun_uploads_what_is_missing(folder: Path) -> None:
    assert run(folder) == 0
    (folder / "releases" / TAG / "demo-1.0-py3-none-any.whl").unlink()
    assert run(folder) == 0
    assert len(released(folder)) == 2
    assert run(folder) == 0


def test_a_released_file_is_never_replaced(folder: Path) -> None:
    (folder / "releases" / TAG).mkdir()
    (folder / "releases" / TAG / "demo-1.0-py3-none-any.whl").write_text("other bytes")
    assert run(folder) != 0
    assert released(folder)["1.0"] == "other bytes"
