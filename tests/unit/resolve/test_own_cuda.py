"""CUDA that an image brings or NVIDIA's packages do: what a recipe may say, and what becomes of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plans
import pytest

from bakery import Recipe
from bakery.core.errors import BakeryError, PlanError
from bakery.core.image_names import parse
from bakery.emit.dockerfile import dockerfile
from bakery.plan.model import Plan
from bakery.toolchains import facts, programs
from bakery.toolchains.programs import cuda_repository

NVIDIA = "nvidia/cuda:${CUDA_VERSION}-devel-ubuntu22.04"
DIGEST = "sha256:" + "0" * 64
ADDRESS = "https://mirror.example/cuda/repos/rhel8/x86_64"


def plan_of(builder: dict[str, Any], **parts: Any) -> Plan:
    return plans.plan_with(root=Path("/project"), **{"name": "demo", "builder": builder, **parts})


def stage_of(plan: Plan, name: str) -> str:
    text = dockerfile(plan)
    start = text.index(f" AS {name}\n")
    end = text.find("\nFROM ", start)
    return text[text.rindex("\n", 0, start) + 1 : end]


# --- names of images -----------------------------------------------------------------------------


def test_image_is_named_by_each_cells_release():
    plan = plan_of({"base": {"image": NVIDIA}, "toolkit": "image"}, matrix={"cuda": ["12.8.1", "13.0.3"]})
    assert [image.ref for cell in plan.cells for image in cell.images] == [
        "nvidia/cuda:12.8.1-devel-ubuntu22.04",
        "nvidia/cuda:13.0.3-devel-ubuntu22.04",
    ]
    assert f"FROM {NVIDIA} AS root\n" in dockerfile(plan)
    assert "CUDA_VERSION" in plan.global_args


def test_image_is_named_by_each_cells_python():
    plan = plan_of({"base": {"image": "python:${PYTHON_VERSION}-slim"}}, matrix={"python": ["3.11", "3.13"]})
    assert [cell.images[0].ref for cell in plan.cells] == ["python:3.11-slim", "python:3.13-slim"]
    assert "FROM python:${PYTHON_VERSION}-slim AS root\n" in dockerfile(plan)


def test_parts_of_a_release_are_expanded_where_they_stand():
    plan = plan_of({"base": {"image": "x/builder:cuda${CUDA_MINOR}"}}, variables={"CUDA_VERSION": "12.8.1"})
    assert plan.cells[0].images[0].ref == "x/builder:cuda12.8"
    assert "FROM x/builder:cuda${CUDA_VERSION%.*} AS root\n" in dockerfile(plan)


@pytest.mark.parametrize(
    ("builder", "variables", "said"),
    [
        ({"base": {"image": "x/builder:${CUDA_TAG}"}}, {"CUDA_VERSION": "12.8.1"}, r"cannot refer to \${CUDA_TAG}"),
        ({"base": {"image": "x/builder:${TAG}"}}, {"TAG": "a b"}, "not an image name"),
        ({"base": {"image": "x/builder:1"}, "toolkit": "image"}, {}, "'image' needs to know the CUDA release"),
    ],
)
def test_what_makes_no_image_is_told(builder: dict[str, Any], variables: dict[str, str], said: str):
    with pytest.raises(PlanError, match=said):
        plan_of(builder, variables=variables)


def test_variable_that_is_not_there_is_told():
    with pytest.raises(BakeryError) as caught:
        plan_of({"base": {"image": "x/builder:${TAG}"}})
    assert "${TAG} is declared nowhere" in "\n".join(caught.value.details)


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        ({"base": {"image": NVIDIA, "digest": DIGEST}}, "digest names one image"),
        ({"toolkit": "image"}, "toolkit 'image' is the CUDA of the base image"),
        (
            {"toolkit": "repository", "cuda-repository": "http://mirror.example/x"},
            "expected an address, such as 'https://",
        ),
    ],
)
def test_what_no_recipe_may_say(builder: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        Recipe.model_validate({"name": "x", "builder": builder})


# --- toolkit image -------------------------------------------------------------------------------


def test_name_of_the_image_is_enough():
    image = "quay.io/manylinux_cuda/manylinux_2_28_x86_64_cuda12_9:2026.10.26-1"
    stage = stage_of(plan_of({"base": {"image": image}, "toolkit": "image"}), "toolkit")
    assert "ARG CUDA_VERSION\n" in stage
    assert '    /programs/own-cuda /usr/local/cuda "${CUDA_VERSION}"' in stage


@pytest.mark.parametrize(
    ("ref", "cuda"),
    [
        ("nvidia/cuda:12.8.1-devel-ubuntu22.04", "12.8.1"),
        ("manylinux_cuda/manylinux_2_28_x86_64_cuda12_9", "12.9"),
        ("pypa/manylinux_2_28_x86_64:1", ""),
    ],
)
def test_release_in_a_name(ref: str, cuda: str):
    assert parse(ref).cuda == cuda


def own_cuda(tree: Path, *release: str) -> subprocess.CompletedProcess[str]:
    program = tree.parent / "own-cuda"
    program.write_text(programs.text("own-cuda"))
    return subprocess.run(["sh", program, tree, *release], capture_output=True, text=True, check=False)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Give a CUDA as NVIDIA's packages lay it out, with the release in its folder's name alone."""
    tree = tmp_path / "cuda-12.8"
    (tree / "bin").mkdir(parents=True)
    (tree / "targets/x86_64-linux/lib").mkdir(parents=True)
    nvcc = tree / "bin/nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    nvcc.chmod(0o755)
    return tmp_path / "cuda"


