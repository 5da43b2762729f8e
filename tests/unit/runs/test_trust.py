"""Credentials meet only what Bakery's tables or the user name: images, servers, cibuildwheel's containers."""

from __future__ import annotations

import json
from pathlib import Path

import plans
import pytest

from bakery.core.errors import UsageError
from bakery.engine.index_credentials import CARGO, INDEX, PROXY, of_cargo, of_docker, of_index
from bakery.engine.package_index import Index
from bakery.plan.model import Plan
from bakery.runs.run_options import Options
from bakery.runs.trust import Credentials, check_grants
from bakery.toolchains.trusted_images import is_trusted

URL = "https://user:hunter2@index.example/simple"
WITH = Index(URL, {"index-url": URL})
WITHOUT = Index("https://index.example/simple", {"index-url": "https://index.example/simple"})


def planned(tmp_path: Path, text: str, environ: dict[str, str] | None = None, *sets: str) -> Plan:
    return plans.written(tmp_path, f'name = "one"\n[matrix]\npython = ["3.11"]\n{text}', *sets, environ=environ)


def asked(plan: Plan, *allow: str, given: Credentials | None = None, baked: bool = True) -> tuple[str, ...]:
    """Return the grants that a run still needs."""
    images = [image for cell in plan.cells for image in cell.images]
    try:
        check_grants(
            Path(), plan, Options(("wheel",), allow=allow), given or Credentials(WITH, None), images, baked=baked
        )
    except UsageError as error:
        return tuple(text.removeprefix("--allow ") for text in error.details)
    return ()


def test_an_image_of_the_recipe_needs_a_grant_beside_credentials(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[builder]\nbase = { image = "evil.example/base:1" }\n')
    assert asked(plan, given=Credentials(WITHOUT, None)) == ()
    assert asked(plan) == ("image=evil.example/base:1",)
    assert asked(plan, "image=evil.example/base:1") == ()
    assert asked(plan, "image=evil.example/*") == ()
    assert asked(plan, "image=evil.example/base:2", "image=evil.example/b*", "image=evil/*") != ()
    with pytest.raises(UsageError) as caught:
        check_grants(Path(), plan, Options(("wheel",)), Credentials(WITH, None), plan.cells[0].images)
    assert f"the build is given the {INDEX}" in str(caught.value.hint)
    assert "hunter2" not in str(caught.value.hint)


def test_a_secret_of_the_recipe_is_a_credential_too(tmp_path: Path) -> None:
    text = '[builder]\nbase = { image = "evil:1" }\n[secrets.key]\nenv = "KEY"\nsteps = ["compile"]\n'
    plan = planned(tmp_path, text)
    given = Credentials(WITHOUT, None, plan.secrets)
    assert asked(plan, given=given) == ("secret.env=KEY", "image=evil:1")
    assert asked(plan, "secret.env=KEY", "image=docker.io/library/evil:1", given=given) == ()
    # A target without the secret needs no grant for it.
    assert asked(plan, given=Credentials(WITHOUT, None)) == ()


@pytest.mark.parametrize(
    ("image", "trusted"),
    [
        ("debian:bookworm-slim", True),
        ("docker.io/library/debian:trixie", True),
        ("debian@sha256:" + "0" * 64, True),
        ("quay.io/pypa/manylinux_2_28_x86_64:2025.01.01-1", True),
        ("quay.io/pypa/manylinux_2_28_x86_64", True),
        ("mirror.example/pypa/any@sha256:e0adf18521ad35192df733a6c62d35df7801957d24e0470238aacecfab2188a3", True),
        ("mirror.example/pypa/manylinux_2_28_x86_64:2026.10.26-1", False),
        ("evil.example/debian:bookworm-slim", False),
        ("evil/debian:bookworm-slim", False),
        ("debian-evil:bookworm-slim", False),
        ("quay.io/pypa-evil/manylinux_2_28_x86_64:1", False),
        ("debian.evil.example:443/library/debian", False),
        ("nvidia/cuda:12.8.1-devel-ubuntu24.04", False),
    ],
)
def test_images_of_the_table_and_of_debian_are_trusted(image: str, trusted: bool) -> None:
    assert is_trusted(image) is trusted


def test_the_user_s_own_mirror_needs_no_grant(tmp_path: Path) -> None:
    text = '[builder]\nbase = { provider = "manylinux_2_28", digest = "sha256:' + "1" * 64 + '" }\n'
    mine = {"BAKERY_BASE_REGISTRY": "mirror.example/pypa"}
    assert planned(tmp_path, text).foreign == ()
    theirs = text.replace("digest", 'registry = "evil.example/pypa", digest')
    (grant,) = planned(tmp_path, theirs).foreign
    assert grant.startswith("image=evil.example/pypa/manylinux_2_28_x86_64:")
    assert planned(tmp_path, theirs, mine).foreign == ()
    assert planned(tmp_path, theirs, None, "BASE_DIGEST=sha256:" + "2" * 64).foreign == ()


def test_servers_of_the_recipe_need_a_grant(tmp_path: Path) -> None:
    rust = '[builder]\nrust = "1.99.0"\nenvironment = { RUSTUP_DIST_SERVER = "https://u:p@${HOST}/dist" }\n'
    plan = planned(tmp_path, rust + '[variables]\nHOST = "evil.example"\n')
    assert asked(plan) == ("server=https://evil.example",)
    assert asked(plan, given=Credentials(WITHOUT, None)) == ()
    assert asked(plan, "server=https://evil.example") == ()
    assert planned(tmp_path, rust.replace("u:p@${HOST}/dist", "static.rust-lang.org")).foreign == ()
    cuda = '[builder]\ntoolkit = "repository"\ncuda-repository = "https://evil.example/cuda"\n[variables]\nCUDA_VERSION = "12.8.0"\n'
    assert planned(tmp_path, cuda).foreign == ()
    own = cuda.replace("[variables]", 'cuda-repository-key = "610C7B14E068A878070DA4E99CD0A493D42D0685"\n[variables]')
    assert planned(tmp_path, own).foreign == ("server=https://evil.example",)
    torch = (
        '[builder]\nframework = "torch"\nframework-index = "https://evil.example/torch/cu${CUDA_TAG}"\n[variables]\n'
    )
    torch += 'TORCH_VERSION = "2.11.0+cu128"\nCUDA_VERSION = "12.8.0"\n'
    assert planned(tmp_path, torch).foreign == ("server=https://evil.example",)


def test_cibuildwheel_shows_the_password_to_the_build_only_if_it_may(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, '[output]\ndirectory = "/srv/wheels"\n[cache]\nbackend = "registry"\nref = "r.example/c"\n'
    )
    assert asked(plan, baked=False) == ("fs.write=/srv/wheels", "index=https://index.example/simple")
    assert asked(plan, "fs.write=/srv", "index=https://index.example/simple", baked=False) == ()
    assert asked(plan, "fs.write=/srv", given=Credentials(WITHOUT, None), baked=False) == ()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"index-url": URL}, b"hunter2"),
        ({"extra-index-url": f"https://a.example/simple https://to%40ken@b.example/simple {URL}"}, b"to%40ken\nto@ken\nhunter2"),
        ({"index-url": "https://index.example/simple", "trusted-host": "index.example"}, b""),
        ({"index-url": "https://__token__:p%2Fw@index.example"}, b"p%2Fw\np/w"),
        ({"index-url": "https://index.example/AbCd1234EfGh5678/simple"}, b"AbCd1234EfGh5678"),
    ],
)  # fmt: skip
def test_passwords_of_an_index(settings: dict[str, str], expected: bytes) -> None:
    assert of_index(Index("", settings)) == expected


