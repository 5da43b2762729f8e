"""Matrices of GitHub workflows: GitHub's meaning of include and exclude, and what init takes of them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from init_projects import made

from bakery.init.bases import base_choice
from bakery.init.read_workflows import Workflow, expand, read_workflows
from bakery.init.tree import scan


def read(folder: Path, *jobs: str, refused: str = "") -> Workflow | None:
    file = folder / ".github" / "workflows" / "build.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("jobs:\n" + "".join(textwrap.indent(textwrap.dedent(job), "  ") for job in jobs))
    return read_workflows(scan(folder), refused)


def axes(found: Workflow | None) -> dict[str, list[str]]:
    assert found is not None
    return {name: list(values) for name, (values, _) in found.axes.items()}


WHEELS = """\
wheels:
  runs-on: ${{ matrix.os }}
  strategy:
    matrix:
      os: [ubuntu-22.04, macos-14, windows-2019, ubuntu-22.04-arm]
      python-version: ['3.9', cp310, '3.13t']
      torch-version: [2.10.0, 2.11.0]
      cuda-version: [cpu, cu118, cu130]
      exclude:
        - {os: ubuntu-22.04-arm, cuda-version: cu118}
        - {os: ubuntu-22.04-arm, cuda-version: cu130}
  steps:
    - run: python setup.py bdist_wheel
