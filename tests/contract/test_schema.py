"""Another program takes the schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bakery.cli import json_schema

ROOT = Path(__file__).parents[2]


def test_check_jsonschema_takes_the_schemas() -> None:
    """It compiles the patterns as ECMAScript. One process for all: most of its second goes to its imports."""
    paths = [str(ROOT / f"schema/{name}.schema.json") for name in json_schema.names()]
    words = [sys.executable, "-m", "check_jsonschema", "--check-metaschema", *paths]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
