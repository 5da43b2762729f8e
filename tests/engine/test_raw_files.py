"""The generated files alone: plain docker, no bakery in the process, the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ROOT, UNDATED, bakery, digests, shell
from sample import sampled

pytestmark = pytest.mark.engine


def made(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Mapping[str, str]:
    """Return name → digest of the wheels that bakery makes of a recipe; the engine then has their bases."""
    folder = tmp_path_factory.mktemp(recipe)
    bakery(ROOT, "wheel", "-r", recipe, *UNDATED, "--output", str(folder))
    return digests(folder)


@pytest.fixture(scope="module")
def ujson(tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str]) -> Mapping[str, str]:
    """Give the wheels of ujson."""
    return made(tmp_path_factory, "ujson")


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str]) -> Mapping[str, str]:
    """Give the wheels of the C++ example."""
    return made(tmp_path_factory, "cpp")


@pytest.fixture(scope="module")
def raw_environment(
    tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str], ca_bundle: Path | None
) -> Mapping[str, str]:
    """Give the environment of a person who has docker, a CA bundle where one is needed, and no bakery.

    buildx sends the name of the current folder in a header, and builds in none whose name is not ASCII.
    """
    link = tmp_path_factory.mktemp("link") / "checkout"
    link.symlink_to(ROOT)
    return {**engine_environment, "PWD": str(link), **({"CA_BUNDLE": str(ca_bundle)} if ca_bundle else {})}


def allow(*reads: Path | None, writes: Path | None = None) -> list[str]:
    """Return what buildx has to be allowed outside of the current folder."""
    flags = [f"--allow=fs.read={path}" for path in reads if path]
    return [*flags, f"--allow=fs.write={writes}"] if writes else flags


def test_bake_file_gives_the_same_wheels(
    ujson: Mapping[str, str], raw_environment: Mapping[str, str], ca_bundle: Path | None, tmp_path: Path
) -> None:
    command = ("docker", "buildx", "bake", "-f", "bake/ujson.hcl", *allow(ca_bundle, writes=tmp_path), "wheel")
    shell({**raw_environment, "DEST": str(tmp_path)}, *command, cwd=ROOT)
    assert digests(tmp_path) == ujson
    assert {path.name for path in tmp_path.iterdir()} == {"cp311", "cp313"}


@pytest.mark.proof
def test_dockerfile_gives_the_same_wheel(
    cpp: Mapping[str, str], raw_environment: Mapping[str, str], ca_bundle: Path | None, tmp_path: Path
) -> None:
    secret = ["--secret", f"id=ca-bundle,src={ca_bundle}"] if ca_bundle else []
    output = ("--output", f"type=local,dest={tmp_path}")
    command = ("docker", "build", "-f", "dockerfiles/cpp.Dockerfile", "--target", "cpp-wheel", *output, *secret, ".")
    shell(raw_environment, *command, cwd=ROOT)
    wanted = {name: digest for name, digest in cpp.items() if "-cp311-" in name}
    assert len(wanted) == 1
    assert digests(tmp_path) == wanted


@pytest.mark.proof
@pytest.mark.parametrize(
    ("recipe", "prefix"), sampled([("ujson", "ujson-6.1.0-cp313-"), ("cpp", "bakery_example_cpp-1.0.0-cp313-")], 2)
)
def test_building_again_gives_the_same_bytes(
    request: pytest.FixtureRequest,
    raw_environment: Mapping[str, str],
    ca_bundle: Path | None,
    tmp_path: Path,
    recipe: str,
    prefix: str,
) -> None:
    """Nothing of the compile and repair steps comes from the cache, not even a compiled object."""
    own: Mapping[str, str] = request.getfixturevalue(recipe)
    secret = ["--secret", f"id=ca-bundle,src={ca_bundle}"] if ca_bundle else []
    text = (ROOT / "dockerfiles" / f"{recipe}.Dockerfile").read_text()
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(text.replace(" /programs/with-ccache ", " env CCACHE_RECACHE=1 /programs/with-ccache "))
    assert "CCACHE_RECACHE" in dockerfile.read_text()
    shell(
        raw_environment,
        *("docker", "build", "-f", str(dockerfile), "--target", f"{recipe}-wheel"),
        *("--build-arg", "PYTHON_VERSION=3.13", "--no-cache-filter", "compile,repair"),
        *("--output", f"type=local,dest={tmp_path / 'wheels'}", *secret, "."),
        cwd=ROOT,
    )
    assert digests(tmp_path / "wheels") == {name: digest for name, digest in own.items() if name.startswith(prefix)}


def test_version_of_cuda_is_an_override_away(raw_environment: Mapping[str, str], ca_bundle: Path | None) -> None:
    text = shell(
        raw_environment,
        *("docker", "buildx", "bake", "-f", "bake/cuda.hcl", *allow(ca_bundle)),
        *("--set", "*.args.CUDA_VERSION=12.8.0", "--print", "wheel"),
        cwd=ROOT,
    )
    targets = json.loads(text)["target"]
    assert {target["args"]["CUDA_VERSION"] for target in targets.values()} == {"12.8.0"}


@pytest.mark.proof
@pytest.mark.usefixtures("ujson")
def test_version_of_cuda_is_baked(raw_environment: Mapping[str, str], ca_bundle: Path | None, tmp_path: Path) -> None:
    shell(
        {**raw_environment, "DEST": str(tmp_path / "raw")},
        *("docker", "buildx", "bake", "-f", "bake/cuda.hcl", *allow(ca_bundle, writes=tmp_path)),
        *("--set", "*.args.CUDA_VERSION=12.8.0", "wheel"),
        cwd=ROOT,
        timeout_s=3600,
    )
    words = ("--set", "CUDA_VERSION=12.8.0", *UNDATED, "--output", str(tmp_path / "own"))
    done = bakery(ROOT, "wheel", "-r", "cuda", *words)
    assert len(done.wheels) == 2
    assert digests(tmp_path / "raw") == digests(tmp_path / "own")
