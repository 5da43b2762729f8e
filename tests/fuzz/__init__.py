"""Hostile input for every reader: seeds, mutators, and a runner that measures each input. docs/fuzzing.md tells how."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# Writers of valid files are in helpers, texts with a special meaning in contract.
FOLDERS = ("helpers", "contract")
sys.path += [path for path in (str(TESTS / folder) for folder in FOLDERS) if path not in sys.path]
