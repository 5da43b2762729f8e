"""The private engine's programs: their packages, and wrappers that run them from a folder."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from bakery.core import child
from bakery.core.environment import for_stranger
from bakery.engine.debian_packages import PACKAGES, Bundle
from wheel_audit.readers import read_json

ENGINE_BUNDLE = Bundle(
    name="engine",
    # runc and iptables come from the machine's own suite: the newer ones need a newer glibc.
    packages=(
        "runc",
        "libseccomp2",
        "iptables",
        "libip4tc2",
        "libip6tc2",
        "libmnl0",
        "libnetfilter-conntrack3",
        "libnfnetlink0",
        "libnftnl11",
        "libxtables12",
    ),
    newer=("docker.io", "docker-cli", "docker-buildx", "docker-compose", "containerd", "tini-static"),
)


@dataclass(frozen=True)
class Prefix:
    """The folder of an unpacked engine."""

    path: Path

    @property
    def bin(self) -> Path:
        """The folder for PATH: docker, dockerd and the programs that dockerd calls."""
        return self.path / "bin"

    @property
    def plugins(self) -> Path:
        """The client's plugins: buildx and compose."""
        return self.path / "usr" / "libexec" / "docker" / "cli-plugins"

    @property
    def buildx(self) -> str:
        """The version of buildx, such as ``0.29.1``, from the name of its package; empty if it cannot be read."""
        try:
            names = "\n".join(read_json(self.path / PACKAGES))
        except (OSError, ValueError, TypeError):
            return ""
        match = re.search(r"(?m)^docker-buildx_(\d+(?:\.\d+)+)", names)
        return match[1] if match else ""


def link_programs(root: Path, final: Path) -> None:
    """Create the ``bin`` folder of an unpacked engine: links, and wrappers for programs that need its libraries."""
    folder = root / "bin"
    folder.mkdir()
    for name in ("usr/bin/docker", "usr/sbin/dockerd", "usr/sbin/docker-proxy", "usr/bin/ctr"):
        (folder / Path(name).name).symlink_to(Path("..") / name)
    for program in (root / "usr/bin").glob("containerd*"):
        (folder / program.name).symlink_to(Path("..") / "usr/bin" / program.name)
    (folder / "docker-init").symlink_to("../usr/bin/tini-static")
    _write_wrapper(folder / "runc", root, final, "usr/sbin/runc")
    flavour = _iptables_flavour(root)
    for family in ("iptables", "ip6tables"):
        for action in ("", "-save", "-restore"):
            multi = f"usr/sbin/xtables-{flavour}-multi"
            _write_wrapper(folder / f"{family}{action}", root, final, multi, f"{family}{action}")


def _libraries(root: Path) -> list[Path]:
    """Return the library folders of an unpacked engine, relative to it."""
    return sorted({path.parent.relative_to(root) for path in root.glob("**/lib/*-linux-gnu*/*.so.*")})


def _write_wrapper(path: Path, root: Path, final: Path, program: str, *arguments: str) -> None:
    """Write a script that runs a program of the engine with the engine's own libraries."""
    extensions = next(root.glob("**/xtables/libxt_*.so")).parent.relative_to(root)
    variables = {
        "LD_LIBRARY_PATH": ":".join(str(final / folder) for folder in _libraries(root)),
        "XTABLES_LIBDIR": str(final / extensions),
    }
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    command = shlex.join([str(final / program), *arguments])
    path.write_text(f'#!/bin/sh\nexport {settings}\nexec {command} "$@"\n')
    path.chmod(0o755)


def _iptables_flavour(root: Path) -> str:
    """Return which iptables this kernel supports: ``nft``, or ``legacy`` where nft is missing."""
    environ = {"LD_LIBRARY_PATH": ":".join(str(root / folder) for folder in _libraries(root))}
    command = [str(root / "usr/sbin/xtables-nft-multi"), "iptables", "-t", "nat", "-n", "-L"]
    return "nft" if child.completed(command, env=for_stranger({}, environ)).returncode == 0 else "legacy"
