"""The page of an index in a real browser, and its commands with the real pip and uv; `make proof` runs these."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import Page, chromium
from servers import served
from test_index_site import NOW, wheel
from test_report_browser import accessible, axe  # noqa: F401

from bakery.release.index.store import NewWheel, extend

pytestmark = pytest.mark.proof


@pytest.fixture
def site(tmp_path: Path) -> Path:
    versions = ["1.0", "1.0+cu126torch2.8", "1.0+cu128torch2.8", "1.0+cu128torch2.9", "1.1+cu128torch2.9"]
    made = [
        *(wheel(tmp_path / "dist", version) for version in versions),
        wheel(tmp_path / "dist", "2", project="other"),
    ]
    extend(tmp_path / "site", [NewWheel(path, NOW) for path in made], NOW)
    return tmp_path / "site"


def choose(page: Page, axis: str, value: str) -> None:
    page.run(f"s = document.getElementById('choose-{axis}'); s.value = '{value}'; s.dispatchEvent(new Event('change'))")


def commands(page: Page) -> list[str]:
    return list(page.run("[...document.querySelectorAll('.command code')].map(code => code.textContent)"))


def test_what_is_chosen_is_what_pip_and_uv_install(site: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as page, served(site) as (url, _):
        page.load(f"{url}/")
        assert page.run("[...document.querySelectorAll('select')].map(s => s.value)")[0] == "other"
        choose(page, "project", "demo-kernels")
        assert commands(page)[1] == f"uv pip install --index {url}/cu128/ demo-kernels==1.1+cu128torch2.9"
        # There is none of torch 2.9 for CUDA 12.6: what was chosen last counts.
        choose(page, "CUDA", "12.6")
        assert page.run("document.getElementById('choose-torch').value") == "2.8"
        environment = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{url}/simple/",
            "UV_DEFAULT_INDEX": f"{url}/simple/",
        }
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        for number, text in enumerate(commands(page)):
            assert page.run("document.querySelector('.command code').textContent").endswith(
                "demo-kernels==1.0+cu126torch2.8"
            )
            target = tmp_path / f"target{number}"
            command = [sys.executable, "-m", *shlex.split(text), "--target", str(target)]
            subprocess.run(command, env={**clean, **environment, "UV_NO_CONFIG": "1"}, check=True, capture_output=True)
            assert (target / "demo_kernels.py").read_text() == "VERSION = '1.0+cu126torch2.8'\n"
        assert not page.named("Runtime.exceptionThrown", "Log.entryAdded")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible(site: Path, tmp_path: Path, axe: str, scheme: str, width: int) -> None:  # noqa: F811
    with chromium(tmp_path / "profile") as page:
        assert accessible(page, site / "index.html", axe, scheme, width) == []


def test_without_javascript_there_are_the_wheels(site: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as page:
        page.send("Emulation.setScriptExecutionDisabled", value=True)
        page.open(site / "index.html")
        assert page.run("document.querySelectorAll('a[href$=\".whl\"]').length") == 6
