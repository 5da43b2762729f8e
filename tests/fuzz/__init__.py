"""Hostile input for every reader: seeds, mutators, and a runner that measures each input. docs/fuzzing.md tells how."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# The writers of valid files stand with the unit tests, the texts that have a meaning with the contract tests.
FOLDERS = ("helpers", "contract", "unit/build", "unit/core", "unit/iree")
sys.path += [path for path in (str(TESTS / folder) for folder in FOLDERS) if path not in sys.path]
