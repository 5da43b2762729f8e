"""Each group of ways in which a checkout attacks, alone, with all commands and no engine: nothing of the victim is touched."""

from __future__ import annotations

import base64
import os
import socket
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ways import GROUPS, WAYS, Scene, build, commands, counting_server, victim
from ways.commands import COMMANDS, Check, Ended, by_fork, by_process

Place = tuple[Path, str, list[bytes]]


def surroundings(folder: Path) -> dict[str, str]:
    """Give the environment of a victim without an engine."""
    return {
        **{name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "DOCKER_", "XDG_"))},
        **victim.environment(folder / "victim" / "home"),
        **{f"XDG_{name}_HOME": str(folder / "machine" / name.lower()) for name in ("STATE", "CACHE", "DATA")},
        "TMPDIR": str(folder / "tmp"),
        "BAKERY_ENGINE_DIR": str(folder / "machine" / "engine"),
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "PIP_INDEX_URL": f"http://user:{victim.CANARY}-index@127.0.0.1:9/simple",
    }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    for name in ("checkout", "victim", "machine", "tmp", "elsewhere"):
        (tmp_path / name).mkdir()
    victim.make(tmp_path / "victim")
    with counting_server() as (address, calls):
        yield tmp_path, address, calls


def scene_of(place: Place, *groups: str) -> Scene:
    return build(place[0] / "checkout", place[0] / "victim", place[1], groups)


def check_of(place: Place, scene: Scene) -> Check:
    return Check(scene, place[2], [place[0] / name for name in ("checkout", "machine", "tmp", "elsewhere")])


def everything(scene: Scene, first: int, *, every: bool) -> Iterator[tuple[Sequence[str], Path]]:
    """Yield commands and the folders that they run in.

    Without ``every``, a group has every twelfth command from ``first``, and a project one in 32, and ``wheel``.
    """
    lines = list(commands.lines(scene))
    yield from ((words, scene.checkout) for words in (lines if every else lines[first % 12 :: 12]))
    for number, folder in enumerate(scene.projects.values()):
        sample = [*commands.OF_A_PROJECT[number % 32 :: 32], ["wheel"]]
        yield from ((words, folder) for words in (commands.OF_A_PROJECT if every else sample))
    for number, path in enumerate(scene.recipes.values()):
        sample = [commands.OF_A_RECIPE[number % 3], ["wheel"]]
        yield from ((words, path.parent) for words in (commands.OF_A_RECIPE if every else sample))


