"""Where bakery keeps what it makes on this machine: caches, state, the private engine's data, its sockets.

The XDG base directories decide, so nothing lands outside the user's own folders but ``/run/bakery``.
``BAKERY_ENGINE_DIR`` moves the engine's data and sockets (not the caches), which gives a second engine,
without a network: its containers reach nothing outside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENGINE_DIR_VARIABLE = "BAKERY_ENGINE_DIR"


@dataclass(frozen=True)
class Places:
    """The folders of one engine.

    Attributes:
        cache: downloads and unpacked programs; may be deleted at any time while no engine runs.
        data: the engine's images, build cache and client state.
        run: socket, pid file, lock and log of the running engine.
        state: what is remembered of projects.
        primary: true for the engine that uses the machine's network; a second one has none.
    """

    cache: Path
    data: Path
    run: Path
    state: Path
    primary: bool

    @property
    def socket(self) -> Path:
        """The engine's API socket."""
        return self.run / "docker.sock"

    @property
    def pid_file(self) -> Path:
        """Holds dockerd's process id while it runs."""
        return self.run / "docker.pid"

    @property
    def exec_root(self) -> Path:
        """dockerd's and containerd's run-time state."""
        return self.run / "exec"

    @property
    def log(self) -> Path:
        """What dockerd and its containerd print."""
        return self.run / "dockerd.log"

    @property
    def config(self) -> Path:
        """The engine's daemon.json."""
        return self.run / "daemon.json"

    @property
    def client(self) -> Path:
        """The client's configuration folder (DOCKER_CONFIG)."""
        return self.data / "client"


def places(environ: Mapping[str, str] | None = None) -> Places:
    """Return the folders that an environment asks for.

    Args:
        environ: the variables to read; the process's own when None.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    cache = _base(env, "XDG_CACHE_HOME", home / ".cache") / "bakery"
    state = _base(env, "XDG_STATE_HOME", home / ".local" / "state") / "bakery"
    if override := env.get(ENGINE_DIR_VARIABLE):
        base = Path(override).absolute()
        return Places(cache=cache, data=base / "data", run=base / "run", state=state, primary=False)
    data = _base(env, "XDG_DATA_HOME", home / ".local" / "share") / "bakery" / "engine"
    return Places(cache=cache, data=data, run=Path("/run/bakery"), state=state, primary=True)


def _base(env: Mapping[str, str], name: str, default: Path) -> Path:
    """Return an XDG base directory; the specification says to ignore a relative one."""
    value = Path(env.get(name) or default)
    return value if value.is_absolute() else default
