"""What a build is told in confidence is in nothing that it leaves behind."""

from __future__ import annotations

import gzip
import json
import os
import random
import secrets
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command import Done, bakery, shell
from projects import pure

pytestmark = pytest.mark.engine

CANARY = f"canary-{secrets.token_hex(12)}"
NAME = f"secret-{os.getpid()}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a project whose builder uses apt and pip, with nothing of it in the cache."""
    # A number and an order that no other run has: no step is in the cache.
    packages = ["tree", *random.sample(("bc", "dc", "file", "less", "time"), 5)]
    recipe = f"""\
name = "{NAME}"
[variables]
UNUSED = "{secrets.randbelow(10**9)}"
[builder]
system-packages = {json.dumps(packages)}
requirements = ["wheel!=0.${{UNUSED}}"]
[wheel]
repair = false
[test]
requirements = ["wheel!=0.${{UNUSED}}"]
imports = ["demo"]
"""
    return pure(tmp_path_factory.mktemp("secrets") / "project", recipe)


@pytest.fixture(scope="module")
def done(
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    engine_environment: Mapping[str, str],
    ca_bundle: Path | None,
) -> Iterator[Done]:
    """Give what baking everything came to, with a CA bundle and a pip configuration that hold the canary."""
    folder = tmp_path_factory.mktemp("confidential")
    bundle = folder / "bundle.pem"
    # Text between certificates is a comment.
    own = ca_bundle or Path("/etc/ssl/certs/ca-certificates.crt")
    bundle.write_text(f"# {CANARY}\n{own.read_text()}\n# {CANARY}\n")
    config = folder / "pip.conf"
    config.write_text(f"[global]\ntrusted-host = {CANARY}.invalid\n")
    try:
        yield bakery(
            project,
            *("bake", "dev", "full", "--ca-bundle", str(bundle)),
            environment={"PIP_CONFIG_FILE": str(config), "BAKERY_PROGRESS": "rawjson"},
        )
    finally:
        image = f"{NAME}:dev-cp311"
        subprocess.run(["docker", "rmi", "--force", image], env=engine_environment, capture_output=True, check=False)


def holders(folder: Path) -> list[str]:
    """Return the files below a folder that hold the canary."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def plain(data: bytes) -> bytes:
    """Return a layer as it is when unpacked."""
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def test_steps_were_run_with_it(done: Done) -> None:
    """A step from the cache would have been given nothing."""
    log = done.log("dev-cp311")
    assert "Setting up tree" in log
    assert " --hash=sha256:" in log, "what the build needs was resolved"


def test_no_file_of_the_run_holds_it(done: Done, project: Path) -> None:
    assert list((project / ".bakery").rglob("bake.hcl"))
    assert holders(project) == []


def test_nothing_that_was_printed_holds_it(done: Done) -> None:
    assert CANARY not in done.out + done.err
    assert {type(json.loads(line)) for line in done.out.splitlines()} == {dict}


def test_generated_files_do_not_hold_it(done: Done, project: Path) -> None:
    bakery(project, "generate")
    assert list(project.glob("dockerfiles/*"))
    assert holders(project) == []


def test_no_layer_of_the_image_holds_it(done: Done, tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    image = f"{NAME}:dev-cp311"
    shell(engine_environment, "docker", "save", "--output", str(tmp_path / "image.tar"), image)
    found, searched = [], 0
    with tarfile.open(tmp_path / "image.tar") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream:
                data = plain(stream.read())
                searched += len(data)
                found += [member.name] if CANARY.encode() in data else []
    assert searched > 100_000_000, "the layers were not unpacked"
    assert found == []


def test_history_of_the_image_and_of_the_builds_does_not_hold_it(
    done: Done, engine_environment: Mapping[str, str]
) -> None:
    image = f"{NAME}:dev-cp311"
    texts = [
        shell(engine_environment, "docker", "history", "--no-trunc", image),
        shell(engine_environment, "docker", "image", "inspect", image),
    ]
    (path,) = done.runs[-1].glob("metadata/*.json")
    metadata = json.loads(path.read_text())
    references = {target["buildx.build.ref"].rpartition("/")[2] for target in metadata.values()}
    assert len(references) == 4, "those three, and what tells what the wheel is made of"
    for reference in references:
        texts.append(shell(engine_environment, "docker", "buildx", "history", "inspect", reference))
        texts.append(shell(engine_environment, "docker", "buildx", "history", "logs", reference))
    assert not [text for text in texts if CANARY in text]
