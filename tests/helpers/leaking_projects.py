"""Small projects of eight build backends, with a password in a file that git ignores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from file_trees import write_files
from helpers.repositories import commit, git

PASSWORD = "password = hunter2\n"


def _project(requires: str, backend: str, more: str = "", version: str = 'version = "1.0"') -> str:
    return (
        f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{backend}"\n'
        f'[project]\nname = "pkg"\ndescription = "d"\n{version}\n{more}'
    )


_DYNAMIC = 'dynamic = ["version"]'

BACKENDS: Mapping[str, Mapping[str, str]] = {
    "setuptools": {
        "pyproject.toml": _project(
            "setuptools-scm",
            "setuptools.build_meta",
            '[tool.setuptools]\npackages = ["pkg"]\n[tool.setuptools_scm]\n',
            _DYNAMIC,
        )
    },
    "hatchling": {"pyproject.toml": _project("hatchling", "hatchling.build")},
    "poetry-core": {"pyproject.toml": _project("poetry-core", "poetry.core.masonry.api")},
    "pdm-backend": {"pyproject.toml": _project("pdm-backend", "pdm.backend")},
    "flit-core": {"pyproject.toml": _project("flit-core", "flit_core.buildapi")},
    "scikit-build-core": {
        "pyproject.toml": _project("scikit-build-core", "scikit_build_core.build"),
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(pkg LANGUAGES NONE)\n",
    },
    "meson-python": {
        "pyproject.toml": _project("meson-python", "mesonpy"),
        "meson.build": "project('pkg', version: '1.0')\npy = import('python').find_installation()\n"
        "install_subdir('pkg', install_dir: py.get_install_dir())\n",
    },
    "maturin": {
        "pyproject.toml": _project("maturin", "maturin", '[tool.maturin]\nbindings = "bin"\n'),
        "Cargo.toml": '[package]\nname = "pkg"\nversion = "1.0.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n[[package]]\nname = "pkg"\nversion = "1.0.0"\n',
        "src/main.rs": "fn main() {}\n",
    },
}
"""Backend → the files of a project that packs all of the folder ``pkg``, by the backend's own rules."""


def leaking(top: Path, backend: str, prefix: str = "", more: str = "", hashing: str = "sha1") -> Path:
    """Make the checkout of a project at ``prefix`` below the top, and return the project's folder."""
    files = {
        "pkg/__init__.py": '"""A package."""\n__version__ = "1.0"\n',
        "pkg/data.txt": "data\n",
        **BACKENDS[backend],
    }
    files["pyproject.toml"] += more
    project = top / prefix
    write_files(project, files)
    (top / ".gitignore").write_text("*.local\n*.egg-info\nbuild\ntarget\n")
    git(top, "init", "--quiet", "--initial-branch", "main", f"--object-format={hashing}")
    commit(top, 1_700_000_000)
    git(top, "tag", "v1.0")
    git(top, "commit", "--quiet", "--allow-empty", "--message", "y", at=1_700_000_100)
    (project / "pkg" / "settings.local").write_text(PASSWORD)
    return project
