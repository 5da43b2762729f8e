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
        # It bakes with the engine outside, in a folder that both have under one path. All steps run, with the index and
        # the authorities of this machine.
        work = extension(tmp_path / "work", RECIPE, SOURCE)
        (work / "pip.conf").write_text(configured().pip_conf())
        socket = engine_environment.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
        mounts = ("-v", f"{socket}:/var/run/docker.sock", "-v", f"{work}:{work}", "-w", str(work))
        variables = (f"PIP_CONFIG_FILE={work / 'pip.conf'}", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        bake = ["wheel-bakery", "wheel", "--no-cache"]
        if ca_bundle:
            shutil.copy(ca_bundle, work / "authorities.pem")
            bake += ["--ca-bundle", "authorities.pem"]
        shell(engine_environment, *run[:3], *mounts, *(f"--env={variable}" for variable in variables), name, *bake)
        assert len(list((work / "dist").glob("tiny-1.0*.whl"))) == 1
    finally:
        shell(engine_environment, "docker", "image", "rm", name)
