"""Secrets: nothing that a build leaves holds one.

The three kinds that a recipe can name, a CA bundle and pip's configuration.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from canaries import Processes, Spellings, unpacked
from command import Done, bakery, shell
from farm import EngineNode, engine_nodes
from projects import pure
from runs import runs_of

pytestmark = pytest.mark.engine

IMAGE = f"confidential-{os.getpid()}"
"""A recipe of this process alone: its image is removed at the end."""

RUNS = int(os.environ.get("CANARY_RUNS", "100"))

ALLOW = {"BAKERY_ALLOW": "secret.env=CANARY_ENV secret.command=from-command"}

RECIPE = """\
name = "{name}"
[wheel]
repair = false
[test]
command = "cat /run/secrets/from-file | sha256sum; cat /run/secrets/from-file{more}"
imports = ["demo"]
[secrets.from-env]
env = "CANARY_ENV"
steps = ["compile"]
variable = "TOLD_BY_ENV"
[secrets.from-file]
file = "key file é.txt"
steps = ["requirements", "compile", "test"]
[secrets.from-command]
command = {command}
steps = ["compile"]
"""

BACKEND = r"""
import base64, html, json, re, shlex, subprocess, sys, urllib.parse
def written(value):
    # label -> what a tool makes of a value
    raw, quoted = value.encode(), urllib.parse.quote(value, safe="")
    go = json.dumps(value, ensure_ascii=False)
    for char in "<>&":
        go = go.replace(char, "\\u%04x" % ord(char))
    found = dict(lower=re.sub("%..", lambda match: match[0].lower(), quoted), go=go, json=json.dumps(json.dumps(value)))
    found.update(hex=raw.hex(), HEX=raw.hex().upper(), html=html.escape(value), gohtml=html.escape(value).replace("&#x27;", "&#39;"))
    found.update(repr=repr(value), ascii=ascii(value), bytes=repr(raw), shell=shlex.quote(value), form=urllib.parse.quote_plus(value))
    for before in (0, 1, 5, 30, 50, 56):
        coded = base64.b64encode(b"u" * before + raw).decode()
        for width in (64, 76):
            found["base64-%d-%d" % (before, width)] = re.sub("(.{{%d}})" % width, r"\1\n", coded)
    return found
# The step that asks for more requirements has no secrets.
TOLD = os.path.exists("/run/secrets/from-file")
FILES = [open("/run/secrets/" + name, "rb").read().strip().decode() for name in ("from-file", "from-command") if TOLD]
VALUES = [os.environ.pop("TOLD_BY_ENV"), *FILES] if TOLD else []
for value in VALUES:
    print("digest", hashlib.sha256(value.encode()).hexdigest(), flush=True)
    if {prints}:
        print("plain", value)
        print("encoded", base64.b64encode(b"user:" + value.encode()).decode(), file=sys.stderr)
        print("quoted", urllib.parse.quote(value, safe=""))
        for label, text in written(value).items():
            print("<" + label, text)
        sys.stdout.write("pieces " + value[:9]); sys.stdout.flush(); import time; time.sleep(0.3); print(value[9:])
