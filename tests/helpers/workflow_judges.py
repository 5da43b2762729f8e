"""What judges workflows: the schemas that check-jsonschema brings, and zizmor."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from ruamel.yaml import YAML


def parsed(document: str) -> Any:
    """Return what a workflow says."""
    return YAML(typ="safe").load(document)


@cache
def _validator(schema: str) -> jsonschema.Draft7Validator:
    # To import check_jsonschema takes longer than all checks.
    (file,) = [item for item in files("check-jsonschema") or () if item.match(f"vendor/{schema}.json")]
    kind = jsonschema.Draft7Validator
    return kind(json.loads(file.read_text()), format_checker=kind.FORMAT_CHECKER)


def schema_errors(schema: str, paths: Iterable[Path]) -> list[str]:
    """Return what a schema, such as ``github-workflows``, finds wrong in files of YAML or JSON."""
    found = ((path, _validator(schema).iter_errors(parsed(path.read_text(encoding="utf-8")))) for path in paths)
    return [f"{path}: {error.json_path}: {error.message}" for path, errors in found for error in errors]


def zizmor(*words: str | Path) -> str:
    """Return what zizmor finds; empty for nothing."""
    program = Path(sysconfig.get_path("scripts")) / "zizmor"
    done = subprocess.run([program, "--offline", "--no-progress", *words], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return "" if done.returncode == 0 and "No findings to report" in said else f"{done.returncode}: {said[-3000:]}"


STRICT = ("--persona", "auditor")
"""zizmor's strictest persona."""
