"""What setup.py, CMake and Meson files say about C++ and CUDA: only what every build reaches."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest

from bakery.resolve.rules import judge
from bakery.resolve.rules.build_files import BuildFiles, read_build_files
from bakery.resolve.rules.project import read_project
from bakery.runs.source_files import source_of

PROJECT = "project(k LANGUAGES CXX CUDA)\n"


def found(**files: str) -> BuildFiles:
    """Read files; in a name, ``__`` is a slash and ``_`` a dot."""
    texts = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return read_build_files(lambda name: texts.get(name, ""))


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("CMakeLists_txt", "cmake_minimum_required(VERSION 3.26)\n" + PROJECT, 2),
        ("CMakeLists_txt", "project(k\n  VERSION 1.0\n  LANGUAGES C\n  CUDA)\n", 1),
        ("CMakeLists_txt", "if(WIN32)\nendif()\nEnable_Language( CUDA )\n", 3),
        ("CMakeLists_txt", "find_package(CUDAToolkit 12 REQUIRED)", 1),
        ("meson_build", "project('k', 'cpp',\n  'cuda')\n", 1),
        ("meson_build", "project('k', 'cpp')\nadd_languages('cuda', native: false)", 2),
        ("setup_py", "from x import *\nsetup(ext_modules=[CUDAExtension('k', ['k.cu'])])", 2),
        ("setup_py", "def modules():\n    return [cpp.CUDAExtension('k', [])]\n", 2),
        ("setup_py", "if __name__ == '__main__':\n    setup(ext_modules=[Extension('k', ['a.c', 'k.cu'])])", 2),
    ],
)
def test_cuda_code_that_is_compiled(name: str, text: str, line: int) -> None:
    assert found(**{name: text}).cuda == f"{name.replace('_', '.')}:{line}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CMakeLists_txt", "# project(k LANGUAGES CUDA)\n#[==[\n" + PROJECT + "]==]\n"),
        ("CMakeLists_txt", "if(WITH_CUDA)\n  if(X)\n  endif()\n  enable_language(CUDA)\nendif()\n"),
        ("CMakeLists_txt", "function(cuda)\n  enable_language(CUDA)\nendfunction()\n"),
        ("CMakeLists_txt", "project(CUDA LANGUAGES CXX)\nfind_package(CUDAToolkit)\n"),
        ("CMakeLists_txt", "return()\n" + PROJECT),
        ("meson_build", "if get_option('cuda')\n  add_languages('cuda')\nendif\n"),
        ("meson_build", "add_languages('cuda', required: false)"),
        ("setup_py", "if CUDA_HOME:\n    modules = [CUDAExtension('k', names)]\n"),
        ("setup_py", "CUDAExtension = None\ndata = ['k.cu']\n"),
        ("setup_py", "(" * 5000),
        ("setup_py", "no python"),
    ],
)
def test_what_may_not_be_compiled(name: str, text: str) -> None:
    assert found(**{name: text}) == BuildFiles()


def test_folders_that_are_added_are_read_once_each() -> None:
    files = found(
        CMakeLists_txt='add_subdirectory("src")\nadd_subdirectory(../up)\nadd_subdirectory(off EXCLUDE_FROM_ALL)\n',
        src__CMakeLists_txt="add_subdirectory(k)\n",
        src__k__CMakeLists_txt="\nset(CMAKE_CUDA_SEPARABLE_COMPILATION TRUE)\n",
        off__CMakeLists_txt=PROJECT,
    )
    assert (files.separable, files.cuda) == ("src/k/CMakeLists.txt:2", "")
    assert found(CMakeLists_txt="add_subdirectory(.)\n") == BuildFiles()
    assert found(meson_build="project('k')\nsubdir('a')\n", a__meson_build="add_languages('cuda')").cuda


@pytest.mark.parametrize(
    "text",
    [
        "set_property(TARGET k PROPERTY CUDA_SEPARABLE_COMPILATION ON)",
        "target_compile_options(k PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-rdc=true>)",
        'set(CMAKE_CUDA_FLAGS "-O3 --relocatable-device-code=true")',
    ],
)
def test_device_code_that_is_linked(text: str) -> None:
    assert found(CMakeLists_txt=text).separable == "CMakeLists.txt:1"
    assert found(CMakeLists_txt=f"if(RDC)\n{text}\nendif()").separable == ""


def test_standards() -> None:
    assert found(setup_py="a\nflags = ['-O3', '-std=c++17']  # -std=c++20\n").standards == {"setup.py:2": 17}
    assert found(pyproject_toml='extra-compile-args = ["-std=gnu++1y"]\n').standards == {"pyproject.toml:1": 14}
    assert found(meson_build="project('k', 'cpp', default_options: ['cpp_std=c++14'])").standards == {
        "meson.build:1": 14
    }
    assert found(CMakeLists_txt="add_compile_options(-std=c++17)").standards == {"CMakeLists.txt:1": 17}
    assert found(setup_py="f = '-std=c++17' if old else '-std=c++20'").standards == {}


@pytest.mark.parametrize(
    ("recipe", "warns"),
    [
        ("", True),
        ('[builder]\nbase = "manylinux_2_28"\n', True),
        ('[builder]\nbase = { image = "quay.io/pypa/manylinux_2_28_x86_64" }\n', True),
        ('[variables]\nCUDA_VERSION = "13.0.3"\n', True),
        ('[builder]\nbase = { image = "ghcr.io/team/manylinux_2_28_x86_64-cuda" }\n', False),
        ('[builder]\nbase = { image = "registry.test/team/tools" }\n', False),
        ('[builder]\nbase = { image = "nvidia/cuda:12.8.1-devel-ubuntu24.04" }\n', False),
        ('[builder]\nbase = "manylinux_2_28_cuda12_9"\ntoolkit = "image"\n', False),
        ('[variables]\nCUDA_VERSION = "13.0.3"\n[builder]\ntoolkit = "cuda"\n', False),
        ('[builder]\nsystem-packages = ["nvidia-cuda-toolkit"]\n', False),
        ('[builder]\nrequirements = ["nvidia-cuda-nvcc-cu12"]\n', False),
        ('[builder]\nenvironment = { CUDACXX = "/opt/nvcc" }\n', False),
        ('[builder]\nbefore-build = "sh install-cuda.sh"\n', False),
    ],
)
def test_a_builder_without_a_compiler_for_cuda(tmp_path: Path, recipe: str, warns: bool) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    plan = plans.written(tmp_path, f'name = "k"\n{recipe}')
    findings = judge(plan, project=read_project(plan, source_of(tmp_path, plan)))
    assert ("cuda-sources" in {finding.rule.id for finding in findings}) is warns
