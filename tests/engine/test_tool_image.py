"""The image of the tool itself: Bakery bakes it from its own wheels and its own index, and it runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ROOT, bakery, shell
from projects import SOURCE, extension
from servers import served
from test_untrusted_packages import bridge

from bakery.engine.package_index import configured

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.13"]
[builder]
toolkit = "none"
"""

pytestmark = [pytest.mark.engine, pytest.mark.proof]


def test_the_image_has_this_bakery_and_what_it_calls(
    tmp_path: Path, engine_environment: Mapping[str, str], ca_bundle: Path | None
) -> None:
    wheels = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "dist")]
    subprocess.run([*wheels, ROOT, ROOT / "packages/wheel-audit"], check=True)
    bakery(tmp_path, "index", "dist", "--output", "site")
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "examples/image/bakery.toml", project)
    host = bridge(engine_environment)
    with served(tmp_path / "site", address=host) as (url, _):
        (tmp_path / "pip.conf").write_text(f"[global]\nextra-index-url = {url}/simple/\ntrusted-host = {host}\n")
        environment = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
        name = f"tool-{tmp_path.name}"
        words = ("bake", "image", "--only", "*x86_64", "--set", f"*.tags={name}")
        bakery(project, *words, environment=environment)
    try:
        run = ("docker", "run", "--rm", name)
        assert "0.1.0" in shell(engine_environment, *run, "wheel-bakery", "--version")
        assert "buildx" in shell(engine_environment, *run, "docker", "buildx", "version")
        assert "git version" in shell(engine_environment, *run, "git", "--version")
        # It bakes with the engine outside, in a folder that both have under one path.
        extension(tmp_path / "work", RECIPE, SOURCE)
        (socket,) = [value for key, value in engine_environment.items() if key == "DOCKER_HOST"] or [
            "unix:///var/run/docker.sock"
        ]
        mounts = (
            "-v",
            f"{socket.removeprefix('unix://')}:/var/run/docker.sock",
            "-v",
            f"{tmp_path / 'work'}:{tmp_path / 'work'}",
        )
        # Its steps may all have to run: with the index and the authorities of this machine.
        (tmp_path / "work/pip.conf").write_text(configured().pip_conf())
        within = [
            *run[:3],
            *mounts,
            "-w",
            str(tmp_path / "work"),
            "-e",
            f"PIP_CONFIG_FILE={tmp_path / 'work/pip.conf'}",
        ]
        within += [word for key in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for word in ("-e", key)]
        words = ["wheel-bakery", "wheel", "--no-cache"]
        if ca_bundle:
            shutil.copy(ca_bundle, tmp_path / "work/authorities.pem")
            words += ["--ca-bundle", "authorities.pem"]
        shell(engine_environment, *within, name, *words)
        assert len(list((tmp_path / "work/dist").glob("tiny-1.0*.whl"))) == 1
    finally:
        shell(engine_environment, "docker", "image", "rm", name)
