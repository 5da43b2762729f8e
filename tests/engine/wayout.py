"""A way out for an engine in a network namespace of its own: without one, its containers reach nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.engine.private_engine_files import Prefix


def run(*words: str | Path, check: bool = True) -> None:
    """Run a program in silence."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}\n{done.stderr}")


@dataclass(frozen=True)
class WayOut:
    """A pair of network devices, and rules that let what comes from the inner one out.

    Attributes:
        prefix: whose iptables are used.
        link: the device on this machine's side.
        subnet: the first three numbers of its addresses.
    """

    prefix: Prefix
    link: str
    subnet: str

    @classmethod
    def numbered(cls, prefix: Prefix, number: int) -> WayOut:
        """Return one of up to eight that no other process has: two of one subnet would take each other's answers."""
        own = os.getpid()
        return cls(prefix, f"bk{own}n{number}", f"10.{64 + own // 256 % 16 * 8 + number}.{own % 256}")

    @property
    def gateway(self) -> str:
        """The address of this machine as the engine sees it."""
        return f"{self.subnet}.1"

    def open(self, pid: int) -> None:
        """Connect the namespace of a process."""
        self.close()
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "address", "add", f"{self.gateway}/30", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        inside = ("nsenter", "--target", str(pid), "--net", "ip")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "address", "add", f"{self.subnet}.2/30", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "route", "add", "default", "via", self.gateway)
        for rule in self._rules:
            run(self.prefix.bin / "iptables", *rule("-I"))

    def close(self) -> None:
        """Take all of it away; where there is none, nothing."""
        for rule in self._rules:
            run(self.prefix.bin / "iptables", *rule("-D"), check=False)
        run("ip", "link", "delete", self.link, check=False)

    @property
    def _rules(self) -> Sequence[_Rule]:
        net = f"{self.subnet}.0/30"
        return (
            _Rule("nat", ("POSTROUTING", "-s", net, "-j", "MASQUERADE")),
            _Rule("filter", ("DOCKER-USER", "-s", net, "-j", "ACCEPT")),
            _Rule("filter", ("DOCKER-USER", "-d", net, "-j", "ACCEPT")),
        )


@dataclass(frozen=True)
class _Rule:
    table: str
    words: tuple[str, ...]

    def __call__(self, verb: str) -> tuple[str, ...]:
        return ("-w", "-t", self.table, verb, *self.words)
