"""Ways in which a checkout attacks who works in it: each is a small function that adds its files to a `Scene`.

A way is reached in the project at the top of the checkout, or, where it would be refused and hide the others, in a project or
a recipe of its own below it. Every way would leave a trace if it worked: a change in the victim's folder, a canary of the
victim in what comes out, or a request to the attacker's server.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from repositories import git

RECIPE = 'name = "demo"\n[wheel]\nrepair = false\n'
TOP = 'name = "demo"\nsource = { path = ".", ignore = ["evil", "recipes"] }\n[wheel]\nrepair = false\n'
"""The recipe of the project at the top: what is in other projects does not keep it from being built."""

PYPROJECT = (
    '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "backend"\nbackend-path = ["back"]\n'
    '[project]\nname = "demo"\nversion = "1.0"\n'
)
MARK = "pwned"
"""In every text and name of the attacker, and in the name of every file that is made when an attack works."""

RUN = "20260101T000000Z-1"
"""The run that the checkout brings."""


@dataclass
class Scene:
    """A hostile checkout, and what it would harm.

    Attributes:
        checkout: the top of the attacker's repository; a project is there.
        victim: the victim's folder, with the home folder and files that hold canaries.
        address: host and port of the attacker's server.
        projects, recipes: further projects and recipes, each with one way that would hide others.
        revisions: commits for ``--since``.
    """

    checkout: Path
    victim: Path
    address: str
    projects: dict[str, Path] = field(default_factory=dict)
    recipes: dict[str, Path] = field(default_factory=dict)
    revisions: list[str] = field(default_factory=list)

    @property
    def touch(self) -> str:
        """A shell command that leaves a trace."""
        return f"touch {self.victim}/{MARK}"

    @property
    def key(self) -> Path:
        """A private file of the victim."""
        return self.victim / "home" / ".ssh" / "id_rsa"

    def out(self, depth: int = 0) -> str:
        """Return the victim's folder relative to a folder ``depth`` levels below the top of the checkout."""
        return f"{'../' * (depth + 1)}{self.victim.name}"

    def folder(self, name: str) -> Path:
        """Make a folder of the checkout."""
        path = self.checkout / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> Path:
        """Write a file of the checkout."""
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def link(self, name: str, target: Path | str) -> None:
        """Write a symbolic link."""
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def program(self, name: str) -> Path:
        """Write a program that leaves a trace, and then fails."""
        return self.write(name, f"#!/bin/sh\n{self.touch}-{Path(name).name}\nexit 1\n", 0o755)

    def project(self, name: str, recipe: str = RECIPE, pyproject: str = PYPROJECT) -> str:
        """Write a project of its own; return its folder, relative to the checkout."""
        folder = f"evil/{name}"
        self.write(f"{folder}/bakery.toml", recipe)
        self.write(f"{folder}/pyproject.toml", pyproject)
        self.projects[name] = self.checkout / folder
        return folder

    def repository(self, name: str) -> str:
        """Write a project with a repository of its own."""
        folder = self.project(name)
        for words in (
            ["init", "--quiet", "--initial-branch=main"],
            ["add", "--all"],
            ["commit", "--quiet", "--message", "x"],
        ):
            git(self.checkout / folder, *words)
        return folder

    def recipe(self, name: str, text: str) -> None:
        """Write a recipe of the project at the top; ``text`` comes after its name."""
        path = f"recipes/{name}/bakery.toml"
        self.write(path, f'name = "{name.replace("_", "-")}"\n{text}\n')
        self.write(f"recipes/{name}/pyproject.toml", PYPROJECT)
        self.recipes[name] = self.checkout / path

    def git(self, *words: str) -> str:
        """Run git in the checkout."""
        return git(self.checkout, *words)


Way = Callable[[Scene], None]
WAYS: dict[str, dict[str, Way]] = {}
"""Group → name → way."""

GROUPS = ("files", "programs", "records", "repository", "texts", "trust")
"""The groups that can be together, each in a module of its name. ``pipes`` cannot: git waits for one, so nothing else of it is asked."""


def way(group: str) -> Callable[[Way], Way]:
    """Register a way; its docstring says what it tries."""

    def register(function: Way) -> Way:
        assert function.__doc__
        WAYS.setdefault(group, {})[function.__name__] = function
        return function

    return register


def build(checkout: Path, victim: Path, address: str, groups: Sequence[str] = (), backend: str = "") -> Scene:
    """Write a checkout with all ways of some groups, or of all `GROUPS`; ``backend`` builds the wheel."""
    for name in GROUPS:
        import_module(f"ways.{name}")
    scene = Scene(checkout, victim, address)
    scene.write("bakery.toml", TOP)
    scene.write("pyproject.toml", PYPROJECT)
    scene.write("back/backend.py", backend)
    scene.write("demo.py", "x = 1\n")
    scene.git("init", "--quiet", "--initial-branch=main")
    scene.git("add", "--all")
    scene.git("commit", "--quiet", "--message", "one")
    scene.git("branch", "old")
    scene.write("demo.py", "x = 2\n")
    scene.git("commit", "--quiet", "--all", "--message", "two")
    for group in groups or GROUPS:
        for function in WAYS[group].values():
            function(scene)
    return scene


class _Counter(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.settimeout(2)
        try:
            first = self.request.recv(200)
        except OSError:
            first = b""
        self.server.calls.append(first)  # type: ignore[attr-defined]


@contextmanager
def counting_server() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of the attacker's server, and the beginnings of all that it was sent."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Counter) as server:
        server.daemon_threads = True
        server.calls = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", server.calls  # type: ignore[attr-defined]
        server.shutdown()
