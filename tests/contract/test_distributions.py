"""The distributions as users get them: what `pip install wheel-bakery` brings along, and that it works without extras."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OWN = {"wheel-bakery", "wheel-audit"}
MOST_PACKAGES, MOST_MB = 20, 25


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what the wheels of this tree require into an environment of its own; return it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    sources = [str(ROOT / "packages" / "wheel-audit"), str(ROOT)]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", folder / "wheels", *sources], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    wheels = [str(path) for path in (folder / "wheels").iterdir()]
    options = ["--python", str(folder / "env"), "install", "-q", "--no-compile"]
    subprocess.run([*pip, *options, *wheels], check=True)
    return folder / "env"


def test_few_and_small_packages_come_along(installed: Path) -> None:
    (site,) = installed.glob("lib/python*/site-packages")
    names = {canonicalize_name(path.name.split("-")[0]) for path in site.glob("*.dist-info")}
    # pip itself is there before: it installs the others.
    brought = names - OWN - {"pip"}
    size = sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file() and path.relative_to(site).parts[0] != "pip" and path.parent.name != "__pycache__"
    )
    assert len(brought) < MOST_PACKAGES, sorted(brought)
    assert size < MOST_MB * 10**6, f"{size / 1e6:.1f} MB"


def test_it_checks_a_recipe_and_says_which_extra_writes_a_workflow(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[ci]\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    command = str(installed / "bin" / "wheel-bakery")
    subprocess.run([command, "check"], cwd=tmp_path, check=True)
    planned = subprocess.run([command, "plan", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert json.loads(planned.stdout)
    done = subprocess.run([command, "generate"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 9
    assert "wheel-bakery[ci]" in done.stderr
    assert not (tmp_path / "bake").exists(), "all files or none"
