"""Which sources the build compiles, and what the recipe gets for those that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import made

from bakery.init.built_files import built_files
from bakery.init.tree import scan

CU = "#include <torch/extension.h>\n#include <cublas_v2.h>\n"
PROJECT = '[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{backend}.build"\n[project]\nname = "wavy"\n'
SETUP = 'from setuptools import Extension, setup\nsetup(ext_modules=[Extension("wavy._c", {sources})])\n'


@pytest.mark.parametrize(
    ("files", "built"),
    [
        ({"CMakeLists.txt": "add_library(a src/a.cu)"}, ["src/a.cu"]),
        ({"CMakeLists.txt": 'file(GLOB S "src/*.cu")'}, ["src/a.cu"]),
        ({"CMakeLists.txt": "file(GLOB_RECURSE S ${CMAKE_SOURCE_DIR}/src/*.c*)"}, ["src/a.cu", "src/sub/b.cpp"]),
        ({"src/CMakeLists.txt": "file(GLOB S *.cu)"}, ["src/a.cu"]),
        ({"meson.build": "sources = files('src/a.cu')"}, ["src/a.cu"]),
        ({"setup.py": SETUP.format(sources='["src/sub/b.cpp"]')}, ["src/sub/b.cpp"]),
        ({"setup.py": SETUP.format(sources='glob("src/**/*.cpp")')}, ["src/sub/b.cpp"]),
        ({"pyproject.toml": '[[tool.setuptools.ext-modules]]\nname = "x"\nsources = ["src/a.cu"]\n'}, ["src/a.cu"]),
        # Nothing is named: nobody knows.
        ({"setup.py": SETUP.format(sources="SOURCES")}, ["src/a.cu", "src/sub/b.cpp", "utils/k.cu"]),
    ],
)
def test_what_build_files_name(tmp_path: Path, files: dict[str, str], built: list[str]) -> None:
    sources = ["src/a.cu", "src/sub/b.cpp", "utils/k.cu"]
    tree = scan(write_files(tmp_path, {**dict.fromkeys(sources, ""), **files}))
    assert sorted(built_files(tree, sources, is_native=True)) == built


MESON = PROJECT.format(backend="meson-python").replace("meson-python.build", "mesonpy")
OPTIONS = "option('gpu', type: 'boolean', value: false, description: 'the GPU (value: true)')\n"
FEATURE = "option('gpu', type: 'feature', value: 'auto')\n"
ALGEBRA = """\
project(wavy CXX)
add_library(w MODULE wavy/fast.cpp)
if(${ALGEBRA} STREQUAL "builtin")
elseif(${ALGEBRA} STREQUAL "cuda")
  target_sources(w PRIVATE gpu/kernel.cu)
  enable_language(CUDA)
endif()
"""
CORE = PROJECT.format(backend="scikit_build_core").replace('["scikit_build_core"]', '["scikit-build-core"]')


@pytest.mark.parametrize(
    ("condition", "options", "settings", "is_built"),
    [
        ("get_option('gpu')", OPTIONS, "", False),
        ("get_option('gpu')", OPTIONS.replace("false", "true"), "", True),
        ("get_option('gpu')", OPTIONS.replace(" value: false,", ""), "", True),
        ("not get_option('gpu')", OPTIONS, "", True),
        ("wants and host_machine.system() == 'linux'", OPTIONS, "", False),
        ("wants or dependency('cuda').found()", OPTIONS, "", True),
        ("get_option('gpu') == true", OPTIONS, "", False),
        ("get_option('gpu').enabled()", FEATURE, "", False),
        ("get_option('gpu').allowed()", FEATURE, "", True),
        ("get_option('other')", OPTIONS, "", True),
        # What the project itself says has precedence.
        ("get_option('gpu')", OPTIONS, '[tool.meson-python.args]\nsetup = ["-Dgpu=true"]\n', True),
        ("get_option('gpu')", OPTIONS, '[tool.cibuildwheel]\nconfig-settings = "setup-args=-Dgpu=true"\n', True),
        (
            "get_option('gpu')",
            OPTIONS.replace("false", "true"),
            '[tool.cibuildwheel.linux]\nconfig-settings = { setup-args = ["-Dgpu=false"] }\n',
            False,
        ),
    ],
)
@pytest.mark.parametrize("names", ["'gpu/kernel.cu', 'gpu/host.cpp'", "subdir('gpu')"])
def test_an_option_of_meson_that_is_off(
    tmp_path: Path, condition: str, options: str, settings: str, is_built: bool, names: str
) -> None:
    build = f"""\
project('wavy', 'cpp')
wants = get_option('gpu') == true
py.extension_module('wavy', 'wavy/fast.cpp')
if {condition}
  dependency('cuda')
  {names if "subdir" in names else f"py.extension_module('gpu', {names})"}