"""


@dataclass
class Canaries:
    """Three secrets of a recipe, one of each kind, with characters that tools escape, and one of this machine.

    Attributes:
        configuration: what the CA bundle and pip's configuration contain.
    """

    values: list[str] = field(default_factory=lambda: [f"canary/+ é<&>'\"{secrets.token_hex(12)}" for _ in range(3)])
    configuration: str = field(default_factory=lambda: f"canary-{secrets.token_hex(12)}")

    @cached_property
    def spellings(self) -> Spellings:
        return Spellings(
            {**{f"value {number}": value for number, value in enumerate(self.values)}, "machine": self.configuration}
        )


def project(folder: Path, canaries: Canaries, *, prints: bool, fails: bool = False, name: str = "confidential") -> Path:
    """Write a project whose steps are told three secrets."""
    command = [sys.executable, "-c", "import os; print(open(os.environ['HELD'], encoding='utf-8').read())"]
    more = "; exit 3" if fails else "" if prints else " >/dev/null"
    recipe = RECIPE.format(name=name, more=more, command=json.dumps(command))
    pure(folder, recipe)
    backend = folder / "backend.py"
    text = backend.read_text().replace("def build_wheel", BACKEND.format(prints=prints) + "\ndef build_wheel")
    # A file that no other run has: no step that is told secrets comes from the cache.
    backend.write_text(f"# {uuid.uuid4()}\n{text}")
    (folder / "key file é.txt").write_text(canaries.values[1] + "\n", encoding="utf-8")
    (folder.parent / "held").write_text(canaries.values[2], encoding="utf-8")
    return folder


def environment(folder: Path, canaries: Canaries) -> dict[str, str]:
    return {"CANARY_ENV": canaries.values[0], "HELD": str(folder.parent / "held"), **ALLOW}


def references(done: Done) -> list[str]:
    """Return the names that buildx gave the builds of a run."""
    files = (done.runs[-1] / "metadata").glob("*.json")
    targets = (target for file in files for target in json.loads(file.read_text()).values())
    return [target["buildx.build.ref"].rpartition("/")[2] for target in targets]


@pytest.fixture(scope="module")
def canaries() -> Canaries:
    return Canaries()


@dataclass
class Baked:
    done: Done
    folder: Path
    processes: Processes


@pytest.fixture(scope="module")
def bake(tmp_path_factory: pytest.TempPathFactory, canaries: Canaries, ca_bundle: Path | None) -> Callable[..., Baked]:
    """Give what bakes a project whose steps print their secrets."""

    def baked(*words: str, **variables: str) -> Baked:
        folder = project(tmp_path_factory.mktemp("told") / "project é x", canaries, prints=True, name=IMAGE)
        recipe = folder / "bakery.toml"
        # No other run has this order and this number: the steps that use apt and pip are not in the cache.
        packages = ["tree", *random.sample(("bc", "dc", "file", "less", "time"), 5)]
        requirement = f"wheel!=0.{secrets.randbelow(10**9)}"
        builder = f"[builder]\nsystem-packages = {json.dumps(packages)}\nrequirements = [{requirement!r}]\n"
        test = f"[test]\nrequirements = [{requirement!r}]\n"
        recipe.write_text(recipe.read_text().replace("[wheel]\n", f"{builder}[wheel]\n").replace("[test]\n", test))
        machine = tmp_path_factory.mktemp("machine")
        bundle, configuration = machine / "bundle.pem", machine / "pip.conf"
        # Text between certificates is a comment.
        comment = f"# {canaries.configuration}\n"
        bundle.write_text(comment + (ca_bundle or Path("/etc/ssl/certs/ca-certificates.crt")).read_text() + comment)
        configuration.write_text(f"[global]\ntrusted-host = {canaries.configuration}.invalid\n")
        told = {**environment(folder, canaries), "BAKERY_PROGRESS": "rawjson", "PIP_CONFIG_FILE": str(configuration)}
        with Processes(canaries.spellings) as processes:
            done = bakery(folder, *words, "--ca-bundle", str(bundle), environment={**told, **variables})
        return Baked(done, folder, processes)

    return baked


@pytest.fixture(scope="module")
def baked(bake: Callable[..., Baked]) -> Baked:
    return bake("full")


@pytest.fixture(scope="module")
def layers(bake: Callable[..., Baked], engine_environment: Mapping[str, str]) -> Iterator[Baked]:
    """Bake everything, with the image, and all layers in a cache."""
    cache = {"BAKERY_CACHE": "local", "BAKERY_CACHE_DIR": ".bakery/cache", "BAKERY_CACHE_READ_ONLY": "false"}
    try:
        yield bake("bake", "dev", "full", **cache)
    finally:
        shell(engine_environment, "docker", "rmi", "--force", f"{IMAGE}:dev-cp311")


def test_steps_were_told(baked: Baked, canaries: Canaries) -> None:
    log = baked.done.log("wheel-cp311")
    shown = subprocess.run(["sha256sum"], input=canaries.values[0].encode(), capture_output=True, check=True).stdout
    assert f"digest {shown.split()[0].decode()}" in log
    assert log.count("digest ") == 3
    assert log.count("plain ***\n") == 3
    assert log.count("quoted ***\n") == 3
    for label in ("lower", "go", "json", "hex", "HEX", "html", "gohtml", "repr", "ascii", "bytes", "shell", "form"):
        assert len(re.findall(rf"<{label} b?\W*\*\*\*\W*\n", log)) == 3, label
    assert len(re.findall(r"<base64-\d+-\d+ [^<]*?\*\*\*", log)) == 3 * 6 * 2
    assert log.count("pieces ***\n") == 3
    assert "\n***\n" in baked.done.log("test-cp311")
    log = baked.done.log("wheel-cp311")
    assert "Setting up tree" in log, "apt ran"
    assert " --hash=sha256:" in log, "what the build needs was resolved"


def test_nothing_that_was_printed_tells_them(baked: Baked, canaries: Canaries) -> None:
    streams = [json.loads(line) for line in baked.done.out.splitlines()]
    printed = b"".join(base64.b64decode(log["data"]) for item in streams for log in item.get("logs") or ())
    assert b"plain ***" in printed
    assert not canaries.spellings.in_data(printed)
    assert not canaries.spellings.in_data((baked.done.out + baked.done.err).encode())
    assert "a step printed secrets: from-command, from-env, from-file" in " ".join(baked.done.err.split())


def test_no_file_that_is_left_tells_them(baked: Baked, canaries: Canaries) -> None:
    assert list((baked.folder / "dist").glob("*.whl"))
    bakery(baked.folder, "generate")
    assert list(baked.folder.glob("dockerfiles/*"))
    assert canaries.spellings.holders(baked.folder, but=("key file é.txt",)) == []


@pytest.mark.proof
def test_no_layer_in_a_cache_tells_them(layers: Baked, canaries: Canaries) -> None:
    assert canaries.spellings.holders(layers.folder, but=("key file é.txt",)) == []
    blobs = [path for path in (layers.folder / ".bakery/cache").rglob("sha256/*") if path.is_file()]
    assert sum(path.stat().st_size for path in blobs) > 100_000_000, "the layers are not in the cache"


@pytest.mark.proof
def test_no_layer_of_the_image_tells_them(
    layers: Baked, canaries: Canaries, tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    assert list(layers.folder.glob("dist/*.whl"))
    for words in (("history", "--no-trunc"), ("image", "inspect")):
        assert not canaries.spellings.in_data(
            shell(engine_environment, "docker", *words, f"{IMAGE}:dev-cp311").encode()
        )
    shell(engine_environment, "docker", "save", "--output", str(tmp_path / "image.tar"), f"{IMAGE}:dev-cp311")
    with tarfile.open(tmp_path / "image.tar") as archive:
        streams = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
        searched, found = 0, []
        for name, stream in streams:
            data = next(unpacked(stream.read())) if stream else b""
            searched += len(data)
            found += [name] if canaries.spellings.in_data(data) else []
    assert searched > 100_000_000, "the layers were not unpacked"
    assert found == []


def test_no_process_was_told_in_its_arguments(baked: Baked) -> None:
    assert any(b"buildx" in line for line in baked.processes.seen)
    assert baked.processes.found == set()


def test_the_record_of_the_build_has_no_value_but_what_was_printed(
    baked: Baked, canaries: Canaries, engine_environment: Mapping[str, str]
) -> None:
    found = references(baked.done)
    assert len(found) == 3, "wheel and test, and what tells what the wheel is made of"
    for reference in found:
        text = shell(engine_environment, "docker", "buildx", "history", "inspect", reference)
        assert not canaries.spellings.in_data(text.encode())
        assert canaries.configuration not in shell(engine_environment, "docker", "buildx", "history", "logs", reference)


@pytest.mark.proof
def test_a_failing_step_s_last_lines_are_masked(tmp_path: Path, canaries: Canaries) -> None:
    folder = project(tmp_path / "project", canaries, prints=False, fails=True)
    done = bakery(folder, "full", code=7, environment=environment(folder, canaries))
    assert "***" in done.err
    assert not canaries.spellings.in_data((done.out + done.err).encode())
    assert canaries.spellings.holders(folder, but=("key file é.txt",)) == []


def test_a_wheel_that_holds_a_secret_is_not_published(tmp_path: Path, canaries: Canaries) -> None:
    folder = project(tmp_path / "project", canaries, prints=False)
    backend = folder / "backend.py"
    backend.write_text(backend.read_text().replace("os.environ.pop(", "os.environ.get("))
    done = bakery(folder, "wheel", code=8, environment=environment(folder, canaries))
    assert "demo.py contains the secret from-env" in done.err
    assert not list(folder.glob("dist/*.whl"))


def test_what_is_missing_or_not_allowed_ends_the_run_before_the_build(tmp_path: Path, canaries: Canaries) -> None:
    folder = project(tmp_path / "project", canaries, prints=False)
    (folder / "key file é.txt").unlink()
    refused = bakery(folder, "wheel", code=2).err
    assert "--allow secret.env=CANARY_ENV" in refused
    assert "--allow secret.command=from-command" in refused
    done = bakery(folder, "wheel", code=2, environment=ALLOW)
    assert "from-env (environment variable CANARY_ENV): the variable is not set" in done.err
    assert "from-file (file key file é.txt): cannot be read" in done.err
    assert "from-command (command" in done.err
    assert not runs_of(folder).exists()


@pytest.mark.proof
def test_plain_buildx_bakes_the_generated_files(
    tmp_path: Path, canaries: Canaries, engine_environment: Mapping[str, str], ca_bundle: Path | None
) -> None:
    folder = project(tmp_path / "project", canaries, prints=False)
    bakery(folder, "generate")
    told = {
        **engine_environment,
        "CANARY_ENV": canaries.values[0],
        "SECRET_FROM_COMMAND": str(folder.parent / "held"),
        "CA_BUNDLE": str(ca_bundle or ""),
    }
    reads = [f"--allow=fs.read={path}" for path in (folder.parent, ca_bundle) if path]
    words = ("docker", "buildx", "bake", "-f", "bake/confidential.hcl", *reads, "test")
    shell(told, *words, cwd=folder)
    del told["CANARY_ENV"]
    (folder / "backend.py").write_text((folder / "backend.py").read_text() + "\n# changed\n")
    done = subprocess.run(words, cwd=folder, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bakery: no secret from-env" in done.stderr


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineNode]:
    """Give an engine that has nothing: one of many other builds writes all of their keys to each cache."""
    # A unix socket's path has at most 107 bytes.
    with engine_nodes(tmp_path_factory.mktemp("c"), ["empty"]) as made:
        yield made[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")
@pytest.mark.proof
def test_none_is_found_in_100_runs(tmp_path: Path, empty: EngineNode) -> None:
    """Fresh canaries each time; every run is searched, and the layers that it added to the cache."""
    searched: set[Path] = set()
    for number in range(RUNS):
        canaries = Canaries()
        folder = project(tmp_path / "project", canaries, prints=bool(number % 2))
        processes = Processes(canaries)
        processes.start()
        cache = {"BAKERY_CACHE": "local", "BAKERY_CACHE_DIR": str(tmp_path / "cache")}
        done = bakery(folder, "full", environment={**environment(folder, canaries), **empty.reaching(), **cache})
        processes.ended.set()
        processes.join()
        assert done.log("wheel-cp311").count("digest ") == 3
        assert "layer cache:" not in done.err
        assert not canaries.spellings.in_data((done.out + done.err).encode())
        assert canaries.spellings.holders(folder, but=("key file é.txt",)) == []
        fresh = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path not in searched]
        assert fresh
        assert not [path for path in fresh if canaries.spellings.in_data(path.read_bytes())]
        searched.update(path for path in fresh if "blobs" in path.parts)
        assert processes.found == set()
        if not number % 2:
            for reference in references(done):
                for verb in ("inspect", "logs"):
                    assert not canaries.spellings.in_data(
                        shell(empty.reaching(), "docker", "buildx", "history", verb, reference).encode()
                    )
        shutil.rmtree(folder)
