"""The files of a wheel are those that its source promises: ignored ones are refused, lost ones are named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from command import bakery
from repositories import git

pytestmark = pytest.mark.engine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout whose setup.py packs every file of a folder but one."""
    folder = tmp_path / "demo"
    files = {
        ".gitignore": "*.local\ndist/\n.bakery/\n",
        "bakery.toml": 'name = "demo"\n[matrix]\npython = ["3.11"]\n',
        "pyproject.toml": '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "demo"\nversion = "1.0"\n',
        "setup.py": "from setuptools import setup\n"
        "setup(packages=['demo'], package_dir={'': 'src'}, include_package_data=False,\n"
        "      package_data={'demo': ['*.local', '*.json', '*.npz']})\n",
        "src/demo/__init__.py": "",
        "src/demo/data.json": "{}\n",
        "src/demo/tables/table.csv": "1,2\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")
    return folder


@pytest.mark.proof
def test_a_file_that_git_ignores_is_not_published(project: Path) -> None:
    secret = project / "src" / "demo" / "settings.local"
    secret.write_text("password = 'hunter2'\n")
    refused = bakery(project, "wheel", code=8)
    assert "is src/demo/settings.local of the checkout, which git ignores (demo/settings.local)" in refused.err
    assert "source.ignore" in refused.err
    assert not list(project.glob("dist/*.whl"))
    # The recipe may accept it.
    recipe = project / "bakery.toml"
    before = recipe.read_text()
    recipe.write_text(before + '[source]\naccept = ["**/*.local"]\n')
    (wheel,) = bakery(project, "wheel").wheels
    assert "demo/settings.local" in zipfile.ZipFile(wheel).namelist()
    recipe.write_text(before)
    secret.unlink()


def test_a_lost_file_is_named_and_a_pointer_is_refused(project: Path) -> None:
    done = bakery(project, "wheel")
    assert "does not have src/demo/tables/table.csv, which git tracks beside files that it has" in done.err
    pointer = project / "src" / "demo" / "weights.npz"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    refused = bakery(project, "wheel", code=8)
    assert "is a pointer of Git LFS, not the file itself (demo/weights.npz)" in refused.err
    pointer.unlink()
