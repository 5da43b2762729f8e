"""ONBUILD triggers of a base image are found wherever a build takes the image from."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bakery.core.errors import PlanError, UnavailableError
from bakery.engine import image_triggers
from bakery.plan.cells import Image

REF = "evil.example/base:1"
IMAGE = Image(REF, "linux/amd64")

DOCKER = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''
import json, os, sys
words = sys.argv[1:]
kind = "engine" if words[:2] == ["image", "inspect"] else "registry"
document = json.load(open(os.environ["DOCUMENTS"])).get(kind + " " + words[-1])
if document is None:
    sys.exit("No such image")
sys.stdout.write(document)
"""


class Documents:
    """What a docker client answers about images."""

    def __init__(self, folder: Path) -> None:
        self.texts: dict[str, str] = {}
        self._folder = folder
        program = folder / "docker"
        program.write_text(DOCKER)
        program.chmod(0o755)

    @property
    def environment(self) -> Mapping[str, str]:
        (self._folder / "documents.json").write_text(json.dumps(self.texts))
        return {"PATH": str(self._folder), "DOCUMENTS": str(self._folder / "documents.json")}

    def blob(self, text: str) -> str:
        digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        self.texts[f"registry {REF}@{digest}"] = text
        return digest

    def push(self, config: str, **more: Any) -> str:
        """Add an image to the registry; return its manifest."""
        manifest = json.dumps({"config": {"digest": self.blob(config)}, **more})
        self.texts[f"registry {REF}"] = manifest
        return manifest

    def load(self, *triggers: str) -> None:
        """Add the image to the engine."""
        self.texts[f"engine {REF}"] = json.dumps({"Id": "x", "Config": {"OnBuild": list(triggers) or None}})


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    return Documents(tmp_path)


def refuse(documents: Documents, *, remote: bool = False, strict: bool = True, image: Image = IMAGE) -> None:
    image_triggers.refuse(documents.environment, [image], None, remote=remote, strict=strict)


def config(*triggers: str, key: str = "OnBuild", table: str = "config") -> str:
    return json.dumps({"os": "linux", table: {"Labels": {"a": "1", "A": "2"}, key: list(triggers)}})


def test_of_the_engine(documents: Documents) -> None:
    documents.load("RUN id")
    with pytest.raises(PlanError, match="ONBUILD triggers") as caught:
        refuse(documents)
    assert caught.value.details == ("ONBUILD RUN id",)
    documents.load()
    refuse(documents)


@pytest.mark.parametrize("remote", [True, False])
def test_of_a_registry(documents: Documents, remote: bool) -> None:
    documents.push(config("RUN id"))
    with pytest.raises(PlanError):
        refuse(documents, remote=remote)
    documents.push(config())
    refuse(documents, remote=remote)


def test_of_a_registry_although_the_engine_has_a_harmless_one(documents: Documents) -> None:
    documents.load()
    documents.push(config("RUN id"))
    refuse(documents)
    with pytest.raises(PlanError):
        refuse(documents, remote=True)


@pytest.mark.parametrize(("key", "table"), [("ONBUILD", "config"), ("onbuild", "Config"), ("OnBuild", "CONFIG")])
def test_keys_are_read_as_go_reads_them(documents: Documents, key: str, table: str) -> None:
    documents.push(config("RUN id", key=key, table=table))
    with pytest.raises(PlanError):
        refuse(documents)


@pytest.mark.parametrize("platform", ["linux/amd64", ""])
def test_of_an_index_all_that_the_platform_may_stand_for(documents: Documents, platform: str) -> None:
    clean, evil = documents.push(config()), documents.push(config("RUN id"))
    amd64, arm64 = {"os": "linux", "architecture": "amd64"}, {"os": "linux", "architecture": "arm64"}
    listed = [(clean, amd64), (evil, {**amd64, "variant": "v3"})]
    documents.texts[f"registry {REF}"] = json.dumps(
        {"manifests": [{"digest": documents.blob(text), "platform": where} for text, where in listed]}
    )
    with pytest.raises(PlanError):
        refuse(documents, image=Image(REF, platform))
    documents.texts[f"registry {REF}"] = json.dumps(
        {
            "manifests": [
                {"digest": documents.blob(text), "platform": where} for text, where in [(clean, amd64), (evil, arm64)]
            ]
        }
    )
    if platform:
        refuse(documents, image=Image(REF, platform))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"config": {"digest": "sha256:0"}}',
        '{"config": {"digest": 1}}',
        '{"manifests": [1, {}]}',
        '{"config": {}, "Config": {}}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_refused_beside_credentials(documents: Documents, text: str) -> None:
    documents.texts[f"registry {REF}"] = text
    with pytest.raises(UnavailableError, match="cannot be read"):
        refuse(documents)
    refuse(documents, strict=False)


def test_another_document_than_asked_for_is_refused(documents: Documents) -> None:
    documents.push(config())
    name = next(name for name in documents.texts if "@" in name)
    documents.texts[name] = config().replace("linux", "other")
    with pytest.raises(UnavailableError):
        refuse(documents)
