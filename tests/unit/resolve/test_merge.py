"""``native.merge``: the plan of wheels with the results of several native builds."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest

from bakery.core.errors import BakeryError
from bakery.emit.dockerfile import dockerfile
from bakery.plan.dockerfile import Arg, Env, Run
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.release.gpu_record import planned_tests
from bakery.resolve.device_promises import device_promises
from bakery.runs.expectations import promise_of
from bakery.runs.lock.pins import lock_contexts

RECIPE = """\
name = "jaxlike"
platforms = ["linux/amd64", "linux/arm64"]
[variables]
CUDA_ARCHS = "80-real;90-real"
[matrix]
python = ["3.12", "3.13"]
cuda = ["12.9.1", "13.0.3"]
[[matrix.overrides]]
where = { cuda = "12.*" }
variables = { CUDA_ARCHS = "70-real;80-real;90-real" }
[builder]
base = "manylinux_2_28"
toolkit = "cuda"
components = ["cusolver"]
[native]
command = "sh build.sh"
into = "src/jaxlike/cu${CUDA_MAJOR}"
merge = ["cuda"]
environment = { CUDAARCHS = "${CUDA_ARCHS}" }
[wheel]
repair = { exclude = ["libcu*.so*"] }
"""


def planned(folder: Path, text: str = RECIPE, *sets: str) -> Plan:
    return plans.written(folder, text, *sets)


def test_one_wheel_for_all_values(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert [cell.id for cell in plan.cells] == [
        f"{python}-linux_{machine}" for python in ("cp312", "cp313") for machine in ("x86_64", "aarch64")
    ]
    assert [(build.tag, build.folder) for build in plan.merged] == [
        ("cu129", "src/jaxlike/cu12"),
        ("cu130", "src/jaxlike/cu13"),
    ]
    assert not any("CUDA_VERSION" in plan.args_of(cell) or "CUDA_ARCHS" in plan.args_of(cell) for cell in plan.cells)
    assert {(need.name, need.version) for need in plan.cells[0].needs} >= {
        ("cuda-toolkit", "12.9.1"),
        ("cuda-toolkit", "13.0.3"),
    }
    # What the file is built from.
    assert plan.unmerged is not None
    assert len(plan.unmerged.cells) == 8


def test_each_build_has_its_own_stages_and_values(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    stages = {stage.name: stage for stage in plan.stages}
    values = {
        name: dict(pair for step in stages[f"native-{name}"].steps if isinstance(step, Env) for pair in step.values)
        for name in ("cu129", "cu130")
    }
    assert values == {
        "cu129": {"CUDA_ARCHS": ("70-real;80-real;90-real",)},
        "cu130": {"CUDA_ARCHS": ("80-real;90-real",)},
    }
    declared = {step.name for stage in plan.stages for step in stage.steps if isinstance(step, Arg)}
    assert declared.isdisjoint({"CUDA_VERSION", "CUDA_MAJOR", "CUDA_ARCHS"})
    # What does not depend on the values is there once; nothing that no target needs is there.
    assert {name for name in stages if name.startswith(("base", "native-asked", "toolkit"))} >= {
        "base",
        "toolkit-cu129",
    }
    assert "native" not in stages
    assert "cuda-11" not in stages
    text = dockerfile(plan)
    assert text.count("FROM cuda-13-cu130 AS toolkit-cu130") == 1
    assert "cp -a /native-cu129/. /src/src/jaxlike/cu12" in text
    assert "cp -a /native-cu130/. /src/src/jaxlike/cu13" in text


def test_what_changes_rebuilds(tmp_path: Path) -> None:
    def digests(text: str) -> dict[str, str]:
        plan = planned(tmp_path, text)
        return Lineage(plan).of(plan.cells[0])

    before, after = digests(RECIPE), digests(RECIPE.replace("70-real", "75-real"))
    assert before["native-cu129"] != after["native-cu129"]
    assert before["native-cu130"] == after["native-cu130"]
    assert before["compile"] != after["compile"]


def test_each_folder_is_judged_by_its_own_build(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    cell = plan.cells[0]
    promise = promise_of(
        plan, cell, device_promises(plan)[cell.id], Path("jaxlike-1.0-cp312-cp312-manylinux_2_28_x86_64.whl")
    )
    assert promise is not None
    assert (promise.cuda, promise.device_archs) == ("", ())
    assert [(item.folder, item.cuda, item.device_archs) for item in promise.folders] == [
        ("src/jaxlike/cu12", "12.9.1", ("sm_70", "sm_80", "sm_90")),
        ("src/jaxlike/cu13", "13.0.3", ("sm_80", "sm_90")),
    ]


def test_one_value_is_left(tmp_path: Path) -> None:
    plan = planned(tmp_path, RECIPE, "CUDA_VERSION=13.1.0")
    assert [(build.tag, build.folder) for build in plan.merged] == [("cu131", "src/jaxlike/cu13")]


def test_a_folder_for_each_cell_without_merge(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        RECIPE.replace('merge = ["cuda"]\n', "").replace("repair =", 'naming = { local = "cu${CUDA_TAG}" }\nrepair ='),
    )
    assert len(plan.cells) == 8
    assert "/src/src/jaxlike/cu${CUDA_MAJOR}" in dockerfile(plan).replace('"', "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cu${CUDA_MAJOR}", "lib", "'src/jaxlike/lib' would get the results of cu129 and of cu130"),
        ("13.0.3", "12.8.1", "would get the results of cu129 and of cu128"),
        ('merge = ["cuda"]', 'merge = ["cuda"]\nextra = "cuda"', "'cuda' would get the results of cu129 and of cu130"),
        ('merge = ["cuda"]', 'extra = "cuda${CUDA_MAJOR}"', "nothing is merged"),
        ('merge = ["cuda"]', 'merge = ["cuda"]\nextra = "cuda${CUDA_VERSION}"', "'cuda12.9.1' is no normalised name"),
        ('merge = ["cuda"]', 'merge = ["cuda"]\nextra = "Cuda_${CUDA_MAJOR}"', "the normalised name of an extra"),
        ('merge = ["cuda"]', 'merge = ["cud"]', "no axis cud"),
        ('merge = ["cuda"]', 'merge = ["python"]', "no axis python"),
        ("[wheel]", '[wheel]\nnaming = { local = "cu${CUDA_TAG}" }', "only its native step can depend on one"),
        ("[wheel]", '[test]\nrequirements = ["cuda-toolkit==${CUDA_VERSION}"]\n[wheel]', "only its native step can"),
        (
            'cuda = ["12.9.1", "13.0.3"]',
            'cuda = ["12.9.1", "13.0.3"]\nexclude = [{ python = "3.13", cuda = "12.*" }]',
            "would have no build for 12.9.1",
        ),
        ('where = { cuda = "12.*" }', 'where = { cuda = "12.*", python = "3.12" }', "has several values for 12.9.1"),
        (
            'variables = { CUDA_ARCHS = "70-real;80-real;90-real" }',
            'test = { imports = ["a"] }',
            "only its native step can depend",
        ),
    ],
)
def test_what_cannot_be_merged(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert RECIPE.count(old) >= 1
    with pytest.raises(BakeryError) as caught:
        planned(tmp_path, RECIPE.replace(old, new, 1))
    error = caught.value
    assert said in "\n".join((error.message, *error.details))
    assert error.hint or error.details


EXTRA = RECIPE.replace('merge = ["cuda"]', 'merge = ["cuda"]\nextra = "cuda${CUDA_MAJOR}"')
COMPONENTS = 'components = ["cusolver"]'


@pytest.mark.parametrize(
    ("components", "twelve", "thirteen"),
    [
        ("", ["cuda-toolkit[cudart]>=12.9,<13"], ["cuda-toolkit[cudart]>=13.0,<14"]),
        (
            COMPONENTS,
            ["cuda-toolkit[cudart,cusolver,cublas,cusparse,nvjitlink]>=12.9,<13"],
            ["cuda-toolkit[cudart,cusolver,cublas,cusparse,nvjitlink]>=13.0,<14"],
        ),
        (
            'components = ["nccl", "cudnn==9.*"]',
            ["cuda-toolkit[cudart,cublas]>=12.9,<13", "nvidia-nccl-cu12>=2.27.5,<3", "nvidia-cudnn-cu12==9.*"],
            ["cuda-toolkit[cudart,cublas]>=13.0,<14", "nvidia-nccl-cu13>=2.28.9,<3", "nvidia-cudnn-cu13==9.*"],
        ),
    ],
)
def test_an_extra_requires_what_its_build_needs(
    tmp_path: Path, components: str, twelve: list[str], thirteen: list[str]
) -> None:
    plan = planned(tmp_path, EXTRA.replace(COMPONENTS, components))
    pairs = [(item, "cuda12") for item in twelve] + [(item, "cuda13") for item in thirteen]
    assert [*plan.audit.requires] == [(f'{item}; extra == "{extra}"',) for item, extra in pairs]


def test_each_extra_has_a_test_of_its_own_on_a_gpu(tmp_path: Path) -> None:
    test = '[test]\ngpu = true\nimports = ["jaxlike"]\ncommand = "python check.py ${CUDA_MAJOR}"\n'
    plan = planned(tmp_path, EXTRA + test)
    other = {"cuda12": "src/jaxlike/cu13", "cuda13": "src/jaxlike/cu12"}
    assert planned_tests(plan, plan.cells[0]) == [
        {
            "extra": extra,
            "load": True,
            "without": [other[extra]],
            "imports": ["jaxlike"],
            "command": f"python check.py {extra[-2:]}",
        }
        for extra in ("cuda12", "cuda13")
    ]


def test_each_extra_has_a_test_of_its_own(tmp_path: Path) -> None:
    test = '[test]\nrequirements = ["pytest"]\ncommand = "python -c \'assert ${CUDA_MAJOR}\'"\n'
    plan = planned(tmp_path, EXTRA + test)
    stages = {stage.name: stage for stage in plan.stages}
    assert {*stages["jaxlike-test"].dependencies({})} == {"runtime", "jaxlike-test-cuda12", "jaxlike-test-cuda13"}
    text = dockerfile(plan)
    for extra, release, other in (("cuda12", "12.9.1", "cu13"), ("cuda13", "13.0.3", "cu12")):
        (places,) = (step.resolves for step in stages[f"test-requirements-{extra}"].steps if isinstance(step, Run))
        assert places is not None
        assert places.place == f"test-{extra}"
        words = ["".join(map(str, word)) for word in places.words]
        assert words[:4] == ["-r", "/requires/run.txt", "-r", f"/requires/run-{extra}.txt"]
        assert [word.partition("]")[2] for word in words if word.startswith("cuda-toolkit")] == [
            {"cuda12": ">=12.9,<13", "cuda13": ">=13.0,<14"}[extra]
        ]
        assert words[-1] == "pytest"
        own = text[text.index(f"AS jaxlike-test-{extra}\n") :].partition("\nFROM ")[0]
        assert f"--extra={extra} /wheels/*.whl" in own
        assert f"--without src/jaxlike/{other}" in own
        assert f"CUDA_VERSION={release}" in own.replace('"', "")
        assert "ARG CUDA" not in own
    # A lock has what each of them installs.
    materials = {*stages["jaxlike-materials"].dependencies({})}
    assert materials >= {
        f"test-{what}-cuda{major}{end}"
        for major in (12, 13)
        for what, end in (("requirements", ""), ("env", "-materials"))
    }


def test_a_context_replaces_the_stages_of_all_cells(tmp_path: Path) -> None:
    """Cells with another toolkit have a stage ``lock`` of their own; without a context for it, they would not be locked."""
    text = RECIPE.replace('merge = ["cuda"]\n', "").replace(
        "repair =", 'naming = { local = "cu${CUDA_TAG}" }\nrepair ='
    )
    text = text.replace(
        'variables = { CUDA_ARCHS = "70-real',
        'builder = { base = "manylinux_2_34", toolkit = "none" }\nvariables = { CUDA_ARCHS = "70-real',
    )
    text = text.replace('components = ["cusolver"]\n', "")
    plan = planned(tmp_path, text)
    stages = {stage.name: stage for stage in plan.stages}
    mounts = [mount for stage in plan.stages for step in stage.steps if isinstance(step, Run) for mount in step.mounts]
    assert {mount.from_ for mount in mounts if mount.source.startswith("/lock/")} == set(plan.names_of("lock"))
    assert len(plan.names_of("lock")) == 2
    assert {*plan.names_of("repository")} == {name for name in stages if name.startswith("repository")}
    target = next(plan.targets())
    assert lock_contexts(plan, target, Path("f")) == tuple(
        f"{target.name}.contexts.{name}=f/{target.cell.id}" for name in plan.names_of("lock")
    )