def test_every_command_runs_in_the_hostile_checkout() -> None:
    assert set(commands.names()) == set(COMMANDS)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["sample", "all"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_ways_leaves_no_trace(place: Place, group: str, *, every: bool) -> None:
    scene, environment = scene_of(place, group), surroundings(place[0])
    check = check_of(place, scene)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        check.ended = list(
            pool.map(lambda item: by_fork(*item, environment), everything(scene, [*GROUPS].index(group), every=every))
        )
    assert not check.problems()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the folder", "with -C"])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["sample", "all"])
def test_processes_of_all_commands_run_nothing_of_the_folder(place: Place, *, elsewhere: bool, every: bool) -> None:
    """Without ``every``, one command in six runs in the folder, and another one with ``-C``."""
    scene, environment = scene_of(place, "programs"), surroundings(place[0])
    check = check_of(place, scene)
    begin = place[0] / "elsewhere" if elsewhere else None
    for command, all_words in list(COMMANDS.items())[0 if every else 3 * elsewhere :: 1 if every else 6]:
        words = [*command.split(), *all_words[0]]
        check.ended.append(by_process(words, scene.checkout, environment, elsewhere=begin))
    assert not check.problems()


@pytest.mark.proof
def test_pipes_in_repositories_are_waited_for_once(place: Place) -> None:
    scene, environment = scene_of(place, "pipes"), surroundings(place[0])
    check = check_of(place, scene)
    items = [
        (words, folder) for folder in scene.projects.values() for words in (["plan", "--since", "HEAD"], ["wheel"])
    ]
    with ThreadPoolExecutor(len(items)) as pool:
        check.ended = list(pool.map(lambda item: by_fork(*item, environment), items))
    assert not check.problems()


# --- The test can fail: one real violation for each kind of trace ---------------------------------


def _touch(scene: Scene) -> None:
    (scene.victim / "home" / "new").touch()


def _content(scene: Scene) -> None:
    status = scene.key.stat()
    scene.key.write_text(scene.key.read_text().replace("PRIVATE", "privateX"))
    os.utime(scene.key, ns=(status.st_atime_ns, status.st_mtime_ns))


def _wheel(scene: Scene) -> None:
    with zipfile.ZipFile(scene.checkout / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", f"{'x' * 1000}{victim.CANARY}")


def _call(scene: Scene) -> None:
    with socket.create_connection(scene.address.split(":")) as connection:  # type: ignore[arg-type]
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        connection.recv(1)


VIOLATIONS: dict[str, Callable[[Scene], object]] = {
    "a new file": _touch,
    "other content, same time": _content,
    "a mode": lambda scene: scene.key.chmod(0o644),
    "a time": lambda scene: os.utime(scene.key),
    "a file less": lambda scene: scene.key.unlink(),
    "a canary in a file": lambda scene: scene.write("out.json", victim.CANARY),
    "a canary in base64": lambda scene: scene.write("out.json", base64.b64encode(f"user:{victim.CANARY}-x".encode())),
    "a canary in a name": lambda scene: scene.write(f"{victim.CANARY}.txt", ""),
    "a canary in a wheel": _wheel,
    "a copy of a private file": lambda scene: scene.write("copy", scene.key.read_bytes()),
    "a call": _call,
}


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_a_trace_is_found(place: Place, kind: str) -> None:
    scene = Scene(place[0] / "checkout", place[0] / "victim", place[1])
    check = check_of(place, scene)
    assert not check.problems()
    VIOLATIONS[kind](scene)
    assert check.problems()


ENDS = {
    "an internal error": (1, b"internal error: KeyError"),
    "a traceback": (2, b"Traceback (most recent call last):"),
    "killed": (-9, b""),
    "no end": (None, b""),
    "an escape sequence": (2, b"\x1b]0;pwned\x07"),
    "a mark that turns text": (2, "\u202epwned".encode()),
    "a canary": (0, f"x{victim.CANARY}x".encode()),
    "a command for the runner": (0, b"  ::set-output name=pwned::1"),
    "a group": (0, b"x ##[group]pwned"),
}


@pytest.mark.parametrize("kind", ENDS)
def test_a_bad_end_is_found(tmp_path: Path, kind: str) -> None:
    assert [*Ended(["plan"], tmp_path, *ENDS[kind]).problems()]
    assert not [*Ended(["plan"], tmp_path, 2, b"usage: no").problems()]


def test_a_program_of_the_checkout_that_runs_is_found(place: Place) -> None:
    """The traps are armed: each of these is run by the tool that Bakery does not ask so."""
    scene = scene_of(place, "programs", "repository")
    check = check_of(place, scene)
    environment = surroundings(place[0])
    for program in ("git", "docker", "python3"):
        os.spawnle(os.P_WAIT, str(scene.checkout / program), program, environment)
        assert (scene.victim / f"pwned-{program}").exists()
    plain = {"PATH": os.environ["PATH"], "HOME": str(place[0])}
    git = ["git", "-C", str(scene.checkout), "status"]
    os.spawnvpe(os.P_WAIT, "git", git, plain)
    # Settings replace each other; at least one of the programs ran.
    traps = {f"pwned-{path.name}" for path in (scene.checkout / ".git" / "programs").iterdir()}
    assert traps & {path.name for path in scene.victim.iterdir()}
    assert check.problems()


def test_there_are_at_least_sixty_ways() -> None:
    from ways import files, programs, records, repository, texts, trust

    assert {module.__name__ for module in (files, programs, records, repository, texts, trust)}
    # Texts are many; without them there are enough.
    assert sum(len(found) for group, found in WAYS.items() if group != "texts") >= 60
