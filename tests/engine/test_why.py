"""Why the compiler cache did not have what a cell compiled."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


def misses(folder: Path) -> dict[str, str]:
    """Build the wheel; return each object that was compiled, and why."""
    bakery(folder, "wheel")
    told = json.loads(bakery(folder, "why", "cp311", "--compiler-cache", "--json").out)["misses"]
    return {Path(item["object"]).name: item["reason"] for item in told}


def test_the_file_or_argument_that_differed_is_named(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f'#include "own.h"\nint own = OWN;\n{SOURCE}// {uuid.uuid4()}\n')
    header = folder / "src" / "own.h"
    header.write_text("#define OWN 1\n")
    assert misses(folder) == {"core.o": "never compiled here"}
    header.write_text("#define OWN 2\n")
    (reason,) = misses(folder).values()
    assert reason.startswith("changed: ")
    assert reason.endswith("src/own.h")
    (folder / "bakery.toml").write_text(f'{RECIPE}[builder.environment]\nCPPFLAGS = "-fno-plt"\n')
    assert misses(folder) == {"core.o": "arguments: now -fno-plt"}
