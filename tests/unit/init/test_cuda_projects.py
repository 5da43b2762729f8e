"""CUDA projects that say in ways of their own what they need: what `init` writes for each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import init_projects
import pytest
from file_trees import write_files

from bakery.core.errors import OutputError
from bakery.init.bases import base_choice
from bakery.init.tree import scan
from bakery.init.write import find_target

_EXTENSION = """
import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension
%s
setup(name="demo", version="1", packages=["demo"], ext_modules=[%s], cmdclass={"build_ext": BuildExtension}%s)
"""
_CALL = 'CUDAExtension("demo._c", ["csrc/a.cu"])'
_FILES = {"csrc/a.cu": "", "demo/__init__.py": ""}
PYPROJECT = """[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1"
"""
_CMAKE = {"pyproject.toml": PYPROJECT, "CMakeLists.txt": "project(demo)\nadd_subdirectory(vendor/engine)\n"}

made = partial(init_projects.made, base=base_choice("debian"))


def setup_py(before: str = "", call: str = _CALL, after: str = "") -> dict[str, str]:
    return {**_FILES, "setup.py": _EXTENSION % (before, call, after)}


@pytest.mark.parametrize(("default", "archs"), [("75;80;90;100", "80;90"), ("8.0 9.0", "8.0 9.0"), ("80,90", "80,90")])
def test_a_list_of_its_own_has_the_format_of_its_default(tmp_path: Path, default: str, archs: str) -> None:
    flags = f'ARCHS = os.getenv("MYKERNELS_CUDA_ARCHS", "{default}")\nFLAGS = ["-gencode", f"arch=compute_{{ARCHS}}"]'
    found = made(tmp_path, setup_py(flags))
    entries = found.draft.entries
    assert entries["variables.CUDA_ARCHS"].value == archs
    assert entries["builder.environment"].value == {"MYKERNELS_CUDA_ARCHS": "${CUDA_ARCHS}"}
    assert "torch-arch-unset" not in [finding.rule.id for finding in found.warnings]


def test_a_list_that_is_no_list_of_cuda_is_not_taken(tmp_path: Path) -> None:
    found = made(tmp_path, setup_py('os.getenv("HIP_ARCHS", "80;90"); os.getenv("MY_CUDA_ARCHS", "native")'))
    assert found.draft.entries["builder.environment"].value == {"TORCH_CUDA_ARCH_LIST": "${CUDA_ARCHS}"}


_FLAGS = """
FLAGS = ["-gencode", "arch=compute_80,code=sm_80"]
if bare_metal_version >= Version("13.0"):
    FLAGS += ["-gencode", "arch=compute_103,code=[sm_103,compute_103]"]
if bare_metal_version < Version("13.0"):
    FLAGS += ["-gencode", "arch=compute_70,code=sm_70"]
"""


@pytest.mark.parametrize(
    ("flags", "listed"),
    [
        (_FLAGS, "8.0;10.3+PTX"),
        ('if not SKIP:\n    FLAGS = ["-arch=sm_90"]', "9.0+PTX"),
        ('FLAGS = ["-gencode=arch=compute_80,code=sm_80"]\nif MORE:\n    FLAGS += ["arch=compute_90,code=sm_90"]', ""),
        ('FLAGS = [f"arch=compute_{number},code=sm_{number}"]', ""),
    ],
)
def test_gpus_that_setup_py_fixes_are_the_list(tmp_path: Path, flags: str, listed: str) -> None:
    found = made(tmp_path, setup_py(flags))
    environment = found.draft.entries.get("builder.environment")
    assert (environment.value if environment else {}) == ({"TORCH_CUDA_ARCH_LIST": listed} if listed else {})
    assert any("names GPUs in flags for nvcc" in note for note in found.draft.notes)
    assert not found.warnings


@pytest.mark.parametrize(
    ("setup", "forced", "noted"),
    [
        ("torch.cuda.is_available()", "", True),
        ('torch.cuda.is_available() or os.getenv("FORCE_CUDA_EXTENSION")', "FORCE_CUDA_EXTENSION", False),
        ('torch.cuda.is_available() or os.getenv("TORCH_CUDA_ARCH_LIST")', "", False),
    ],
)
def test_an_extension_that_asks_for_a_gpu(tmp_path: Path, setup: str, forced: str, noted: bool) -> None:
    found = made(tmp_path, setup_py(f"import torch\nUSES_CUDA = {setup}"))
    value = found.draft.entries["builder.environment"].value
    assert isinstance(value, dict)
    assert {**value, forced: "1"} == ({**value, "": "1"} if not forced else value)
    assert any("asks torch for a GPU" in note for note in found.draft.notes) is noted


def test_an_option_that_is_switched_off(tmp_path: Path) -> None:
    options = ', options={"bdist_wheel": {"py_limited_api": "cp39"}} if LIMITED else {}'
    assert "wheel.abi3" not in made(tmp_path, setup_py("LIMITED = False", _CALL, options)).draft.entries
    assert "wheel.abi3" in made(tmp_path, setup_py("LIMITED = True", _CALL, options)).draft.entries


_ABI3 = ', options={"bdist_wheel": {"py_limited_api": "cp39"}} if LIMITED else {}'


@pytest.mark.parametrize(
    ("limited", "settings", "is_on"),
    [
        ('os.getenv("DEMO_A") == "1"', "", False),
        ('os.getenv("DEMO_A", "1") == "1"', "", True),
        ('os.environ.get("DEMO_A", "0") in ("1", "true")', "", False),
        ('bool(os.environ.get("DEMO_A"))', "", False),
        ('bool(int(os.getenv("DEMO_A", "0")))', "", False),
        ('not os.getenv("DEMO_A")', "", True),
        ('"DEMO_A" in os.environ', "", False),
        ('os.getenv("DEMO_A", "OFF").lower() != "off"', "", False),
        ('os.getenv("DEMO_A") is not None and sys.version_info > (3, 9)', "", False),
        ('os.getenv("DEMO_A") or sys.version_info > (3, 9)', "", True),
        ('os.getenv("DEMO_A") == "1"', '[tool.cibuildwheel]\nenvironment = { DEMO_A = "1" }\n', True),
        ('os.getenv("DEMO_A") == "1"', "[tool.cibuildwheel.linux]\nenvironment = \"X=2 DEMO_A='1'\"\n", True),
        ('os.getenv("DEMO_A") == "1"', '[tool.cibuildwheel]\nenvironment = { DEMO_A = "0" }\n', False),
        # Something else may set it.
        ('os.getenv("DEMO_CUDA") == "1"', "", True),
        ('os.getenv("PYTHONPATH") == "1"', "", True),
        ('os.getenv(NAME) == "1"', "", True),
        ('os.getenv("DEMO_A") == "1"\nif "--limited" in sys.argv:\n    LIMITED = True', "", True),
        ("False\nfor LIMITED in find(): pass", "", True),
        ('False\nos.environ["DEMO_A"] = "1"\nLIMITED = os.getenv("DEMO_A") == "1"', "", True),
        ('False\nif os.getenv("DEMO_A"):\n    LIMITED = True', "", False),
    ],
)
def test_a_variable_that_is_not_set_switches_the_stable_abi_off(
    tmp_path: Path, limited: str, settings: str, is_on: bool
) -> None:
    files = {**setup_py(f"LIMITED = {limited}", _CALL, _ABI3), **({"pyproject.toml": settings} if settings else {})}
    draft = made(tmp_path, files).draft
    assert ("wheel.abi3" in draft.entries) is is_on
    named = [note for note in draft.notes if "no stable ABI" in note]
    assert [note.split(", which")[0].partition(" ")[2] for note in named] == (
        ["is for builds with DEMO_A"] if not is_on and '"0" }' not in settings else []
    )


def test_modules_of_a_build_with_a_variable_are_named(tmp_path: Path) -> None:
    text = """\
import os
from setuptools import Extension, setup
modules = []
if os.environ.get("DEMO_SPEED") == "1":
    from Cython.Build import cythonize
    modules.append(Extension("demo._c", ["demo/a.pyx"], libraries=["z"]))
setup(name="demo", packages=["demo"], ext_modules=modules)
"""
    files = {"setup.py": text, "demo/__init__.py": "", "demo/a.pyx": "", "demo/a.c": ""}
    draft = made(tmp_path / "off", files).draft
    assert not draft.texts("builder.system-packages")
    assert "cython" not in draft.texts("builder.requirements")
    assert [note.partition("; for")[0] for note in draft.notes] == [
        "setup.py:6 is for builds with DEMO_SPEED, which is not set: the recipe has no extension modules from there"
    ]
    files["pyproject.toml"] = '[tool.cibuildwheel]\nenvironment = { DEMO_SPEED = "1" }\n'
    draft = made(tmp_path / "on", files).draft
    assert draft.texts("builder.system-packages") == ["zlib1g-dev"]
    assert "cython" in draft.texts("builder.requirements")
    assert not draft.notes


def test_flags_for_builds_without_a_list_are_none(tmp_path: Path) -> None:
    flags = 'if not os.environ.get("TORCH_CUDA_ARCH_LIST"):\n    FLAGS = [f"arch=compute_{number},code=sm_{number}"]'
    found = made(tmp_path, setup_py(flags))
    assert found.draft.entries["builder.environment"].value == {"TORCH_CUDA_ARCH_LIST": "${CUDA_ARCHS}"}


def test_sources_that_setuptools_has_as_data_are_one_wheel(tmp_path: Path) -> None:
    text = 'from setuptools import setup\nsetup(name="demo", package_data={"pkg": ["*.cpp"]})\n'
    found = made(tmp_path, {"setup.py": text, "pkg/a.cpp": ""})
    assert len(found.draft.texts("matrix.python")) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"c/gpu.h": "#include <cuda.h>\n", "c/a.c": "#ifdef GPU\n#include <gpu.h>\n#endif\n"},
        {"c/a.c": "", "pkg/b.cu": "", "pyproject.toml": '[tool.setuptools.package-data]\n"*" = ["*.cu"]\n'},
    ],
)
def test_a_build_that_does_not_reach_cuda_has_none(tmp_path: Path, files: dict[str, str]) -> None:
    text = 'from setuptools import Extension, setup\nsetup(name="demo", ext_modules=[Extension("pkg._c", ["c/a.c"])])\n'
    assert "builder.toolkit" not in made(tmp_path, {"setup.py": text, **files}).draft.entries


@pytest.mark.parametrize("features", ["", 'features = ["cuda"]'])
def test_rust_with_a_feature_for_cuda(tmp_path: Path, features: str) -> None:
    files = {
        "pyproject.toml": '[build-system]\nrequires = ["maturin"]\nbuild-backend = "maturin"\n'
        f'[project]\nname = "demo"\nversion = "1"\n[tool.maturin]\n{features}\n',
        "Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\n[features]\ncuda = []\n',
        "src/a.cu": "",
    }
    assert ("builder.toolkit" in made(tmp_path, files).draft.entries) is bool(features)


def test_an_option_that_no_backend_can_be_told_leaves_cuda_out(tmp_path: Path) -> None:
    cmake = "project(demo)\noption(DEMO_CUDA OFF)\nif(DEMO_CUDA)\nenable_language(CUDA)\nendif()\n"
    text = 'from setuptools import setup\nsetup(name="demo", cmdclass=build())\n'
    found = made(tmp_path, {"setup.py": text, "CMakeLists.txt": cmake, "a.cu": ""})
    assert "builder.toolkit" not in found.draft.entries
    assert any("the option DEMO_CUDA is off" in note for note in found.draft.notes)


@pytest.mark.parametrize(
    ("flags", "torch"),
    [
        ('FLAGS = ["-std=c++17"]', "2.12.1"),
        ('if IS_HIP:\n    FLAGS = ["-std=c++17"]', "2.14.1"),
        ('if CUDA and not IS_ROCM:\n    FLAGS = ["-std=c++17"]', "2.12.1"),
        ('if not IS_ROCM:\n    pass\nelse:\n    FLAGS = ["-std=c++17"]', "2.14.1"),
    ],
)
def test_the_standard_of_setup_py_chooses_a_torch_whose_headers_it_can_read(
    tmp_path: Path, flags: str, torch: str
) -> None:
    assert made(tmp_path, setup_py(flags)).draft.texts("matrix.torch") == [torch]


@pytest.mark.parametrize(
    ("before", "sources"),
    [
        ("", '["csrc/a.cu", "csrc/b.cpp"]'),
        (
            'from os import path\nhere = path.dirname(__file__)\nsource = path.join(here, "csrc", "b.cpp")',
            '["csrc/a.cu"]',
        ),
    ],
)
def test_sources_that_are_missing_are_said(tmp_path: Path, before: str, sources: str) -> None:
    found = made(tmp_path, setup_py(before, f'CUDAExtension("demo._c", {sources})'))
    (warning,) = found.warnings
    assert (warning.rule.id, " names csrc/b.cpp, " in warning.text) == ("missing-sources", True)


def test_an_extension_without_a_file_for_nvcc_needs_no_list(tmp_path: Path) -> None:
    files = {"csrc/b.cpp": "#include <cuda_runtime.h>\n", "demo/__init__.py": ""}
    call = 'CppExtension("demo._c", ["csrc/b.cpp"])'
    found = made(tmp_path, {**files, "setup.py": (_EXTENSION % ("", call, "")).replace(", CUDAExtension", "")})
    assert "builder.toolkit" in found.draft.entries
    assert not found.warnings


def test_cuda_files_that_are_compiled_at_run_time_need_no_toolkit(tmp_path: Path) -> None:
    text = 'from setuptools import setup\nsetup(name="demo", packages=["pkg"], package_data={"pkg": ["*.cu"]})\n'
    found = made(tmp_path, {"setup.py": text, "pkg/kernel.cu": "#include <torch/extension.h>\n"})
    assert not {"builder.toolkit", "builder.framework", "variables.CUDA_ARCHS"} & found.draft.entries.keys()
    assert any(" is for CUDA, and no build file compiles it" in note for note in found.draft.notes)


def test_a_package_that_compiles_at_run_time_is_one_wheel_and_needs_no_packages(tmp_path: Path) -> None:
    text = 'from setuptools import setup\nsetup(name="demo", packages=["pkg"], cmdclass={"sdist": None})\n'
    test = 'def test_run():\n    assert torch.zeros(1, device="cuda")\n'
    found = made(tmp_path, {"setup.py": text, "pkg/a.cu": "#include <boost/any.hpp>\n", "tests/test_a.py": test})
    assert found.draft.title.startswith("Python, and CUDA for run time")
    assert len(found.draft.texts("matrix.python")) == 1
    assert not {"builder.system-packages", "test.command"} & found.draft.entries.keys()


def test_shared_objects_that_are_there_already_are_said(tmp_path: Path) -> None:
    files = {"pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n', "pkg/__init__.py": "", "pkg/liba.so": ""}
    found = made(tmp_path, files)
    assert "libraries that are built already" in found.draft.title
    assert any(note.startswith("pkg/liba.so") for note in found.draft.notes)


_ENGINE = """project(engine LANGUAGES C CXX)
option(ENGINE_LOGS "Logs" OFF)
if (ENGINE_LOGS)
  FetchContent_Declare(logs GIT_REPOSITORY x)
endif()
"""


def test_an_option_of_a_vendored_library_is_said(tmp_path: Path) -> None:
    text = f'{_ENGINE}option(ENGINE_CUDA "GPU" OFF)\nif(ENGINE_CUDA)\nenable_language(CUDA)\nendif()\n'
    found = made(tmp_path, {**_CMAKE, "vendor/engine/CMakeLists.txt": text})
    assert found.draft.title.startswith("C++, built by")
    assert not {"builder.toolkit", "builder.network"} & found.draft.entries.keys()
    assert any(note.startswith("vendor/engine/CMakeLists.txt:6: the option ENGINE_CUDA") for note in found.draft.notes)


def test_what_a_vendored_library_needs(tmp_path: Path) -> None:
    cuda = "enable_language(CUDA)\ninclude(fetch)\ntarget_link_libraries(engine CUDA::cufft)\n"
    fetch = "file(DOWNLOAD https://example.org/a.cmake a.cmake)\n"
    files = {"vendor/engine/CMakeLists.txt": _ENGINE + cuda, "vendor/engine/cmake/fetch.cmake": fetch}
    found = made(tmp_path, {**_CMAKE, **files})
    assert found.draft.texts("builder.components") == ["cufft"]
    assert found.draft.entries["builder.network"].reason.startswith("guess: vendor/engine/cmake/fetch.cmake:1")


@pytest.mark.parametrize(
    ("source", "packages"),
    [
        ("#include <openssl/ssl.h>\n#include <math.h>\n", ["libssl-dev"]),
        ("#ifdef WITH_SSL\n#include <openssl/ssl.h>\n#endif\n", []),
        ("#ifndef A_H\n#define A_H\n#include <openssl/ssl.h>\n#endif\n", ["libssl-dev"]),
        ("#include <boost/any.hpp>\n", []),
    ],
)
def test_only_headers_that_every_build_includes_need_packages(tmp_path: Path, source: str, packages: list[str]) -> None:
    files = {**setup_py(), "csrc/b.cpp": source, "subset/boost/other.hpp": ""}
    assert made(tmp_path, files).draft.texts("builder.system-packages") == packages


def test_classifiers_do_not_cut_the_pythons_of_a_framework(tmp_path: Path) -> None:
    found = made(tmp_path, setup_py("", _CALL, ', classifiers=["Programming Language :: Python :: 3.9"]'))
    assert "3.13" in found.draft.texts("matrix.python")


def test_a_class_of_extensions_of_the_projects_own(tmp_path: Path) -> None:
    text = (
        'from helper import NumpyExtension, setup\nsetup(name="demo", ext_modules=[NumpyExtension("_c", ["a.cpp"])])\n'
    )
    found = made(tmp_path, {"setup.py": text, "a.cpp": "#include <a.hpp>\n", "a.hpp": "#include <cuda.h>\n"})
    assert found.draft.entries["builder.toolkit"].reason == "a.hpp:1"


def test_an_option_for_cuda_that_is_off_is_switched_on(tmp_path: Path) -> None:
    cmake = """cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES CXX)
