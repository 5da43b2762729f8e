"""Lists of architectures: every spelling, every mistake, and what runs where."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.core.errors import UsageError
from bakery.toolchains.facts import cuda_release, cuda_releases, gpus, number
from bakery.toolchains.facts.archs import Arch, How, cover, known, lack, parse, runs_cubin, runs_ptx


def arch_values() -> st.SearchStrategy[Arch]:
    kinds = st.sampled_from([(True, True), (True, False), (False, True)])
    return st.builds(
        lambda major, minor, suffix, kind: Arch(major, minor, suffix, *kind),
        st.integers(1, 99),
        st.integers(0, 9),
        st.sampled_from(["", "a", "f"]),
        kinds,
    )


def torch(arch: Arch) -> str:
    return f"{arch.major}.{arch.minor}{arch.suffix}" + ("+PTX" if arch.ptx else "")


def cmake(arch: Arch) -> str:
    return arch.number + {(True, True): "", (True, False): "-real", (False, True): "-virtual"}[arch.cubin, arch.ptx]


def nvcc(arch: Arch) -> str:
    return ",".join(["sm_" + arch.number] * arch.cubin + ["compute_" + arch.number] * arch.ptx)


@given(arch_values())
def test_every_spelling_means_the_same(arch: Arch) -> None:
    assert parse(cmake(arch)) == (arch,)
    assert parse(nvcc(arch)) == (arch,)
    if arch.cubin:
        assert parse(torch(arch)) == (arch,)


@given(st.lists(arch_values(), min_size=1, unique_by=lambda arch: arch.number), st.sampled_from([";", ",", " ", "; "]))
def test_order_is_kept_and_nothing_stands_twice(archs: list[Arch], separator: str) -> None:
    text = separator.join(map(cmake, archs))
    assert parse(text) == tuple(archs)
    assert parse(f"{text}{separator}{text}") == tuple(archs)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text)


@given(arch_values())
def test_what_runs_forward_only(arch: Arch) -> None:
    for gpu in gpus():
        major, minor = number(gpu.capability)
        if runs_cubin(arch, major, minor):
            assert arch.cubin
            assert arch.major == major
            assert arch.minor <= minor
        if runs_ptx(arch, major, minor):
            assert arch.ptx
            assert (arch.major, arch.minor) <= (major, minor)


def runs(text: str) -> dict[str, str]:
    return {item.gpu.capability: f"{item.how} {item.by}".strip() for item in cover(parse(text))}


def covered(text: str, how: How) -> set[str]:
    return {item.gpu.capability for item in cover(parse(text)) if item.how is how}


def test_machine_code_runs_on_the_same_major_from_its_minor_on() -> None:
    assert covered("8.6", How.NATIVE) == {"8.6", "8.8", "8.9"}
    assert covered("sm_90", How.NATIVE) == {"9.0"}


def test_a_runs_on_its_own_alone() -> None:
    assert covered("90a", How.NATIVE) == {"9.0"}
    assert covered("100a", How.NATIVE) == {"10.0"}
    assert covered("compute_100a", How.PTX) == {"10.0"}


def test_f_runs_in_its_family() -> None:
    assert covered("120f", How.NATIVE) == {"12.0", "12.1"}
    assert {"10.0", "10.3"} <= covered("100f", How.NATIVE)
    assert covered("compute_120f", How.PTX) == {"12.0", "12.1"}
    assert covered("103f", How.NATIVE) <= {"10.3", "10.7"}


def test_plain_ptx_goes_forward() -> None:
    assert covered("compute_90", How.PTX) == {"9.0", "10.0", "10.3", "10.7", "11.0", "12.0", "12.1"}
    assert covered("9.0+PTX", How.NATIVE) == {"9.0"}


def test_a_jetson_takes_its_own_machine_code_only() -> None:
    assert runs("80")["8.7"] == "ptx compute_80"
    assert runs("8.0")["8.7"] == "missed"
    assert runs("8.7")["8.7"] == "native sm_87"
    assert runs("8.7")["8.9"] == "missed"


def test_the_highest_counts() -> None:
    assert runs("8.0;8.6")["8.9"] == "native sm_86"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("8.O", "8.9"),
        ("sm90", "sm_90"),
        ("sm_9O", "sm_90"),
        ("90-vitrual", "90-virtual"),
        ("9.0+ptx", "9.0+PTX"),
        ("compute90", "compute_90"),
    ],
)
def test_the_nearest_is_named(text: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"8.0;{text}")
    assert f"did you mean {near!r}?" in caught.value.details[0]


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("H100", "9.0"),
        ("80;h200", "9.0"),
        ("NVIDIA A100", "8.0"),
        ("GeForce RTX 4090", "8.9"),
        ("4070", "8.9"),
        ("RTX 3080 Ti", "8.6"),
        ("RTX A4000", "8.6"),
        ("a6000", "8.6"),
        ("gtx-1080", "6.1"),
        ("Tesla T4", "7.5"),
        ("GB10", "12.1"),
    ],
)
def test_a_gpu_is_no_architecture_and_has_one(text: str, capability: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert f"a GPU of capability {capability}: write {capability} or {capability.replace('.', '')}" in str(
        caught.value.details
    )


@pytest.mark.parametrize("text", ["X100", "5", "4690", "DGX", "hopper", "RTX"])
def test_no_number_is_named_that_only_looks_alike(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.details == (f"{text!r} is not an architecture",)


def test_all_problems_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse("native;hopper;8.0;sm_;x")
    assert len(caught.value.details) == 4


@pytest.mark.parametrize("text", ["", " ; ", ","])
def test_an_empty_list(text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        parse(text)


def test_what_releases_lack() -> None:
    thirteen, twelve = cuda_release("13.0"), cuda_release("12.4")
    assert thirteen
    assert twelve
    assert lack("90a", thirteen) is None
    assert "last release with it is CUDA 12.9" in str(lack("70", thirteen))
    assert "renamed sm_101a to sm_110a" in str(lack("101a", thirteen))
    assert "first release with it is CUDA 12.8" in str(lack("100", twelve))
    assert "nearest are sm_86 and sm_87" in str(lack("85", twelve))
    assert all(lack(arch, release) is None for release in cuda_releases() for arch in release.sm)
    assert len(known()) == 39
