"""A checkout that attacks in more than a hundred ways at once: all commands, with an engine, leave the victim untouched.

`make test` runs the commands that bake, and every other project; `make proof` runs all. Groups of ways alone, and the proof that these tests can fail, are in tests/contract/test_hostile_ways.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from projects import pure
from ways import build, commands, counting_server, victim
from ways.commands import COMMANDS, Check, by_fork, by_process

pytestmark = pytest.mark.engine

SEES = """\
import os, pathlib
seen = [dict(os.environ)]
for folder in ("/run/secrets", "/root", "/home", "/src", "/host"):
    for path in pathlib.Path(folder).rglob("*"):
        try:
            seen.append((str(path), path.read_bytes()[:5000] if path.is_file() and path.stat().st_size < 1 << 20 else b""))
        except OSError as error:
            seen.append((str(path), str(error)))
print("seen", seen)
"""
"""Code of the project: it writes what it sees into the log and the wheel."""

BAKED = (
    "dist_link", "records_link", "wheel_link", "bakery_link", "gitignore_link", "license", "output_up", "source_link",
)  # fmt: skip
"""Projects whose way is reached when a wheel is built or published."""

ASKS = ("secret_", "image_", "server_", "cache_", "require_")
"""How recipes begin that ask for something of the machine."""

WITH_ENGINE = (*commands.BAKES, "shell", "profile")
"""Commands of which the sample runs one each."""


def backend(folder: Path) -> str:
    text = (pure(folder, "") / "backend.py").read_text()
    return SEES + text.replace("told = {", 'told = {"seen": repr(seen),')


def environment_of(folder: Path, engine: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of a victim who has the engine of this machine; its own data stays where it is."""
    home = Path(engine.get("HOME", "/root"))
    config = {"DOCKER_CONFIG": engine.get("DOCKER_CONFIG", str(home / ".docker"))}
    found = {**engine, **config, **victim.environment(folder / "victim" / "home"), "TMPDIR": str(folder / "tmp")}
    places = {"CACHE": ".cache", "DATA": ".local/share"}
    found |= {f"XDG_{name}_HOME": engine.get(f"XDG_{name}_HOME", str(home / path)) for name, path in places.items()}
    return found | {"XDG_STATE_HOME": str(folder / "machine"), "BAKERY_PROGRESS": "plain"}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["sample", "all"])
def test_all_ways_at_once_leave_no_trace(tmp_path: Path, engine_environment: Mapping[str, str], *, every: bool) -> None:
    for name in ("checkout", "victim", "machine", "tmp"):
        (tmp_path / name).mkdir()
    victim.make(tmp_path / "victim")
    text = backend(tmp_path / "plain")
    with counting_server() as (address, calls):
        scene = build(tmp_path / "checkout", tmp_path / "victim", address, backend=text)
        for name in BAKED:
            scene.write(f"evil/{name}/back/backend.py", text)
        environment = environment_of(tmp_path, engine_environment)
        check = Check(scene, calls, [tmp_path / name for name in ("checkout", "machine", "tmp")])
        first = {command: [*command.split(), *words[0]] for command, words in COMMANDS.items()}
        lines = list(commands.lines(scene))
        for words in lines if every else {words[0]: words for words in lines if words[0] in WITH_ENGINE}.values():
            ends = words[:2] in (["engine", "down"], ["engine", "remove"])
            own = {**environment, **({"BAKERY_ENGINE_DIR": str(tmp_path / "machine" / "engine")} if ends else {})}
            run = by_process if words in first.values() else by_fork
            check.ended.append(run(words, scene.checkout, own))
        built = [ended.code for ended in check.ended if ended.words == ["bake", "wheel"]]
        asks = {
            name if every else name.partition("_")[0]: path
            for name, path in scene.recipes.items()
            if name.startswith(ASKS)
        }
        items = [(["wheel"], scene.projects[name]) for name in BAKED[:: 1 if every else 2]]
        items += [(["wheel"], path.parent) for path in asks.values()]
        with ThreadPoolExecutor(2) as pool:
            check.ended += pool.map(lambda item: by_fork(*item, environment), items)
    assert not check.problems()
    # The wheel of the project at the top is built and published, beside all that is there.
    assert built == [0]
    assert os.path.lexists(scene.checkout / "dist" / ".provenance" / f"{commands.WHEEL}.provenance.json")