option(DEMO_USE_CUDA "Compile for GPUs" OFF)
if(DEMO_USE_CUDA)
  enable_language(CUDA)
endif()
"""
    found = made(tmp_path, {**_CMAKE, "CMakeLists.txt": cmake})
    entry = found.draft.entries["wheel.config-settings"]
    assert entry.value == {"cmake.define.DEMO_USE_CUDA": "ON"}
    assert entry.reason.startswith("CMakeLists.txt:3")


def test_an_option_for_cuda_of_the_tests_says_nothing_of_the_wheel(tmp_path: Path) -> None:
    cmake = """project(demo LANGUAGES CXX)
option(DEMO_TEST "Compile the tests" ON)
option(DEMO_TEST_CUDA "Compile the tests with nvcc" OFF)
if(DEMO_TEST)
  add_subdirectory(tests)
endif()
"""
    tests = "if(DEMO_TEST_CUDA)\n  enable_language(CUDA)\nendif()\n"
    files = {"CMakeLists.txt": cmake, "tests/CMakeLists.txt": tests, "src/__init__.py": ""}
    found = made(tmp_path, {**_CMAKE, **files})
    assert "builder.toolkit" not in found.draft.entries
    assert "wheel.config-settings" not in found.draft.entries
    # The folder of the sources is no package, though it has an __init__.py.
    assert "test.imports" not in found.draft.entries


def test_a_module_is_no_package_because_its_sources_are_in_a_folder_of_its_name(tmp_path: Path) -> None:
    text = (
        'from setuptools import Extension, setup\nsetup(name="demo", ext_modules=[Extension("demo", ["demo/a.pyx"])])\n'
    )
    assert made(tmp_path, {"setup.py": text, "demo/a.pyx": ""}).draft.texts("test.imports") == ["demo"]


def test_a_list_that_cibuildwheel_has_is_the_only_one(tmp_path: Path) -> None:
    settings = '[tool.cibuildwheel]\nconfig-settings = { "cmake.define.CMAKE_CUDA_ARCHITECTURES" = "all" }\n'
    found = made(
        tmp_path, {"pyproject.toml": PYPROJECT + settings, "CMakeLists.txt": "project(demo LANGUAGES CXX CUDA)\n"}
    )
    assert found.draft.entries["wheel.config-settings"].value == {"cmake.define.CMAKE_CUDA_ARCHITECTURES": "all"}
    assert "builder.environment" not in found.draft.entries


def test_another_name_of_cudaextension_is_followed(tmp_path: Path) -> None:
    found = made(tmp_path, setup_py("extension = CUDAExtension", 'extension("demo._c", ["csrc/a.cu"])'))
    assert found.draft.entries["builder.toolkit"].reason == "setup.py:5"
    assert "Python only" not in found.draft.title


@pytest.mark.parametrize(("call", "is_refused"), [("x.type()", True), ("x->type()", True), ("x.scalar_type()", False)])
def test_a_source_that_no_torch_for_cuda_13_compiles_is_named(tmp_path: Path, call: str, is_refused: bool) -> None:
    source = f'#include <torch/all.h>\n{"//" * 9000}\nAT_DISPATCH_FLOATING_TYPES(\n  {call}, "a", [] {{}});\n'
    found = made(tmp_path, {**setup_py(), "csrc/a.cu": source})
    assert any(note.startswith("csrc/a.cu:3 gives AT_DISPATCH") for note in found.draft.notes) == is_refused


@pytest.mark.parametrize(("header", "memory"), [("cute/tensor.hpp", "8 GB"), ("cuda_fp16.h", "4 GB")])
def test_templates_of_cutlass_need_more_memory(tmp_path: Path, header: str, memory: str) -> None:
    found = made(tmp_path, {**setup_py(), "csrc/a.cu": f"#include <{header}>\n"})
    assert found.draft.entries["builder.job-memory"].value == memory


def test_libraries_of_cuda_need_a_toolkit(tmp_path: Path) -> None:
    text = (
        "from setuptools import Extension, setup\n"
        'setup(name="demo", ext_modules=[Extension("demo._c", ["csrc/a.c"], libraries=["cuda", "curand"])])\n'
    )
    found = made(tmp_path, {"setup.py": text, "csrc/a.c": "#include <cuda.h>\n#include <curand.h>\n"})
    assert found.draft.entries["builder.toolkit"].reason == "setup.py:2"
    assert found.draft.texts("builder.components") == ["curand"]
    assert found.draft.texts("wheel.requires") == ["cuda-toolkit[cudart,curand]==${CUDA_MAJOR}.*"]
    assert found.draft.entries["builder.environment"].value == {"LDFLAGS": "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib"}
    # The flags of the project are not replaced, so it must add the rpath itself.
    files = {"setup.py": text, "csrc/a.c": "#include <cuda.h>\n#include <curand.h>\n"}
    found = made(tmp_path, {**files, "pyproject.toml": '[tool.cibuildwheel]\nenvironment = { LDFLAGS = "-s" }\n'})
    assert found.draft.entries["builder.environment"].value == {"LDFLAGS": "-s"}
    assert any("$ORIGIN/../nvidia/cu13/lib" in note for note in found.draft.notes)


def test_libraries_of_cuda_that_nothing_loads_are_not_excluded(tmp_path: Path) -> None:
    text = 'from setuptools import Extension, setup\nsetup(name="demo", ext_modules=[Extension("demo._c", ["a.c"])])\n'
    found = made(
        tmp_path,
        {"setup.py": text, "a.c": "#include <cuda.h>\n#include <cuda_profiler_api.h>\n#include <nvJitLink.h>\n"},
    )
    excluded = found.draft.entries["wheel.repair"].value["exclude"]
    assert [name for name in excluded if "cuda" not in name] == ["libnvJitLink.so.*"]


@pytest.mark.parametrize(("target", "is_named"), [("CUDA::cufft_static", True), ("CUDA::cudart_static", False)])
def test_a_static_library_of_cuda_is_named(tmp_path: Path, target: str, is_named: bool) -> None:
    cmake = f"project(demo LANGUAGES CXX CUDA)\ntarget_link_libraries(demo PRIVATE CUDA::cudart_static {target})\n"
    notes = made(tmp_path, {**_CMAKE, "CMakeLists.txt": cmake}).draft.notes
    assert any(note.startswith(f"CMakeLists.txt:2 links {target}") for note in notes) == is_named


@pytest.mark.parametrize("own", ["", 'set_target_properties(demo PROPERTIES INSTALL_RPATH "$ORIGIN")\n'])
def test_a_build_with_cmake_gets_an_rpath_to_the_libraries(tmp_path: Path, own: str) -> None:
    cmake = "project(demo LANGUAGES CXX CUDA)\nfind_package(CUDAToolkit)\ntarget_link_libraries(demo PRIVATE CUDA::curand)\n"
    found = made(tmp_path, {**_CMAKE, "CMakeLists.txt": cmake + own})
    assert "LDFLAGS" not in found.text
    assert found.draft.entries["wheel.config-settings"].value == {
        "cmake.define.CMAKE_INSTALL_RPATH": "$ORIGIN/../nvidia/cu13/lib"
    }
    assert any("CMakeLists.txt may set another" in note for note in found.draft.notes) == bool(own)


@pytest.mark.parametrize("own", ["", 'set(CMAKE_INSTALL_RPATH "$ORIGIN/../nvidia/cu13/lib")\n'])
def test_a_project_that_requires_nvidias_wheels_itself_gets_an_rpath_unless_it_has_one(
    tmp_path: Path, own: str
) -> None:
    pyproject = PYPROJECT + 'dependencies = ["nvidia-cuda-runtime==13.*"]\n'
    cmake = f"{own}set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)\nproject(demo LANGUAGES CXX CUDA)\n"
    found = made(tmp_path, {"pyproject.toml": pyproject, "CMakeLists.txt": cmake})
    assert ("CMAKE_INSTALL_RPATH" in found.text) == (not own)
    assert not any("rpath" in note for note in found.draft.notes)


def test_headers_of_cuda_in_a_cpp_extension_of_torch(tmp_path: Path) -> None:
    source = "#include <cuda_runtime_api.h>\n#include <cublas_v2.h>\n#include <cudnn.h>\n"
    text = setup_py("", 'CppExtension("demo._c", ["csrc/b.cpp"])')["setup.py"].replace(", CUDAExtension", "")
    found = made(tmp_path, {"setup.py": text, "csrc/b.cpp": source})
    assert found.draft.entries["builder.toolkit"].reason == "csrc/b.cpp:1"
    assert found.draft.texts("builder.components") == ["cudnn"]
    assert "TORCH_CUDA_ARCH_LIST" not in found.text


@pytest.mark.parametrize("where", ["build-system", "install_requires"])
def test_a_pin_of_torch_is_taken(tmp_path: Path, where: str) -> None:
    files = setup_py("", _CALL, ', install_requires=["torch==2.14.0"]' if where == "install_requires" else "")
    if where == "build-system":
        files["pyproject.toml"] = '[build-system]\nrequires = ["setuptools", "torch==2.14.0"]\n'
    entry = made(tmp_path, files).draft.entries["matrix.torch"]
    assert (entry.value, entry.reason) == (["2.14.0"], "the project requires exactly this one")


def test_a_requirement_that_no_known_torch_fits_is_said(tmp_path: Path) -> None:
    entry = made(tmp_path, setup_py("", _CALL, ', install_requires=["torch>=2.90"]')).draft.entries["matrix.torch"]
    assert entry.reason.startswith("WRONG: the project requires torch>=2.90, and Bakery knows no such release")


def test_the_stable_abi_of_torch(tmp_path: Path) -> None:
    flags = 'FLAGS = ["-DTORCH_TARGET_VERSION=0x020a000000000000"]'
    found = made(tmp_path, setup_py(flags, _CALL, ', options={"bdist_wheel": {"py_limited_api": "cp310"}}'))
    entry = found.draft.entries["wheel.torch-abi"]
    assert (entry.value, entry.reason) == ("2.10", "setup.py:5")


@pytest.mark.parametrize(
    ("header", "promised"), [("torch/csrc/stable/library.h", True), ("torch/all.h", False), ("ATen/ATen.h", False)]
)
def test_the_stable_abi_of_torch_in_cmake(tmp_path: Path, header: str, promised: bool) -> None:
    text = (
        "project(demo LANGUAGES CXX CUDA)\nfind_package(Torch REQUIRED)\n"
        "target_compile_definitions(_C PRIVATE TORCH_TARGET_VERSION=0x020B000000000000ULL)\n"
    )
    found = made(tmp_path, {**_CMAKE, "CMakeLists.txt": text, "csrc/a.cpp": f"#include <{header}>\n"})
    assert ("wheel.torch-abi" in found.draft.entries) is promised
    assert any('wheel.torch-abi = "2.11"' in note for note in found.draft.notes) is not promised


def test_what_the_module_imports_and_nothing_requires(tmp_path: Path) -> None:
    code = "import torch\nfrom torch_scatter import scatter\nimport torch_spline\n"
    files = {
        **setup_py("", _CALL, ', install_requires=["torch-spline"]'),
        "pkg/__init__.py": "from . import (\n    more,  # (not other)\n    ops,\n)\n",
        "pkg/ops.py": code,
    }
    files["pkg/other.py"] = "import torch_cluster\n"
    files["setup.py"] = files["setup.py"].replace('packages=["demo"]', 'packages=["pkg"]')
    found = made(tmp_path, files)
    assert [note[:40] for note in found.draft.notes] == ["pkg/ops.py:2 imports torch_scatter, whic"]
    # An import would fail in every environment.
    assert "test.imports" not in found.draft.entries
    files["pkg/__init__.py"] = ""
    assert made(tmp_path, files).draft.texts("test.imports") == ["pkg"]


def test_a_wheel_for_one_torch_and_cuda_says_so_in_its_name(tmp_path: Path) -> None:
    entry = made(tmp_path, setup_py()).draft.entries["wheel.naming"]
    assert (entry.value, entry.is_optional) == ({"local": "cu${CUDA_TAG}torch${TORCH_MINOR}"}, True)


def test_the_module_that_an_sdist_lists(tmp_path: Path) -> None:
    files = {
        "setup.py": 'from setuptools import setup\nsetup(name="other-name", ext_modules=make())\n',
        "build_tools/__init__.py": "",
        "other_name.egg-info/top_level.txt": "tests\nother_name\n",
    }
    found = made(tmp_path, files)
    assert found.draft.texts("test.imports") == ["other_name"]


def test_printing_does_not_ask_for_a_folder_without_a_recipe(tmp_path: Path) -> None:
    root = write_files(tmp_path, {**setup_py(), "bakery.toml": "kept"})
    target = find_target(scan(root), pyproject=False, is_printed=True)
    assert target.file == root / "bakery.toml"
    with pytest.raises(OutputError, match="exists already"):
        find_target(scan(root), pyproject=False)


def test_a_variable_with_another_value_is_told(tmp_path: Path) -> None:
    files = {**setup_py(), "pyproject.toml": '[tool.cibuildwheel]\nenvironment = { FLAGS = "1" }\n'}
    draft = made(tmp_path, files).draft
    draft.extend("builder.environment", {"FLAGS": "1", "MORE": "2"}, "x")
    assert not [item for item in draft.rest if item.what.startswith("FLAGS")]
    draft.extend("builder.environment", {"FLAGS": "2"}, "setup.py:1")
    assert ("FLAGS (setup.py:1)", "builder.environment has '1'") in draft.rest


@pytest.mark.parametrize(("named", "packages"), [("", []), ("enable_language(Fortran)\n", ["gfortran"])])
def test_fortran_that_cmake_does_not_name_is_not_compiled(tmp_path: Path, named: str, packages: list[str]) -> None:
    cmake = f"project(demo LANGUAGES CXX)\noption(FORTRAN OFF)\nif(FORTRAN)\nenable_language(Fortran)\nendif()\n{named}"
    files = {**_CMAKE, "CMakeLists.txt": cmake, "include/demo.f90": "", "src/a.cpp": ""}
    assert made(tmp_path, files).draft.texts("builder.system-packages") == packages
