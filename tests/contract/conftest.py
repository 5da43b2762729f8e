"""What the contract tests share: docker buildx, and the recipes that bakery ships."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from buildx import Buildx, environment_with

from bakery.core.errors import EngineError
from bakery.engine.discover import find


@pytest.fixture(scope="session")
def buildx(tmp_path_factory: pytest.TempPathFactory) -> Buildx:
    """Give docker buildx; without one the test fails."""
    try:
        found = find(os.environ).environment
    except EngineError as error:
        pytest.fail(f"{error.message}: {error.hint}\n" + "\n".join(error.details), pytrace=False)
    folder: Path = tmp_path_factory.mktemp("buildx")
    return Buildx(environment_with(found), folder)
