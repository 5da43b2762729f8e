"""Small projects whose build backends ask git for a version or for files."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from file_trees import write_files
from helpers.repositories import git

REQUIRED = [
    "build", "flit-core", "flit-scm", "hatch-vcs", "hatchling", "maturin", "meson-python", "pdm-backend",
    "poetry-core", "poetry-dynamic-versioning", "scikit-build-core", "setuptools-git-versioning", "setuptools-scm",
    "vcs-versioning", "versioneer", "versioningit", "setuptools>=77", "cmake", "ninja",
]  # fmt: skip
"""What the projects need in the environment that builds them."""


def _project(requires: str, backend: str, more: str, *, static: str = "") -> str:
    version = f'version = "{static}"' if static else 'dynamic = ["version"]'
    return (
        f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{backend}"\n'
        f'[project]\nname = "demo"\n{version}\n{more}'
    )


_SETUPTOOLS = "setuptools.build_meta"
_TAGS = r"'^(?:[\w-]+-|[\w/]+/)?(?P<version>[vV]?\d+(?:\.\d+){0,2}[^\+]*)(?:\+.*)?$'"
"""Tags of setuptools-scm and its kin: their own pattern, and prefixes with a slash, which they cannot read without it."""

_ASK = """\
import subprocess, sys
from setuptools import setup
def asked(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
"""
_MESON = """\
project('demo', version: run_command('sh', 'version.sh', check: true).stdout().strip())
py = import('python').find_installation()
py.install_sources('demo/__init__.py', 'demo/data.txt', subdir: 'demo')
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(demo LANGUAGES NONE)
find_package(Git REQUIRED)
execute_process(COMMAND ${GIT_EXECUTABLE} describe --tags --always --dirty --long OUTPUT_VARIABLE about
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
file(WRITE ${CMAKE_BINARY_DIR}/about.txt "${about}")
install(FILES ${CMAKE_BINARY_DIR}/about.txt DESTINATION demo)
"""

TOOLS: Mapping[str, Mapping[str, str]] = {
    "setuptools-scm": {
        "pyproject.toml": _project(
            '"setuptools-scm"',
            _SETUPTOOLS,
            f'[tool.setuptools_scm]\nversion_file = "demo/_v.py"\ntag_regex = {_TAGS}\n',
        )
    },
    "hatch-vcs": {
        "pyproject.toml": _project(
            '"hatch-vcs"', "hatchling.build", f'[tool.hatch.version]\nsource = "vcs"\ntag-pattern = {_TAGS}\n'
        )
    },
    "versioneer": {
        "pyproject.toml": _project(
            '"versioneer"',
            _SETUPTOOLS,
            '[tool.versioneer]\nVCS = "git"\nstyle = "pep440"\nversionfile_source = "demo/_v.py"\ntag_prefix = "v"\n',
        ),
        "setup.py": "import versioneer\nfrom setuptools import setup\nsetup(version=versioneer.get_version())\n",
    },
    "pdm-backend": {"pyproject.toml": _project('"pdm-backend"', "pdm.backend", '[tool.pdm.version]\nsource = "scm"\n')},
    "poetry-dynamic-versioning": {
        "pyproject.toml": '[build-system]\nrequires = ["poetry-core", "poetry-dynamic-versioning"]\n'
        'build-backend = "poetry_dynamic_versioning.backend"\n[tool.poetry]\nname = "demo"\nversion = "0.0.0"\n'
        'description = "d"\nauthors = ["a <a@b.c>"]\n[tool.poetry-dynamic-versioning]\nenable = true\ndirty = true\n'
        "[tool.poetry-dynamic-versioning.substitution]\n"
    },
    "vcs-versioning": {
        "pyproject.toml": _project('"setuptools"', _SETUPTOOLS, f"[tool.vcs-versioning]\ntag_regex = {_TAGS}\n"),
        "setup.py": f"{_ASK}setup(version=asked(sys.executable, '-m', 'vcs_versioning').splitlines()[-1])\n",
    },
    "flit-scm": {
        "pyproject.toml": _project(
            '"flit_scm"',
            "flit_scm:buildapi",
            f'description = "d"\n[tool.setuptools_scm]\nwrite_to = "demo/_v.py"\ntag_regex = {_TAGS}\n',
        ),
        "demo/__init__.py": '"""Demo."""\nfrom ._v import version as __version__\n',
    },
    "meson": {
        "pyproject.toml": _project('"meson-python"', "mesonpy", ""),
        "meson.build": _MESON,
        "version.sh": "git describe --tags --long --dirty=+dirty --match '*[0-9]*' 2>/dev/null"
        " | sed -E 's/^[^0-9]*//; s/-([0-9]+)-g([0-9a-f]+)/+d\\1.\\2/; s/\\+dirty/.dirty/' | grep . || echo 0.0\n",
    },
    "setuptools-git-versioning": {
        "pyproject.toml": _project(
            '"setuptools-git-versioning"',
            _SETUPTOOLS,
            '[tool.setuptools-git-versioning]\nenabled = true\ntag_filter = "v[0-9].*"\n'
            'dev_template = "{tag}+{ccount}.g{sha}"\ndirty_template = "{tag}+{ccount}.g{sha}.dirty"\n',
        )
    },
    "versioningit": {
        "pyproject.toml": _project(
            '"versioningit"',
            _SETUPTOOLS,
            '[tool.versioningit.vcs]\nmethod = "git"\nmatch = ["v[0-9]*"]\ndefault-tag = "v0.0"\n[tool.versioningit.format]\n'
            'distance = "{base_version}+{distance}.g{rev}"\ndirty = "{base_version}+dirty"\n'
            'distance-dirty = "{base_version}+{distance}.g{rev}.dirty"\n',
        )
    },
    "scikit-build-core": {
        "pyproject.toml": _project(
            '"scikit-build-core"',
            "scikit_build_core.build",
            '[tool.scikit-build]\nwheel.packages = ["demo"]\n',
            static="1.0",
        ),
        "CMakeLists.txt": _CMAKE,
    },
}
"""Tool → the files of a project that uses it. Each also has a tracked file of data, an ignored and an untracked one."""


def write(folder: Path, tool: str) -> None:
    """Write the project of a tool, without a commit."""
    files = {
        "demo/__init__.py": '"""Demo."""\n__version__ = "0"\n',
        "demo/data.txt": "data\n",
        ".gitignore": "*.local\n_v.py\n*.egg-info\nbuild\n",
        **TOOLS[tool],
    }
    write_files(folder, files)


def commit(folder: Path, *, at: int, text: str = "") -> None:
    """Commit all files; ``text`` changes one."""
    if text:
        (folder / "demo" / "data.txt").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x", at=at)


def environment_of(folder: Path) -> Path:
    """Make a virtual environment with all tools, and return its Python."""
    subprocess.run(["python3", "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIRED], check=True)
    return python
