"""The folders of bakery on this machine: caches, state, data and sockets of the private engine.

They follow the XDG base directories; only ``/run/bakery`` is outside of them. ``BAKERY_ENGINE_DIR`` moves the data and
sockets of the engine, not the caches: this gives a second engine, without network. platformdirs is not used: it reads
only the environment of the process, and on macOS it would move the folders.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.core.file_locks import locked_file

ENGINE_DIR_VARIABLE = "BAKERY_ENGINE_DIR"


@dataclass(frozen=True)
class EnginePaths:
    """The folders of one engine. `primary`: it uses the network of the machine; a second engine has none."""

    cache: Path  # downloads and unpacked programs; can be deleted while no engine runs
    data: Path  # the engine's images, build cache and client state
    run: Path  # socket, pid file, lock and log of the running engine
    state: Path  # journals and locks of projects
    primary: bool

    @property
    def socket(self) -> Path:
        """The engine's API socket."""
        return self.run / "docker.sock"

    @property
    def pid_file(self) -> Path:
        """The file with dockerd's process id while it runs."""
        return self.run / "docker.pid"

    @property
    def exec_root(self) -> Path:
        """dockerd's and containerd's run-time state."""
        return self.run / "exec"

    @property
    def log(self) -> Path:
        """The output of dockerd and containerd."""
        return self.run / "dockerd.log"

    @property
    def config(self) -> Path:
        """The engine's daemon.json."""
        return self.run / "daemon.json"

    @property
    def client(self) -> Path:
        """The client's configuration folder (DOCKER_CONFIG)."""
        return self.data / "client"


def engine_paths(environ: Mapping[str, str] | None = None) -> EnginePaths:
    """Return the folders for an environment, by default that of the process."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    cache = _base(env, "XDG_CACHE_HOME", home / ".cache") / "bakery"
    state = _base(env, "XDG_STATE_HOME", home / ".local" / "state") / "bakery"
    if override := env.get(ENGINE_DIR_VARIABLE):
        base = Path(override).absolute()
        return EnginePaths(cache=cache, data=base / "data", run=base / "run", state=state, primary=False)
    data = _base(env, "XDG_DATA_HOME", home / ".local" / "share") / "bakery" / "engine"
    return EnginePaths(cache=cache, data=data, run=Path("/run/bakery"), state=state, primary=True)


def made_once(final: Path, make: Callable[[Path], Path]) -> Path:
    """Make a file or folder of the cache unless it is there, and return it; others see it when it is complete.

    ``make`` gets an empty folder, which is removed afterwards, and returns what is to be there. Raises OSError.
    """
    if not final.exists():
        with locked_file(final.with_name(f".{final.name}.lock")):
            if not final.exists():
                with tempfile.TemporaryDirectory(prefix=".make-", dir=final.parent) as scratch:
                    make(Path(scratch)).rename(final)
    return final


def _base(env: Mapping[str, str], name: str, default: Path) -> Path:
    """Return an XDG base directory. The specification says to ignore relative paths."""
    value = Path(env.get(name) or default)
    return value if value.is_absolute() else default