"""


def test_include_and_exclude_mean_what_github_says() -> None:
    # The example of "Expanding or adding matrix configurations" in GitHub's documentation.
    matrix = {
        "fruit": ["apple", "pear"],
        "animal": ["cat", "dog"],
        "include": [
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
            {"fruit": "banana", "animal": "cat"},
        ],
    }
    assert expand(matrix) == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


@pytest.mark.parametrize(
    ("matrix", "cells"),
    [
        ({"a": [1, 2], "exclude": [{"a": 1}]}, [{"a": 2}]),
        ({"a": [1], "exclude": [{"b": 1}]}, [{"a": 1}]),
        ({"a": [{"x": 1, "y": 2}, {"x": 3}], "exclude": [{"a": {"x": 1}}]}, [{"a": {"x": 3}}]),
        ({"include": [{"a": 1}, {"a": 2}]}, [{"a": 1}, {"a": 2}]),
        ({"a": [1, 2], "exclude": [{"a": 1}], "include": [{"a": 1, "b": 1}]}, [{"a": 2}, {"a": 1, "b": 1}]),
        ({"a": "${{ fromJSON(needs.x.outputs.y) }}"}, []),
        ({"a": list(range(100)), "b": list(range(100))}, []),
    ],
)
def test_cells_of_a_matrix(matrix: dict[str, object], cells: list[dict[str, object]]) -> None:
    assert expand(matrix) == cells


def test_the_cells_for_linux_and_cuda_count(tmp_path: Path) -> None:
    found = read(tmp_path, WHEELS)
    # CUDA 13.0 is what the package index has torch 2.11 for; the others are named.
    assert axes(found) == {"python": ["3.9", "3.10", "3.13t"], "torch": ["2.11.0"], "cuda": ["13.0.3"]}
    assert found
    assert found.platforms is None
    assert [rest.what for rest in found.rest] == [
        "torch 2.10.0 (.github/workflows/build.yml:5)",
        "cuda 11.8.0 (.github/workflows/build.yml:5)",
    ]
    assert "builder.framework-index" in found.rest[1].reason


def test_an_axis_of_tables_and_the_workflow_that_is_called(tmp_path: Path) -> None:
    job = """\
    wheels:
      strategy:
        matrix:
          target:
            - { runner: ubuntu-latest, toolkit: CUDA-13.0, python_version: "3.10" }
            - { runner: [self-hosted, linux, arm64], toolkit: CUDA-13.0, python_version: "3.10" }
            - { runner: macos-latest, toolkit: Metal, python_version: "3.9" }
      uses: ./.github/workflows/_build.yml
    """
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "_build.yml").write_text("jobs: {a: {steps: [{run: pip wheel .}]}}\n")
    found = read(tmp_path, job)
    assert axes(found) == {"python": ["3.10"], "cuda": ["13.0.3"]}
    assert found
    assert found.platforms
    assert found.platforms[0] == ("linux/amd64", "linux/arm64")


def test_a_matrix_without_a_system_is_that_of_runs_on(tmp_path: Path) -> None:
    windows = "runs-on: windows-2022\n  strategy: {matrix: {py: [cp39, cp310, cp311]}}\n  steps: [{run: pip wheel .}]\n"
    linux = "runs-on: ubuntu-24.04\n  strategy: {matrix: {py: [cp312, cp313]}}\n  steps: [{run: pip wheel .}]\n"
    found = read(tmp_path, f"w:\n  {windows}", f"l:\n  {linux}")
    assert axes(found) == {"python": ["3.12", "3.13"]}


def test_a_number_is_what_github_reads(tmp_path: Path) -> None:
    found = read(tmp_path, "w: {strategy: {matrix: {python: [3.9, 3.10, '3.11']}}, steps: [{run: pip wheel .}]}\n")
    assert axes(found) == {"python": ["3.9", "3.1", "3.11"]}


def test_a_free_threaded_python_of_a_matrix_is_one_of_the_base(tmp_path: Path) -> None:
    read(
        tmp_path,
        "w: {strategy: {matrix: {python: ['3.9', '3.13t', '3.14t', '3.14']}}, steps: [{run: pip wheel .}]}\n",
    )
    files = {"pyproject.toml": '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.10"\n', "a.c": ""}
    recipe = made(tmp_path, files)
    assert recipe.draft.texts("matrix.python") == ["3.14", "3.14t"]
    assert [(item.what, item.reason) for item in recipe.draft.rest] == [
        ("Python 3.13t (.github/workflows/build.yml:2)", "not in the base"),
        ("Python 3.9 (.github/workflows/build.yml:2)", "requires-python leaves it out"),
    ]


@pytest.mark.parametrize(
    "job",
    [
        "t: {strategy: {matrix: {python: ['3.9']}}, steps: [{run: pytest}]}\n",
        "docs: {strategy: {matrix: {python: ['3.14']}}, steps: [{run: python -m build}, {run: sphinx-build docs out}]}\n",
        "t: {strategy: {matrix: '${{ x }}'}, steps: [{run: pip wheel .}]}\n",
        "t: [1]\n",
    ],
)
def test_other_jobs_say_nothing(tmp_path: Path, job: str) -> None:
    assert read(tmp_path, job) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jobs: {a: [ strategy: {matrix: }", "no YAML"),
        ("jobs: {a: 1, a: 2} # matrix:", "no YAML"),
        ("x: &x [1]\ny: [" + "*x, " * 21 + "1]\nmatrix: 1\n", "aliases"),
        ("y:\n" + "- *x\n" * 21 + "matrix: 1\n", "aliases"),
        ("[" * 5000 + "matrix:", "nested too deeply"),
        ("matrix:\n" + "#" * 70_000, "larger than 64 KiB"),
    ],
)
def test_a_workflow_that_cannot_be_read_is_named(tmp_path: Path, text: str, reason: str) -> None:
    read(tmp_path)
    (tmp_path / ".github" / "workflows" / "build.yml").write_text(text + "\n# pip wheel .\n")
    found = read_workflows(scan(tmp_path))
    assert found is not None
    assert reason in found.rest[0].reason
    assert found.axes == {}


def test_a_table_that_contains_itself_ends(tmp_path: Path) -> None:
    job = "w: {strategy: {matrix: {a: [&a {x: *a}], exclude: [{a: *a}]}}, steps: [{run: pip wheel .}]}\n"
    found = read(tmp_path, job)
    assert found is None or found.axes == {}


@pytest.mark.parametrize(
    ("runner", "platforms"),
    [
        ("ubuntu-24.04", ["linux/amd64"]),
        ("build-farm", ["linux/amd64"]),
        ("unwind", ["linux/amd64"]),
        ("linux.arm64.2xlarge", ["linux/arm64"]),
        ("ubuntu-aarch64", ["linux/arm64"]),
        ("ARM64", ["linux/arm64"]),
        ("namespace-macos-arm64", []),
        ("win-64", []),
        ("windows", []),
        ("winx64", []),
        ("aarch64-apple-darwin", []),
        ("my-machine", ["linux/amd64"]),
        ("linuxarm64", ["linux/arm64"]),
        ("wasm32-unknown-emscripten", []),
        ("armv7l", []),
        ("armv7-unknown-linux-gnueabihf", []),
        ("x86", []),
        ("x86-64", ["linux/amd64"]),
    ],
)
def test_the_platform_of_a_runner(tmp_path: Path, runner: str, platforms: list[str]) -> None:
    job = f"w: {{runs-on: [{runner}], strategy: {{matrix: {{python: ['3.12']}}}}, steps: [{{run: pip wheel . && twine upload *.whl}}]}}\n"
    found = read(tmp_path, job)
    assert (list(found.platforms[0]) if found.platforms else ["linux/amd64"]) == platforms if found else not platforms


@pytest.mark.parametrize(
    ("other", "platforms"),
    [
        ("runs-on: ubuntu-latest, steps: [{run: cibuildwheel .}]", ("linux/amd64", "linux/arm64")),
        (
            "runs-on: '${{ matrix.os }}', strategy: {matrix: {os: [ubuntu-24.04]}}, steps: [{run: python -m build}]",
            ("linux/amd64", "linux/arm64"),
        ),
        (
            "runs-on: linux-x64, strategy: {matrix: {arch: ['x86_64 aarch64']}}, steps: [{run: cibuildwheel --to out}]",
            ("linux/amd64", "linux/arm64"),
        ),
        # These build no wheel, or for what Bakery does not.
        ("runs-on: linux-x64, strategy: {matrix: {arch: [aarch64]}}, steps: [{run: cibuildwheel}]", ("linux/arm64",)),
        (
            "runs-on: ubuntu-latest, strategy: {matrix: {arch: [ppc64le, i686]}}, steps: [{run: cibuildwheel}]",
            ("linux/arm64",),
        ),
        (
            "runs-on: linux-x64, strategy: {matrix: {arch: [ppc64le, armv7l]}}, steps: [{run: cibuildwheel}]",
            ("linux/arm64",),
        ),
        ("runs-on: ubuntu-latest, steps: [{run: python -m build --sdist}]", ("linux/arm64",)),
        ("runs-on: ubuntu-latest, steps: [{run: twine upload dist/*.whl}]", ("linux/arm64",)),
        ("runs-on: windows-latest, steps: [{run: cibuildwheel .}]", ("linux/arm64",)),
    ],
)
def test_a_platform_may_have_a_job_of_its_own(tmp_path: Path, other: str, platforms: tuple[str, ...]) -> None:
    arm = "runs-on: ubuntu-latest, strategy: {matrix: {arch: [aarch64], python: ['3.12', '3.13']}}"
    found = read(tmp_path, f"arm: {{{arm}, steps: [{{run: cibuildwheel .}}]}}\n", f"other: {{{other}}}\n")
    assert found is not None
    assert found.platforms is not None
    assert found.platforms[0] == platforms
    assert found.axes["python"][0] == ("3.12", "3.13")


@pytest.mark.parametrize(
    ("matrix", "platforms"),
    [
        # What `maturin generate-ci` writes, now and before.
        (
            "{platform: [{runner: ubuntu-22.04, target: x86_64}, {runner: ubuntu-22.04, target: x86},"
            " {runner: ubuntu-22.04, target: aarch64}, {runner: ubuntu-22.04, target: armv7},"
            " {runner: ubuntu-22.04, target: s390x}]}",
            ("linux/amd64", "linux/arm64"),
        ),
        ("{target: [x86_64, x86, aarch64, armv7, ppc64le]}", ("linux/amd64", "linux/arm64")),
        ("{target: [aarch64-unknown-linux-gnu, x86_64-apple-darwin]}", ("linux/arm64",)),
        ("{arch: [x86_64, armv7l]}", None),
        ("{os: [ubuntu-24.04, ubuntu-24.04-arm], arch: [armv7l, x86_64]}", ("linux/amd64", "linux/arm64")),
    ],
)
def test_the_target_of_a_compiler_is_a_platform(tmp_path: Path, matrix: str, platforms: tuple[str, ...] | None) -> None:
    runs_on = "'${{ matrix.platform.runner }}'" if "runner" in matrix else "ubuntu-latest"
    job = f"runs-on: {runs_on}, strategy: {{matrix: {matrix}}}, steps: [{{uses: PyO3/maturin-action@v1}}, {{uses: actions/upload-artifact@v6}}]"
    found = read(tmp_path, f"linux: {{{job}}}\n")
    assert found is not None
    assert (found.platforms[0] if found.platforms else None) == platforms


CIBW = """\
wheels:
  runs-on: ${{ matrix.os }}
  strategy:
    matrix:
      os: [ubuntu-24.04, macos-14]
      python: [cp312, cp314t]
      arch: [x86_64, aarch64]
  env:
    CIBW_TEST_COMMAND: pytest
    CIBW_SKIP: "*-musllinux*"
  steps:
    - uses: actions/checkout@v5
    - uses: pypa/cibuildwheel@v4
      env:
        CIBW_BUILD: ${{ matrix.python }}-*
        CIBW_ARCHS_LINUX: ${{ matrix.arch }}
        CIBW_ARCHS_MACOS: arm64
    - uses: actions/upload-artifact@v6