def test_own_cuda_gets_the_links_that_builds_know(installed: Path):
    done = own_cuda(installed, "12.8.1")
    assert done.returncode == 0, done.stderr
    assert installed.readlink() == Path("cuda-12.8")
    assert (installed / "lib64").readlink() == Path("targets/x86_64-linux/lib")


def test_own_cuda_of_another_release_is_told(installed: Path):
    installed.symlink_to("cuda-12.8")
    done = own_cuda(installed, "13.0.3")
    assert done.returncode == 1
    assert "is CUDA 12.8, and CUDA_VERSION says 13.0.3" in done.stderr


def test_own_cuda_of_any_release_will_do_where_none_is_asked_for(installed: Path):
    installed.symlink_to("cuda-12.8")
    assert own_cuda(installed, "").returncode == 0


def test_missing_nvcc_is_told(tmp_path: Path):
    done = own_cuda(tmp_path / "cuda", "12.8.1")
    assert done.returncode == 1
    assert "there is no nvcc in" in done.stderr


# --- toolkit repository --------------------------------------------------------------------------


def test_repository_installs_from_its_address():
    builder = {
        "base": {"image": "pypa/manylinux_2_28_x86_64:1"},
        "toolkit": "repository",
        "cuda-repository": ADDRESS.replace("rhel8", "${DISTRO}"),
        "components": ["cublas", "nvrtc"],
    }
    stage = stage_of(plan_of(builder, variables={"CUDA_VERSION": "12.8.1", "DISTRO": "rhel8"}), "toolkit")
    assert 'ARG DISTRO="rhel8" CUDA_VERSION="12.8.1"\n' in stage
    assert f'ARG CUDA_REPOSITORY="{ADDRESS.replace("rhel8", "${DISTRO}")}"\n' in stage
    assert "cuda-nvcc cuda-cudart-devel cuda-cccl libcublas-devel cuda-nvrtc-devel" in stage


def test_the_address_may_hold_what_follows_from_the_release():
    address = ADDRESS.replace("rhel8", "${CUDA_TAG}")
    builder = {"base": {"image": "pypa/manylinux_2_28_x86_64:1"}, "toolkit": "repository", "cuda-repository": address}
    stage = stage_of(plan_of(builder, variables={"CUDA_VERSION": "12.8.1"}), "toolkit")
    release, minor, tag, whole = (line for line in stage.splitlines() if line.startswith("ARG "))
    assert (release, minor) == ('ARG CUDA_VERSION="12.8.1"', 'ARG CUDA_MINOR="${CUDA_VERSION%.*}"')
    assert tag == 'ARG CUDA_TAG="${CUDA_MINOR//./}"'
    assert whole == f'ARG CUDA_REPOSITORY="{address}"'


def test_components_beside_an_image_are_refused_for_what_they_are():
    """The recipe does name a toolkit: one that adds nothing."""
    base = 'base = { image = "nvidia/cuda:12.8.1-devel-ubuntu22.04" }'
    text = f'name = "x"\n[builder]\n{base}\ntoolkit = "image"\ncomponents = ["cublas"]\n'
    with pytest.raises(PlanError, match="toolkit 'image' installs no components"):
        plans.plan_of(text)


def test_component_without_a_package_is_told():
    builder = {"toolkit": "repository", "cuda-repository": ADDRESS, "components": ["cudnn==9.*"]}
    with pytest.raises(PlanError, match="no component cudnn"):
        plan_of(builder, variables={"CUDA_VERSION": "12.8.1"})


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        ({"toolkit": "repository"}, "needs the address"),
        ({"cuda-repository": ADDRESS}, "is for toolkit 'repository'"),
        ({"toolkit": "repository", "cuda-repository": "rhel8"}, "expected an address"),
    ],
)
def test_repository_and_its_address_belong_together(builder: dict[str, str], said: str):
    with pytest.raises(ValueError, match=said):
        Recipe.model_validate({"name": "x", "builder": builder})


