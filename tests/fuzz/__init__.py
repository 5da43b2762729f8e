"""Hostile input for every reader: seeds, mutators, and a runner that measures each input. docs/fuzzing.md tells how."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# Writers of valid files are in helpers, texts with a special meaning in contract.
FOLDERS = (
    TESTS / "helpers",
    TESTS / "contract",
    TESTS.parent / "packages/wheel-audit/tests/helpers",
    TESTS.parent / "packages/bakery-iree/tests/helpers",
)
sys.path += [path for path in map(str, FOLDERS) if path not in sys.path]

PACKAGE = f"{Path(find_spec('bakery').origin).parent}/"  # type: ignore[union-attr, arg-type]
"""How the file of each frame in the package begins. A folder above it may also be called bakery."""
