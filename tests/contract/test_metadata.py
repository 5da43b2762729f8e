"""The metadata of this repository's distributions, as a package index gets and shows it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from readme_renderer import markdown

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", [".", "packages/wheel-audit", "packages/bakery-iree"])
def test_the_page_of_a_distribution(tmp_path: Path, folder: str) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT / folder]
    subprocess.run(command, check=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name.partition(".dist-info/")[2]: name for name in wheel.namelist()}
        fields = HeaderParser().parsestr(wheel.read(names["METADATA"]).decode())
        assert wheel.read(names["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert (fields["License-Expression"], fields.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert fields["Description-Content-Type"] == "text/markdown"
    page = markdown.render(str(fields.get_payload()))
    assert page is not None
    assert "<h1" in page
    # A page of an index has no files beside it.
    addresses = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert [address for address in addresses if not address.startswith(("https://", "#"))] == []