"""
ONE = (
    "runs-on: ubuntu-24.04, steps: [{{uses: pypa/cibuildwheel@v4, env: {{{}}}}}, {{uses: actions/upload-artifact@v6}}]"
)
BOTH = ["linux/amd64", "linux/arm64"]


@pytest.mark.parametrize(
    ("job", "settings", "pythons", "platforms"),
    [
        (CIBW, "", ["3.12", "3.14t"], BOTH),
        # They outrank pyproject.toml's, each for itself.
        (CIBW, 'build = "cp313-*"\narchs = "x86_64"', ["3.12", "3.14t"], BOTH),
        (ONE.format("CIBW_ARCHS: x86_64"), 'build = "cp313-*"\narchs = "aarch64"', ["3.13"], ["linux/amd64"]),
        (ONE.format("CIBW_ARCHS: auto aarch64"), "", None, BOTH),
        (ONE.format("CIBW_ARCHS: all"), "", None, BOTH),
        (ONE.format("CIBW_ARCHS_LINUX: aarch64, CIBW_ARCHS: x86_64"), "", None, ["linux/arm64"]),
        (ONE.format("CIBW_ARCHS: '${{ inputs.archs }}'"), 'archs = "aarch64"', None, ["linux/arm64"]),
        (ONE.format("CIBW_BUILD: 'cp31[23]-*'"), 'skip = "cp313*"', ["3.12"], []),
        (ONE.format("CIBW_BUILD: 'cp31[23]-*', CIBW_SKIP: ''"), 'skip = "cp313*"', ["3.12", "3.13"], []),
        (ONE.format("CIBW_BUILD: \"${{ matrix.build || 'cp312-*' }}\""), "", ["3.12"], []),
        (ONE.format("CIBW_BUILD: cp312-*, CIBW_PLATFORM: pyodide"), 'build = "cp313-*"', ["3.13"], []),
        # A test of the settings builds no wheel that is kept.
        (
            ONE.format("CIBW_BUILD: cp312-*").replace(", {uses: actions/upload-artifact@v6}", ""),
            'build = "cp313-*"',
            ["3.13"],
            [],
        ),
    ],
)
def test_variables_of_cibuildwheel(
    tmp_path: Path, job: str, settings: str, pythons: list[str] | None, platforms: list[str]
) -> None:
    read(tmp_path, job if job is CIBW else f"wheels: {{{job}}}\n")
    text = '[project]\nname = "a"\nversion = "1"\n' + (f"[tool.cibuildwheel]\n{settings}\n" if settings else "")
    recipe = made(tmp_path, {"pyproject.toml": text, "a.c": ""})
    every = list(base_choice("manylinux_2_28").pythons)
    assert recipe.draft.texts("matrix.python") == (every if pythons is None else pythons)
    assert recipe.draft.texts("platforms") == platforms


def test_variables_of_cibuildwheel_that_are_not_read_are_named(tmp_path: Path) -> None:
    found = read(tmp_path, CIBW.replace("${{ matrix.arch }}", "${{ inputs.archs }}"))
    assert found
    assert [item.what for item in found.rest] == [
        "CIBW_TEST_COMMAND, CIBW_ARCHS_LINUX (.github/workflows/build.yml:10)"
    ]
    assert found.selections == {("cp312-*", "*-musllinux*"): None, ("cp314t-*", "*-musllinux*"): None}


@pytest.mark.parametrize(
    ("job", "settings", "pythons"),
    [
        ("python -m build", "[tool.cibuildwheel]\nbuild-verbosity = 1\n", None),
        ("python -m build", "", ["3.14"]),
        ("cibuildwheel .", "[tool.cibuildwheel]\nbuild-verbosity = 1\n", ["3.14"]),
    ],
)
def test_a_job_that_tests_says_nothing_of_what_cibuildwheel_builds(
    tmp_path: Path, job: str, settings: str, pythons: list[str] | None
) -> None:
    matrix = "strategy: {matrix: {python: ['3.14'], from: [source, library]}}"
    steps = f"steps: [{{run: {job}}}, {{uses: actions/upload-artifact@v6}}]"
    read(tmp_path, f"t: {{runs-on: ubuntu-24.04, {matrix}, {steps}}}\n")
    text = f'[project]\nname = "a"\nversion = "1"\n{settings}'
    recipe = made(tmp_path, {"pyproject.toml": text, "a.c": ""})
    assert recipe.draft.texts("matrix.python") == (pythons or list(base_choice("manylinux_2_28").pythons))


def test_workflows_beyond_the_limit_of_all_are_named(tmp_path: Path) -> None:
    read(tmp_path)
    folder = tmp_path / ".github" / "workflows"
    for name in ("a", "b", "c"):
        (folder / f"{name}.yml").write_text("# matrix: pip wheel\n" + "#" * 60_000)
    found = read_workflows(scan(tmp_path))
    assert found is not None
    assert [(item.what, "128 KiB" in item.reason) for item in found.rest] == [(".github/workflows/c.yml", True)]


def test_a_recipe_has_the_matrix_of_the_workflow(tmp_path: Path) -> None:
    read(tmp_path, WHEELS.replace("3.13t", "3.13"))
    setup = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        'setup(name="demo", ext_modules=[CUDAExtension("demo._c", ["a.cu"])], cmdclass={"build_ext": BuildExtension})\n'
    )
    recipe = made(tmp_path, {"setup.py": setup, "a.cu": ""}, base_choice("manylinux_2_28"))
    assert recipe.draft.entries["matrix.torch"].value == ["2.11.0"]
    assert recipe.draft.texts("matrix.python") == ["3.10", "3.13"]
    assert recipe.draft.entries["matrix.cuda"].reason == ".github/workflows/build.yml:5"


def test_a_matrix_that_cannot_be_read_without_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    found = read(tmp_path, WHEELS)
    assert found is not None
    assert "wheel-bakery[ci]" in found.rest[0].reason
