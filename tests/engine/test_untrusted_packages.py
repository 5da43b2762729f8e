"""Packages that are out for secrets: a real bake with an index on this machine that hands them out.

Code of a package tells what it finds: the secrets that its step has, the network, what pip has in its cache.
`make test` builds a hostile source archive in the one bake of tests/engine/test_canaries.py; here that is a proof.
"""

from __future__ import annotations

import ast
import json
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import hostile_packages as hostile
import pytest
from command import bakery, shell
from projects import pure

pytestmark = pytest.mark.engine

PASSWORD = f"canary{secrets.token_hex(12)}"

LOOKS = """\
import glob, json, os, socket, urllib.request
def looks():
    found = sorted(glob.glob("/run/secrets/*"))
    texts = [open(path, errors="replace").read() for path in found] + [repr(dict(os.environ))]
    try:
        socket.create_connection({address!r}, timeout=3).close()
        network = True
    except OSError:
        network = False
    return {{
        "secrets": found,
        "passwords": [text for text in texts if "canary" in text],
        "network": network,
        "cache": os.listdir("/root/.cache/pip") if os.path.isdir("/root/.cache/pip") else [],
    }}
"""
"""What code of a package does; ``looks()`` says what it found."""


@dataclass
class Private:
    """An index with a password, beside the one that this machine has."""

    folder: Path
    url: str
    asked: list[str]
    address: tuple[str, int]

    @property
    def looks(self) -> str:
        return LOOKS.format(address=self.address)

    def environment(self, folder: Path) -> dict[str, str]:
        """Return what bakery is given: pip's configuration, and a secret for steps that install packages."""
        host = self.address[0]
        config = folder / "pip.conf"
        url = self.url.replace("://", f"://me:{PASSWORD}@")
        config.write_text(f"[global]\nextra-index-url = {url}\ntrusted-host = {host}\n")
        token = f"canary{PASSWORD[6:]}"
        return {"PIP_CONFIG_FILE": str(config), "TOKEN": token, "BAKERY_ALLOW": "secret.env=TOKEN"}


