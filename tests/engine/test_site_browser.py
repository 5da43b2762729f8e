"""The documentation site in a real browser: axe finds nothing, and no page scrolls sideways on a phone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from chromium import chromium
from pages import ROOT
from test_report_browser import accessible, axe  # noqa: F401

pytestmark = pytest.mark.proof

PAGES = (
    "index", "tutorials/first-wheel", "coming-from", "recipe", "reference/commands", "reference/environment",
    "comparison",
)  # fmt: skip


THEMES = ("landmark-unique: ", "scrollable-region-focusable: ")
"""What the theme's own script does: the buttons of code are in a <nav> without a name, and where no pointer hovers, it takes
the focus from code that scrolls."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--no-directory-urls", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible(site: Path, tmp_path: Path, axe: str, scheme: str, width: int) -> None:  # noqa: F811
    with chromium(tmp_path / "profile") as page:
        found = [(name, text) for name in PAGES for text in accessible(page, site / f"{name}.html", axe, scheme, width)]
    assert [(name, text) for name, text in found if not text.startswith(THEMES)] == []