endif
"""
    below = {"gpu/meson.build": "py.extension_module('gpu', 'kernel.cu', 'host.cpp')\n"} if "subdir" in names else {}
    files = {
        "pyproject.toml": MESON + settings,
        "meson.build": build,
        "meson_options.txt": options,
        "wavy/fast.cpp": "",
        "gpu/kernel.cu": "#include <cuda.h>\n",
        "gpu/host.cpp": "#include <gpu.h>\n",
        "gpu/gpu.h": "#include <cuda_runtime.h>\n",
        # What is vendored or older does not build the wheel.
        "legacy_setup.py": "sources = glob('gpu/*.cu')\n",
        "src/CMakeLists.txt": "add_library(g ../gpu/kernel.cu)\nenable_language(CUDA)\n",
        **below,
    }
    recipe = made(tmp_path, files)
    assert ("builder.toolkit" in recipe.draft.entries) is is_built
    assert "pkgconf-pkg-config" in recipe.draft.texts("builder.system-packages") or not is_built


@pytest.mark.parametrize(
    ("settings", "is_built"),
    [
        ("", True),
        ('[tool.scikit-build.cmake.define]\nALGEBRA = "builtin"\n', False),
        ('[tool.scikit-build.cmake.define]\nALGEBRA = "mkl"\n', False),
        ('[tool.scikit-build.cmake.define]\nALGEBRA = "cuda"\n', True),
        ('[tool.scikit-build.cmake.define]\nALGEBRA = { env = "X" }\n', True),
        ('[tool.scikit-build.cmake.define]\nALGEBRA = { env = "X", default = "mkl" }\n', False),
        ('[tool.scikit-build]\ncmake.args = ["-DALGEBRA:STRING=mkl"]\n', False),
        ('[tool.cibuildwheel]\nenvironment = { CMAKE_ARGS = "-DALGEBRA=mkl" }\n', False),
        ('[tool.cibuildwheel]\nconfig-settings = "cmake.define.ALGEBRA=mkl"\n', False),
        (
            '[tool.scikit-build.cmake.define]\nALGEBRA = "mkl"\n'
            '[[tool.scikit-build.overrides]]\nif.env.X = true\ncmake.define.ALGEBRA = "cuda"\n',
            True,
        ),
    ],
)
def test_a_definition_that_switches_a_branch_of_cmake_off(tmp_path: Path, settings: str, is_built: bool) -> None:
    files = {"CMakeLists.txt": ALGEBRA, "wavy/fast.cpp": "", "gpu/kernel.cu": "", "pyproject.toml": CORE + settings}
    recipe = made(tmp_path, files)
    assert ("builder.toolkit" in recipe.draft.entries) is is_built


@pytest.mark.parametrize(
    ("condition", "is_built"),
    [("if(PLUS)", False), ("if(NOT PLUS)", True), ("if(NOT PLUS)\nelse()", False), ("if(OTHER)\nelseif(PLUS)", False)],
)
def test_a_definition_that_is_off(tmp_path: Path, condition: str, is_built: bool) -> None:
    cmake = f"project(wavy CXX)\noption(PLUS OFF)\n{condition}\nadd_subdirectory(gpu)\nendif()\n"
    files = {
        "CMakeLists.txt": cmake,
        "gpu/CMakeLists.txt": "enable_language(CUDA)\n",
        "pyproject.toml": f"{CORE}[tool.scikit-build.cmake.define]\nPLUS = false\n",
    }
    recipe = made(tmp_path, files)
    assert ("builder.toolkit" in recipe.draft.entries) is is_built


def test_headers_are_those_near_compiled_files(tmp_path: Path) -> None:
    sources = ["src/a.cu", "src/a.h", "src/detail/b.h", "include/wavy/c.h", "utils/k.h"]
    tree = scan(write_files(tmp_path, {**dict.fromkeys(sources, ""), "CMakeLists.txt": "add_library(a src/a.cu)"}))
    assert sorted(built_files(tree, sources, is_native=True)) == sorted(sources[:-1])


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": PROJECT.format(backend="hatchling")},
        {"setup.py": SETUP.format(sources='["wavy/fast.c"]'), "wavy/fast.c": "#include <Python.h>\n"},
        {
            "pyproject.toml": PROJECT.format(backend="scikit_build_core"),
            "CMakeLists.txt": "project(wavy CXX)\nadd_library(w MODULE wavy/fast.cpp)\n",
            "wavy/fast.cpp": "",
        },
        # What cupy or NVRTC compiles at a user's.
        {"setup.py": SETUP.format(sources="SOURCES, package_data={'': ['*.pyx', '*.cu']}"), "wavy/fast.c": ""},
        {
            "setup.py": SETUP.format(sources="SOURCES"),
            "setup.cfg": "[options.package_data]\n* = *.cu\n",
            "wavy/fast.c": "",
        },
    ],
)
def test_a_kernel_that_no_build_compiles_needs_no_framework(tmp_path: Path, files: dict[str, str]) -> None:
    recipe = made(tmp_path, {"wavy/__init__.py": "", "utils/kernel.cu": CU, **files})
    assert not {"builder.framework", "matrix.torch", "matrix.cuda", "builder.components"} & recipe.draft.entries.keys()
    notes = [note for note in recipe.draft.notes if "no build file compiles it" in note]
    assert [note.split()[0] for note in notes] == ["utils/kernel.cu", "utils/kernel.cu:1"]


def test_a_kernel_that_the_build_compiles_does(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": PROJECT.format(backend="scikit_build_core"),
        "CMakeLists.txt": "project(wavy CXX)\nadd_library(w MODULE wavy/kernel.cu)\n",
        "wavy/kernel.cu": CU,
    }
    recipe = made(tmp_path, files)
    assert recipe.draft.entries["builder.framework"].value == "torch"
    assert recipe.draft.entries["builder.framework"].reason == "wavy/kernel.cu:1"
