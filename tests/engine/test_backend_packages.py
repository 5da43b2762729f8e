"""The test packages of build backends: what ``pip wheel`` builds is baked from what ``wheel-bakery init`` wrote.

Four proofs: one alone would take longer than 20 minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from real_projects import PACKAGES, Project, backend_packages, measure
from real_projects_page import unexplained

pytestmark = [
    pytest.mark.engine,
    pytest.mark.proof,
    pytest.mark.usefixtures("debian"),
    pytest.mark.skipif(
        not backend_packages(), reason=f"{PACKAGES} names no folder with test packages of build backends"
    ),
]

CMAKE = {"scikit-build-core", "nanobind"}
MESON = {"meson-python"}
CARGO = {"maturin", "setuptools-rust"}
OTHERS = {package.kinds[0] for package in backend_packages().values()} - CMAKE - MESON - CARGO


def of(backends: set[str]) -> pytest.MarkDecorator:
    """Return the mark of a test of each test package of the named build backends."""
    found = [package for package in backend_packages().values() if package.kinds[0] in backends]
    return pytest.mark.parametrize("package", found, ids=lambda package: str(package.key))


@of(CMAKE)
def test_a_package_that_cmake_builds(package: Project, engine_environment: Mapping[str, str], tmp_path: Path) -> None:
    is_that_of_pip(package, engine_environment, tmp_path)


@of(MESON)
def test_a_package_that_meson_builds(package: Project, engine_environment: Mapping[str, str], tmp_path: Path) -> None:
    is_that_of_pip(package, engine_environment, tmp_path)


@of(CARGO)
def test_a_package_that_cargo_builds(package: Project, engine_environment: Mapping[str, str], tmp_path: Path) -> None:
    is_that_of_pip(package, engine_environment, tmp_path)


@of(OTHERS)
def test_any_other_package(package: Project, engine_environment: Mapping[str, str], tmp_path: Path) -> None:
    is_that_of_pip(package, engine_environment, tmp_path)


def is_that_of_pip(package: Project, environment: Mapping[str, str], folder: Path) -> None:
    """Assert that what differs from the wheel of pip has its reason in ``real_projects.toml``."""
    assert unexplained(asdict(measure(package, environment, folder))) == []