def test_tokens_of_cargo(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[registries.mine]\nindex = "sparse+https://me:pw-1@crates.example/"\ntoken = "token-1"\n'
        '[registry]\nsecret-key = "key-1"\n[http]\nproxy = "http://me:pw-2@proxy.example"\n[build]\njobs = 4\n'
    )
    assert set(of_cargo(config).split()) == {b"pw-1", b"token-1", b"key-1", b"pw-2"}
    assert Credentials(WITHOUT, config).names == (f"the {CARGO}",)
    config.write_text('[source.crates-io]\nreplace-with = "mirror"\n')
    assert of_cargo(config) == b""
    config.write_text("token = ")
    assert of_cargo(config) == b"token = "
    assert of_cargo(None) == b""


def test_passwords_of_docker_s_proxies(tmp_path: Path) -> None:
    proxies = {"default": {"httpProxy": "http://me:pw-1@p.example", "noProxy": "h"}, "tcp://h": {"httpsProxy": "pw"}}
    for text, expected in (
        (json.dumps({"proxies": proxies, "auths": {"r.example": {"auth": "bWU6cHctMg=="}}}), b"pw-1"),
        ('{"proxies": {"default": {"httpProxy": "http://p.example"}}}', b""),
        ('{"proxies": "http://me:pw@p.example"}', b"pw"),
        ("[]", b""),
        ("{", b""),
    ):
        (tmp_path / "config.json").write_text(text)
        assert of_docker({"DOCKER_CONFIG": str(tmp_path)}) == expected
    assert of_docker({"HOME": str(tmp_path / "nobody")}) == b""
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    given = Credentials(WITHOUT, None, environ={"DOCKER_CONFIG": str(tmp_path)})
    assert given.values == {PROXY: b"pw-1"}
    plan = planned(tmp_path, '[builder]\nbase = { image = "evil.example/base:1" }\n')
    assert asked(plan, given=given) == ("image=evil.example/base:1",)
