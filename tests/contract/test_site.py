"""The documentation site: built offline with its links checked, and no page loads anything from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bakery.cli.plugins import exit_codes
from bakery.core.environment import OWN, PREFIX

ROOT = Path(__file__).resolve().parents[2]
_ELSEWHERE = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*\b(?:href|src)=["']?(?:https?:)?//[^\s>]*""")


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration, "-d", site]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert {page.name: found for page in pages if (found := _ELSEWHERE.findall(page.read_text()))} == {}
    assert _ELSEWHERE.search('<script async src="//example.com/x.js">')
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?(?:https?:)?//|@import", styles)


def test_the_generated_pages_are_complete(site: Path) -> None:
    codes = (site / "reference/exit-codes/index.html").read_text()
    assert [code for code in (0, *exit_codes()) if f">{code}</td>" not in codes] == []
    commands = (site / "reference/commands/index.html").read_text()
    assert "Usage: wheel-bakery reproduce " in commands
    variables = (site / "reference/environment/index.html").read_text()
    assert [name for name in sorted(OWN) if f"{PREFIX}{name}<" not in variables] == []
    recipe = "".join(path.read_text() for path in sorted(site.glob("recipe*/index.html")))
    assert [
        key for key in ("name", "builder.toolkit", "matrix.overrides", "ci.runners") if f'id="{key}"' not in recipe
    ] == []
    assert '<span class="k">' in (site / "tutorials/first-wheel/index.html").read_text(), "code has colours"
    assert [path for path in site.rglob("*") if path.suffix in (".py", ".pyc")] == []


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[nowhere](nowhere.md)\n[outside](../nowhere.py)\n")
    text = (ROOT / "mkdocs.yml").read_text().replace("docs/mkdocs_hooks.py", str(ROOT / "docs/mkdocs_hooks.py"))
    configuration = tmp_path / "mkdocs.yml"
    configuration.write_text(text.partition("\nnav:")[0] + "\n")
    done = build(configuration, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "nowhere.py" in done.stderr
