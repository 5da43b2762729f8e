"""What a job of GitHub Actions tells a build of its cache."""

from __future__ import annotations

import base64
import json

import pytest

from bakery.engine.client import exports
from bakery.runs.buildx.gha_cache_env import expiry, lacking


def token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"header.{body}.signature"


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ("ACTIONS_RUNTIME_TOKEN", "ACTIONS_CACHE_URL")),
        ({"ACTIONS_CACHE_SERVICE_V2": "True"}, ("ACTIONS_RUNTIME_TOKEN", "ACTIONS_RESULTS_URL")),
        ({"ACTIONS_RUNTIME_TOKEN": "t", "ACTIONS_RESULTS_URL": "u"}, ("ACTIONS_CACHE_URL",)),
        ({"ACTIONS_RUNTIME_TOKEN": "t", "ACTIONS_RESULTS_URL": "u", "ACTIONS_CACHE_SERVICE_V2": "1"}, ()),
        ({"ACTIONS_RUNTIME_TOKEN": "t", "ACTIONS_CACHE_URL": "u"}, ()),
    ],
)
def test_lacking(environ: dict[str, str], names: tuple[str, ...]) -> None:
    assert lacking(environ) == names


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (token({"nbf": 1, "exp": 1700000000}), 1700000000.0),
        (token({"nbf": 1}), None),
        (token(["exp"]), None),
        ("not.a!!.token", None),
        ("not a token", None),
        ("", None),
    ],
)
def test_expiry(text: str, end: float | None) -> None:
    assert expiry({"ACTIONS_RUNTIME_TOKEN": text}) == end


def test_what_builders_export() -> None:
    assert exports("docker", "overlay2") == {"inline"}
    assert "s3" not in exports("docker", "containerd")
    assert exports("docker-container", "overlay2") >= {"gha", "registry", "s3"}
