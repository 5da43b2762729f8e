"""``--help`` of every command."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from bakery.cli.app import app


def names() -> list[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return list(group.commands)


def test_every_command_is_listed_once_under_its_task() -> None:
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    for name in names():
        assert text.count(f"\n  {name} ") == 1, name
    assert text.index("Write a recipe:") < text.index("Build and test wheels:") < text.index("Exit codes:")
    assert "..." not in text.partition("\n\n")[2]


@pytest.mark.parametrize("name", names())
def test_help_of_a_command(name: str) -> None:
    done = CliRunner().invoke(app, [name, "-h"], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: bakery {name} ")
    # Markup for another kind of help would be shown as it is.
    assert "[dim]" not in done.output
    assert "\\[" not in done.output


def test_a_misspelled_command_is_told_the_nearest_one() -> None:
    done = CliRunner().invoke(app, ["weel"])
    assert done.exit_code == 2
    assert "No such command 'weel'. Did you mean 'wheel'?" in done.output
