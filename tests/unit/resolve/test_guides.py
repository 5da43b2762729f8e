"""Every claim of the guides that is wrong: a rule refuses it, or ``wheel-bakery gpus`` corrects it.

The guides are those that people build SageAttention, TileLang and jaxmg by; each test names its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import plans
import pytest
from gpus_page import page

from bakery.resolve.rules import judge
from bakery.toolchains.facts import gpus, manylinux_images, wrong_claims
from bakery.toolchains.facts.archs import How, cover, parse

SAGEATTENTION = "7.0;7.5;8.0;8.6;8.9;9.0"
"""The guide's default TORCH_CUDA_ARCH_LIST."""


@pytest.fixture
def broken(tmp_path: Path):
    """Return rule → texts of a recipe."""

    def judged(text: str) -> Mapping[str, str]:
        return {
            finding.rule.id: finding.text for finding in judge(plans.written(tmp_path, 'name = "kernels"\n' + text))
        }

    return judged


def image(name: str, more: str = "") -> str:
    return f'[builder]\nbase = {{ image = "{name}" }}\n{more}'


@pytest.mark.parametrize("claim", wrong_claims(), ids=lambda claim: f"{claim.claimed}-{claim.gpu}")
def test_claim_of_the_gpu_table(claim) -> None:
    """Claims: 7.5 is the GTX 1080 Ti, 8.0 RTX 3090 and 4090, 8.6 the RTX 4080, 8.9 the H100, 9.0 the B200."""
    family = claim.gpu.split()[0]
    at = {gpu.capability: " ".join(gpu.names) for gpu in gpus()}
    assert family in at[claim.capability]
    assert claim.gpu not in at[claim.claimed]
    assert f"| {claim.claimed}: {claim.gpu} | {claim.capability} |" in page()


def test_claim_8_9_is_enough_for_an_h100_and_9_0_for_a_b200() -> None:
    how = {item.gpu.capability: item.how for item in cover(parse("8.9"))}
    assert how["9.0"] is How.MISSED
    how = {item.gpu.capability: item.how for item in cover(parse("9.0"))}
    assert how["10.0"] is How.MISSED


def test_claim_the_default_list_covers_modern_gpus() -> None:
    missed = {item.gpu.capability for item in cover(parse(SAGEATTENTION)) if item.how is How.MISSED}
    assert {"10.0", "10.3", "12.0", "12.1"} <= missed


def test_claim_the_default_list_builds_with_any_cuda(broken) -> None:
    found = broken(
        f'[variables]\nCUDA_VERSION = "13.0.3"\n'
        f'[builder]\ntoolkit = "cuda"\nenvironment = {{ TORCH_CUDA_ARCH_LIST = "{SAGEATTENTION}" }}\n'
    )
    assert "no longer supports sm_70" in found["cuda-dropped-arch"]


@pytest.mark.parametrize("tag", ["", ":latest"])
def test_claim_there_is_an_image_manylinux_2_17_x86_64(broken, tag: str) -> None:
    found = broken(image("quay.io/pypa/manylinux_2_17_x86_64" + tag))
    assert found["image-name"].endswith("manylinux2014_x86_64")


@pytest.mark.parametrize("tag", ["12.1-devel-ubuntu20.04", "11.8-devel-ubuntu20.04", "12.3-devel-ubuntu22.04"])
def test_claim_nvidia_cuda_has_tags_of_two_parts(broken, tag: str) -> None:
    assert "three-part release" in broken(image(f"nvidia/cuda:{tag}"))["image-name"]
    assert "three-part release" in broken(image(f"docker.io/nvidia/cuda:{tag}"))["image-name"]
    three = tag.replace("-devel", ".1-devel")
    assert "image-name" not in broken(image(f"nvidia/cuda:{three}"))


def test_claim_manylinux_2_28_has_gcc_13(broken) -> None:
    row = next(row for row in manylinux_images() if row.name == "manylinux_2_28")
    assert (row.base, row.gcc) == ("AlmaLinux 8", 14)
    found = broken(
        '[variables]\nCUDA_VERSION = "12.4.1"\n'
        + image("quay.io/pypa/manylinux_2_28_x86_64", 'environment = { CUDAARCHS = "80" }\n')
    )
    assert found["host-compiler-new"].endswith("supports gcc up to 13, and this is gcc 14")


def test_claim_manylinux_2_28_has_gcc_11_and_cuda_12_8_needs_it(broken) -> None:
    """The guide for jaxmg says so; gcc 14 is what CUDA 12.8 takes, and what the image has."""
    found = broken(
        '[variables]\nCUDA_VERSION = "12.8.1"\n'
        + image("quay.io/pypa/manylinux_2_28_x86_64", 'environment = { CUDAARCHS = "80" }\n')
    )
    assert not found


def test_claim_gcc_11_targets_glibc_2_17_to_2_27(broken) -> None:
    """The floor comes from the image that links, whatever its compiler."""
    found = broken('[wheel.repair]\nplat = "manylinux2014"\n[builder]\nsystem-packages = ["g++-11"]\n')
    assert "glibc 2.36" in found["glibc-above-tag"]
    caps = {row.name: row.glibcxx for row in manylinux_images() if row.glibcxx}
    assert caps["manylinux2014"] == "3.4.19"
    assert caps["manylinux_2_28"] == "3.4.24"
    assert caps["manylinux_2_39"] == "3.4.33"


def test_claim_devtoolset_11_comes_from_centos_release_scl(broken) -> None:
    packages = 'system-packages = ["centos-release-scl", "devtoolset-11-gcc", "devtoolset-11-gcc-c++"]\n'
    assert "offline since" in broken(image("quay.io/pypa/manylinux2014_x86_64", packages))["centos7-repositories"]
    assert "offline since" in broken(image("centos:7", packages))["centos7-repositories"]


def test_claim_python_3_8_is_in_the_images(broken) -> None:
    found = broken('[matrix]\npython = ["3.8"]\n' + image("quay.io/pypa/manylinux_2_28_x86_64"))
    assert "2026-05-07" in found["image-python-removed"]


def test_claim_one_image_builds_for_linux_arm64(broken) -> None:
    """The guide sets ``*.platforms=linux/arm64`` with an image whose name ends in x86_64."""
    found = broken('platforms = ["linux/arm64"]\n' + image("quay.io/pypa/manylinux_2_28_x86_64"))
    assert "manylinux_2_28_aarch64" in found["platform-base"]


def test_claim_torch_2_7_builds_for_python_3_9_in_manylinux2014(broken) -> None:
    """The refactoring proposal keeps torch 2.7 and Python 3.9 beside images of glibc 2.17."""
    found = broken('[matrix]\npython = ["3.9"]\ntorch = ["2.7.1"]\n' + image("quay.io/pypa/manylinux2014_x86_64"))
    assert "torch-manylinux" in found