def bridge(engine_environment: Mapping[str, str]) -> str:
    """Return the address of this machine, as containers see it."""
    told = json.loads(shell(engine_environment, "docker", "network", "inspect", "bridge"))
    return told[0]["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"


@pytest.fixture
def private(tmp_path: Path, engine_environment: Mapping[str, str]) -> Iterator[Private]:
    host = bridge(engine_environment)
    folder = tmp_path / "index"
    folder.mkdir()
    hostile.backend(folder)
    with hostile.served(folder, host) as (url, asked):
        yield Private(folder, url, asked, (host, int(url.rpartition(":")[2])))


def project(folder: Path, requires: str, test: str = "true", more: str = "") -> Path:
    """Write a project; steps that install packages are told a secret."""
    recipe = (
        f'name = "demo"\n[builder]\n{more}\n[wheel]\nrepair = false\n[test]\nimports = ["demo"]\n'
        f"command = {json.dumps(test)}\n"
        '[secrets.token]\nenv = "TOKEN"\nsteps = ["requirements"]\n'
    )
    made = pure(folder, recipe)
    table = (made / "pyproject.toml").read_text()
    (made / "pyproject.toml").write_text(table.replace('requires = ["setuptools>=77"]', f"requires = {requires}"))
    return made


def found_in(log: str, mark: str) -> list[dict[str, object]]:
    """Return what code of packages told in a log."""
    lines = [line.partition(mark)[2] for line in log.splitlines() if mark in line]
    return [ast.literal_eval(line.strip()) for line in lines]


def test_a_build_requirement_by_address_is_refused(tmp_path: Path, private: Private) -> None:
    hostile.sdist(private.folder, "evil", setup=f"{private.looks}\nprint('RAN', looks())\nMODULE = ''\n")
    word = f"evil @ {private.url}/evil/evil-1.0.tar.gz"
    folder = project(tmp_path / "project", json.dumps(["setuptools>=77", word]))
    done = bakery(folder, "wheel", code=7, environment=private.environment(tmp_path))
    assert f"bakery: {word}" in done.err
    assert 'builder.allow-direct = ["evil"]' in done.err
    assert "RAN" not in done.out + done.err
    assert not [path for path in private.asked if "evil" in path]


@pytest.mark.proof
def test_a_source_archive_is_built_and_sees_nothing(tmp_path: Path, private: Private) -> None:
    name = f"loot{secrets.token_hex(4)}"
    hostile.sdist(
        private.folder, name, setup=f"{private.looks}\nMODULE = 'TOLD = ' + repr(looks())\nprint('RAN', looks())\n"
    )
    # In the build, and in the test.
    folder = project(
        tmp_path / "project",
        json.dumps(["setuptools>=77", name]),
        test=f"python -c 'import {name} as it; print(\"TOLD\", it.TOLD)'",
    )
    recipe = (folder / "bakery.toml").read_text()
    (folder / "bakery.toml").write_text(recipe.replace("[test]\n", f"[test]\nrequirements = [{name!r}]\n"))
    backend = (folder / "backend.py").read_text()
    (folder / "backend.py").write_text(backend.replace("import base64", f"import {name}, base64", 1))
    done = bakery(folder, "full", environment=private.environment(tmp_path))
    (told,) = found_in(done.log("test-cp311"), "TOLD ")
    assert told == {"secrets": [], "passwords": [], "network": False, "cache": []}
    assert f"{name}==1.0 --hash=sha256:" in done.log("wheel-cp311")
    with zipfile.ZipFile(done.wheels[0]) as archive:
        assert archive.testzip() is None


@pytest.mark.proof
def test_an_allowed_address_is_built_and_sees_nothing(tmp_path: Path, private: Private) -> None:
    name = f"loot{secrets.token_hex(4)}"
    hostile.sdist(private.folder, name, setup=f"{private.looks}\nMODULE = 'TOLD = ' + repr(looks())\n")
    word = f"{name} @ {private.url}/{name}/{name}-1.0.tar.gz"
    folder = project(tmp_path / "project", json.dumps(["setuptools>=77", word]), more=f'allow-direct = ["{name}"]')
    backend = (folder / "backend.py").read_text()
    told = f"import {name}; print('TOLD', {name}.TOLD)\nimport base64"
    (folder / "backend.py").write_text(backend.replace("import base64", told, 1))
    done = bakery(folder, "wheel", environment=private.environment(tmp_path))
    (found, *_) = found_in(done.log("wheel-cp311"), "TOLD ")
    assert found == {"secrets": [], "passwords": [], "network": False, "cache": []}


def test_code_of_an_installed_package_runs_in_no_step_with_secrets(tmp_path: Path, private: Private) -> None:
    """A ``.pth`` file, which every Python of the environment reads when it starts, and another python."""
    name, log = f"spy{secrets.token_hex(4)}", "/var/tmp/spy"
    files = {
        f"{name}.pth": f"import {name}",
        f"{name}.py": f"{private.looks}\nopen({log!r}, 'a').write('TOLD ' + repr(looks()) + '\\n')\n",
        f"{name}-1.0.data/scripts/python3": f"#!/bin/sh\necho TOLD \"{{'secrets': '$(ls /run/secrets)'}}\" >> {log}\n",
        "keyring.py": f"from {name} import *\n",
        "brotli.py": f"from {name} import *\n",
    }
    hostile.wheel(private.folder, name, files=files)
    folder = project(tmp_path / "project", '["setuptools>=77"]', test=f"cat {log}")
    recipe = (folder / "bakery.toml").read_text()
    (folder / "bakery.toml").write_text(recipe.replace("[test]\n", f"[test]\nrequirements = [{name!r}]\n"))
    done = bakery(folder, "full", environment=private.environment(tmp_path))
    found = found_in(done.log("test-cp311"), "TOLD ")
    assert found, "the smoke test starts the environment's Python"
    assert [item for item in found if item["secrets"] or item.get("passwords") or item.get("network")] == []


@pytest.mark.proof
def test_a_package_of_the_build_runs_in_no_step_with_secrets(tmp_path: Path, private: Private) -> None:
    name, log = f"spy{secrets.token_hex(4)}", "/var/tmp/spy"
    files = {
        f"{name}.pth": f"import {name}",
        f"{name}.py": f"{private.looks}\nopen({log!r}, 'a').write('TOLD ' + repr(looks()) + '\\n')\n",
        "keyring.py": f"from {name} import *\n",
    }
    hostile.wheel(private.folder, name, files=files)
    folder = project(tmp_path / "project", json.dumps(["setuptools>=77", name]))
    backend = (folder / "backend.py").read_text()
    told = f"print(open({log!r}).read(), flush=True)\nimport base64"
    (folder / "backend.py").write_text(backend.replace("import base64", told, 1))
    done = bakery(folder, "wheel", environment=private.environment(tmp_path))
    found = found_in(done.log("wheel-cp311"), "TOLD ")
    assert found
    assert [item for item in found if item["secrets"] or item["passwords"] or item["network"]] == []


@pytest.mark.proof
def test_a_lock_with_an_address_is_refused_before_anything_is_built(tmp_path: Path, private: Private) -> None:
    folder = project(tmp_path / "project", '["setuptools>=77"]')
    environment = private.environment(tmp_path)
    bakery(folder, "lock", environment=environment)
    lock = folder / "bakery.lock"
    text = lock.read_text()
    address = f"{private.url}/evil/setuptools.whl"
    origin = f'origin = "{address}"'
    lock.write_text(text.replace('name = "setuptools"\n', f'name = "setuptools"\n{origin}\n'))
    number = lock.read_text().splitlines().index(origin) + 1
    for words in (("wheel", "--locked"), ("wheel",), ("lock", "--check"), ("lock",)):
        done = bakery(folder, *words, code=12, environment=environment)
        said = " ".join(done.err.split())
        assert f"bakery.lock:{number}: setuptools comes from {address}" in said
        assert not [path for path in private.asked if "evil" in path]
    bakery(folder, "lock", "--upgrade", "setuptools", environment=environment)
    assert lock.read_text() == text