def test_packages_are_named_as_the_family_does():
    names = ["cuda-nvcc", "cuda-cudart-devel", "cuda-cupti"]
    rpm = cuda_repository.packages(names, "12.8.1", "rpm")
    deb = cuda_repository.packages(names, "12.8.1", "deb")
    assert rpm == ["cuda-nvcc-12-8", "cuda-cudart-devel-12-8", "cuda-cupti-12-8"]
    assert deb == ["cuda-nvcc-12-8", "cuda-cudart-dev-12-8", "cuda-cupti-dev-12-8"]


def test_what_is_installed_has_to_be_signed():
    assert "gpgcheck=1\ngpgkey=file:///etc/pki/" in cuda_repository.listing(ADDRESS, "rpm")
    assert cuda_repository.listing(ADDRESS, "deb").startswith("deb [signed-by=/usr/share/keyrings/")


def gpg(folder: Path, *words: str) -> bytes:
    """Run gpg with a home of its own; without gpg the test fails."""
    home = folder / "gnupg"
    home.mkdir(mode=0o700, exist_ok=True)
    command = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
    return subprocess.run([*command, *words], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bytes, str]]:
    """Give a key as text, and its fingerprint as gpg writes it."""
    folder = tmp_path_factory.mktemp("key")
    gpg(folder, "--quick-gen-key", "nobody <n@example.invalid>", "ed25519", "sign", "never")
    listed = gpg(folder, "--list-keys", "--with-colons").decode()
    yield gpg(folder, "--armor", "--export"), re.findall(r"(?m)^fpr:+([0-9A-F]{40}):", listed)[0]
    subprocess.run(["gpgconf", "--homedir", str(folder / "gnupg"), "--kill", "gpg-agent"], check=False)


def test_key_is_found_under_any_of_its_names(tmp_path: Path, signing: tuple[bytes, str]):
    text, fingerprint = signing
    (tmp_path / "3bf863cc.pub").write_bytes(text)
    found = cuda_repository.key(tmp_path.as_uri(), ["0" * 40, fingerprint])
    assert found.split()[-6:] == text.split()[-6:], "the same key, with the same checksum"


def test_another_key_than_the_published_one_is_refused(tmp_path: Path, signing: tuple[bytes, str]):
    """The repository, or who stands in between, gives a key of its own."""
    text, fingerprint = signing
    published = [row.fingerprint for row in facts.repository_keys()]
    (tmp_path / "3bf863cc.pub").write_bytes(text)
    with pytest.raises(SystemExit, match=rf"has the fingerprint {fingerprint}, and not {published[0]} or"):
        cuda_repository.key(tmp_path.as_uri(), published)


def test_a_second_key_in_the_file_is_refused(tmp_path: Path, signing: tuple[bytes, str]):
    text, fingerprint = signing
    gpg(tmp_path, "--quick-gen-key", "other <o@example.invalid>", "ed25519", "sign", "never")
    (tmp_path / "3bf863cc.pub").write_bytes(text + gpg(tmp_path, "--armor", "--export"))
    subprocess.run(["gpgconf", "--homedir", str(tmp_path / "gnupg"), "--kill", "gpg-agent"], check=False)
    with pytest.raises(SystemExit, match=r"has the fingerprint \w{40}, \w{40}, and not"):
        cuda_repository.key(tmp_path.as_uri(), [fingerprint])


@pytest.mark.parametrize(
    "found",
    [
        b"",
        b"a key",
        b"\x99",
        b"\x99\x01\x00\x04",
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!\n-----END PGP PUBLIC KEY BLOCK-----",
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, found: bytes):
    (tmp_path / "3bf863cc.pub").write_bytes(found)
    with pytest.raises(SystemExit, match=r"cannot be read|of no key"):
        cuda_repository.key(tmp_path.as_uri(), ["0" * 40])


def test_a_key_is_not_fetched_without_tls():
    with pytest.raises(SystemExit, match="starts with neither https: nor file:"):
        cuda_repository.key("http://mirror.example/rhel8/x86_64", ["0" * 40])


def test_the_recipe_s_own_key_is_the_only_one():
    builder = {"base": {"image": "x/builder:1"}, "toolkit": "repository", "cuda-repository": ADDRESS}
    variables = {"CUDA_VERSION": "12.8.1"}
    published = ",".join(row.fingerprint for row in facts.repository_keys())
    assert f'"$CUDA_VERSION" {published} cuda-nvcc' in stage_of(plan_of(builder, variables=variables), "toolkit")
    own = plan_of({**builder, "cuda-repository-key": "A" * 40}, variables=variables)
    assert f'"$CUDA_VERSION" {"A" * 40} cuda-nvcc' in stage_of(own, "toolkit")


# --- what a plain image lacks --------------------------------------------------------------------


def test_only_images_by_name_are_completed():
    image = dockerfile(plan_of({"base": {"image": "x/builder:1"}}))
    for line in (
        "net complete-image build",
        "net complete-image runtime",
        'net complete-image python "${PYTHON_VERSION}"',
    ):
        assert line in image
    assert "complete-image" not in dockerfile(plan_of({}))
