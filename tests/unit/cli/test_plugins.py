"""Commands of other distributions: they are found, and what is missing says what to install."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from bakery.cli import plugins
from bakery.cli.app import app
from bakery.core.errors import BakeryError, UsageError
from bakery.plan.delivery import Repository


class OddError(BakeryError, exit_code=99):
    """Something odd."""


def odd() -> None:
    """Do something odd."""
    typer.echo("odd")


class Odd:
    title = "Odd things"
    commands: Mapping[str, plugins.Entry] = MappingProxyType({"odd": plugins.Entry("Do something odd.", "odd:odd")})
    exit_codes: Mapping[int, str] = MappingProxyType({OddError.exit_code: "Something odd."})

    def schemas(self) -> Mapping[str, Mapping[str, object]]:
        return {"odd": {"title": "Odd"}}

    def files(self, folder: Path, repository: Repository) -> Mapping[str, str]:
        return {".github/workflows/odd.yml": "name: odd\n"} if (folder / "odd.toml").exists() else {}


plugin = Odd()


def only(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints(found))
    plugins.plugins.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    plugins.plugins.cache_clear()


def test_a_plugin_adds_commands_schemas_files_and_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, EntryPoint("odd", "odd:plugin", plugins.GROUP))
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    monkeypatch.setattr("bakery.cli.command_group.import_module", lambda name: SimpleNamespace(odd=odd))
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert run(app, ["odd"]).output == "odd\n"
    shown = run(app, ["--help"]).output
    assert "Odd things" in shown
    assert "99" in shown


def test_a_plugin_writes_files_and_has_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, EntryPoint("odd", "odd:plugin", plugins.GROUP))
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.toml").write_text("")
    assert CliRunner().invoke(app, ["generate"]).output == "wrote .github/workflows/odd.yml\n"
    assert '"title": "Odd"' in CliRunner().invoke(app, ["schema", "odd"]).output
    failed = CliRunner().invoke(app, ["schema", "od"]).exception
    assert isinstance(failed, UsageError)
    assert failed.hint == "did you mean 'odd'?"


@pytest.mark.parametrize("name", ["compile", "validate", "benchmark"])
def test_a_companion_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    failed = CliRunner().invoke(app, [name, "x"]).exception
    assert isinstance(failed, UsageError)
    assert failed.hint == "python -m pip install bakery-iree"


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, EntryPoint("broken", "no_such_module:plugin", plugins.GROUP))
    failed = CliRunner().invoke(app, ["schema", "x"]).exception
    assert isinstance(failed, UsageError)
    assert "the plugin broken cannot be imported" in failed.message


def test_an_unknown_command_is_none_of_a_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    assert "No such command 'wheal'" in CliRunner().invoke(app, ["wheal"]).output


def test_iree_is_a_plugin() -> None:
    assert [item.title for item in plugins.plugins()] == ["IREE modules"]
