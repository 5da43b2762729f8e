"""``--json`` of every command that prints a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bakery.cli.app import app

NO_TABLE = {
    "init", "check", "generate", "lock", "shell", "logs", "report", "verify", "gpu-test", "variants", "meta", "index",
    "schema", "completion", "engine env", "engine up", "engine down", "engine status", "engine emulate",
    "engine remove", "builders up", "builders rm",
}  # fmt: skip
"""Commands that print lines, a file, or nothing."""


def commands() -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each command, with its group, and its options."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for name, command in group.commands.items():
        inner = command.commands if isinstance(command, typer.core.TyperGroup) else {"": command}
        for part, item in inner.items():
            yield f"{name} {part}".strip(), {option for value in item.params for option in value.opts}


def test_every_command_with_a_table_has_json() -> None:
    without = {name for name, opts in commands() if "--json" not in opts}
    assert without == NO_TABLE


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["plan"], "recipes"),
        (["plan", "--explain"], "recipes"),
        (["rules"], "rules"),
        (["explain", "cuda-unknown-arch"], "why"),
        (["explain", "lfs-pointer"], "fix"),
        (["gpus", "8.0"], "version"),
        (["wheel", "--shard", "3/3"], "runs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_it_prints_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], key: str
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11"]\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words, "--json"])
    assert not done.exception, done.exception
    document = json.loads(done.stdout)
    assert key in document
    if "--explain" in words:
        assert document["recipes"][0]["values"]["matrix.python"]["from"].startswith("bakery.toml")
