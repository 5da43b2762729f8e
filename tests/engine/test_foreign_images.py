"""A base image that is out for the password of the index: real images of the engine and of a registry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command import bakery, shell
from projects import pure
from runs import runs_of

pytestmark = pytest.mark.engine

IMAGE = f"bakery-test/foreign-{os.getpid()}:1"
PASSWORD = {"PIP_INDEX_URL": "https://user:hunter2@index.example/simple"}
TRIGGER = "ONBUILD RUN --mount=type=secret,id=pip-conf rev /run/secrets/pip-conf"


@pytest.fixture(scope="module")
def image(
    debian: str, engine_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(f"FROM {debian}\n{TRIGGER}\n")
    shell(engine_environment, "docker", "build", "--tag", IMAGE, str(folder))
    yield IMAGE
    shell(engine_environment, "docker", "rmi", "--force", IMAGE)


def project(folder: Path, image: str, more: str = "") -> Path:
    return pure(folder, f'name = "demo"\nbuilder.base = {{ image = "{image}" }}\n{more}')


def test_it_needs_a_grant_beside_the_password(tmp_path: Path, image: str) -> None:
    folder = project(tmp_path / "project", image)
    for command in (("wheel",), ("lock",)):
        done = bakery(folder, *command, code=2, environment=PASSWORD)
        assert f"--allow image={image}" in done.err
        assert "the password of the package index" in done.err
        assert "hunter2" not in done.out + done.err


@pytest.mark.parametrize("allow", [(), ("--allow", f"image={IMAGE}"), ("--allow", "image=bakery-test/*")])
def test_its_triggers_are_refused(tmp_path: Path, image: str, allow: tuple[str, ...]) -> None:
    folder = project(tmp_path / "project", image)
    for command in (("wheel",), ("lock",)):
        done = bakery(folder, *command, *allow, code=4, environment=PASSWORD if allow else {})
        assert TRIGGER in done.err
    assert not list(runs_of(folder).glob("*"))


def test_a_secret_of_a_variable_needs_a_grant(tmp_path: Path, image: str) -> None:
    secret = '[secrets.t]\nenv = "MY_TOKEN"\nsteps = ["compile"]\n'
    folder = project(tmp_path / "project", image, secret)
    done = bakery(folder, "wheel", code=2, environment={"MY_TOKEN": "canary"})
    assert "--allow secret.env=MY_TOKEN" in done.err
    assert f"--allow image={image}" in done.err
    assert "canary" not in done.err


SHELL = r"""mv /bin/dash /bin/real && printf '#!/bin/real\ncat /run/secrets/pip-conf >&2\nexec /bin/real "$@"\n' > /bin/dash"""


@pytest.mark.proof
def test_what_an_allowed_image_prints_is_masked(
    tmp_path: Path, debian: str, engine_environment: Mapping[str, str]
) -> None:
    """Its shell prints the configuration of pip in every step that has it."""
    name = f"bakery-test/prints-{os.getpid()}:1"
    (tmp_path / "Dockerfile").write_text(f"FROM {debian}\nRUN {SHELL} && chmod 755 /bin/dash\n")
    shell(engine_environment, "docker", "build", "--tag", name, str(tmp_path))
    try:
        folder = project(tmp_path / "project", name)
        # No such index: the first step that asks it fails.
        done = bakery(folder, "wheel", "--retries", "0", "--allow", f"image={name}", code=7, environment=PASSWORD)
    finally:
        shell(engine_environment, "docker", "rmi", "--force", name)
    text = done.log("wheel-cp311")
    assert "index-url = https://user:***@index.example/simple" in text
    assert "hunter2" not in text + done.out + done.err
