"""Toolkits: what the providers promise, and the programs that run inside images."""

from __future__ import annotations

import ast
import ctypes
import json
import pkgutil
import subprocess
from pathlib import Path

import pytest
from file_trees import write_files

from bakery.core.errors import PlanError
from bakery.plan.dockerfile import Command, Env, Run, Script
from bakery.plan.values import Ref
from bakery.resolve.select_toolkits import check_components, check_release
from bakery.toolchains import components, programs, toolkits
from bakery.toolchains.facts import cuda_releases
from bakery.toolchains.programs import cuda_tree, fatbinary, glibc_headers, libcuda_stub
from bakery.toolchains.toolkits import base, clang, debian, none, wheels

PROVIDERS = [clang.PROVIDER, debian.PROVIDER, none.PROVIDER, wheels.PROVIDER]
CUDA = [clang.PROVIDER, debian.PROVIDER, wheels.PROVIDER]
PYTHON = ("cuda_tree.py", "fatbinary.py", "glibc_headers.py", "libcuda_stub.py")
SHELL = (
    *("clang-for-cuda", "clang-tools", "debian-nvcc", "find-python", "host-compiler", "install-packages", "net"),
    *("nvcc-clang", "other-suite"),
)

HEADER = """
#define __CUDA_API_PTDS(api) api
#define cuDeviceTotalMem                    cuDeviceTotalMem_v2
#define cuMemcpyHtoD                        __CUDA_API_PTDS(cuMemcpyHtoD_v2)
  #  define cuStreamQuery __CUDA_API_PTSZ(cuStreamQuery)
#define cuDeviceType CUdeviceType_enum
#define cuNeverDeclared cuNeverDeclared_v2
// CUresult CUDAAPI cuInALineComment(int a);
/* CUresult CUDAAPI
   cuInAComment(int a); */
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice dev);
__CUDA_DEPRECATED CUresult CUDAAPI cuCtxDetach(CUcontext ctx);
CUresult CUDAAPI
cuTensorMapEncodeTiled(
    CUtensorMap *tensorMap, void (CUDA_CB *callback)(CUstream hStream));
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t count);
CUresult CUDAAPI cuStreamQuery(CUstream hStream);
typedef CUresult (CUDAAPI *PFN_cuPointer)(unsigned int Flags);
"""


def test_every_module_of_the_folder_is_known_here():
    names = {info.name for info in pkgutil.iter_modules(toolkits.__path__)} - {"base"}
    # What an image or NVIDIA's packages bring has tests of its own (test_own_cuda).
    assert names == {provider.name for provider in PROVIDERS} | {"image", "repository"}


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_there_is_one_stage_for_each_major(provider: base.Toolkit):
    stages = provider.stage()
    assert [stage.name for stage in stages[-len(provider.majors) :]] == [f"cuda-{major}" for major in provider.majors]
    assert stages[0].base == ("base",)
    assert provider.index_name == "cuda-toolkit"


def test_each_major_has_one_preferred_toolkit():
    chosen = {major: provider.name for provider in PROVIDERS for major in provider.preferred}
    assert chosen == {11: "debian", 12: "clang", 13: "wheels"}
    assert sum(len(provider.preferred) for provider in PROVIDERS) == 3
    assert all({*provider.preferred, *provider.instead} <= set(provider.majors) for provider in PROVIDERS)


def test_each_major_has_one_toolkit_where_only_nvcc_will_do():
    chosen = {major: item.name for item in PROVIDERS for major in item.of_choice(nvcc=True).majors}
    assert chosen == {11: "debian", 12: "debian", 13: "wheels"}
    assert sum(len(item.of_choice(nvcc=True).majors) for item in PROVIDERS) == 3


def test_a_toolkit_for_some_majors_has_no_stages_of_others():
    names = [stage.name for stage in debian.PROVIDER.of_choice(nvcc=False).stage()]
    assert names == ["cuda-debian-requirements", "cuda-debian", "cuda-11-requirements", "cuda-11"]


def test_releases_of_a_fixed_choice_are_checked_before_anything_is_built():
    check_release(debian.PROVIDER, "12.4.1")
    check_release(clang.PROVIDER, "12.9.1")
    with pytest.raises(PlanError, match=r"toolkit 'debian' has no CUDA 12\.8\.0, only 11\.8\.0 and 12\.4\.1") as caught:
        check_release(debian.PROVIDER, "12.8.0")
    assert "set CUDA_VERSION to 12.4.1;" in str(caught.value.hint)


@pytest.mark.parametrize("provider", [debian.PROVIDER, wheels.PROVIDER], ids=lambda provider: provider.name)
def test_nvcc_is_given_a_host_compiler_by_the_facts(provider: base.Toolkit):
    commands = [
        command
        for stage in provider.stage()
        for step in stage.steps
        if isinstance(step, Run)
        for command in step.commands
        if isinstance(command, Command) and ("host-compiler",) in command.words
    ]
    (words,) = {command.words for command in commands}
    assert ("11.8:6:11",) in words
    assert ("13.5:6:16",) in words
    assert len([word for word in words if str(word[0]).count(":") == 2]) == len(cuda_releases())
    assert words[-4:] == (("bullseye=9,10",), ("bookworm=11,12",), ("trixie=12,13,14",), ("forky=12,13,14,15,16",))


@pytest.mark.parametrize("provider", [debian.PROVIDER, wheels.PROVIDER], ids=lambda provider: provider.name)
def test_the_host_compiler_has_fixed_names(provider: base.Toolkit):
    (env,) = [step for step in provider.stage()[-1].steps if isinstance(step, Env)]
    values = dict(env.values)
    assert values["CUDAHOSTCXX"] == values["NVCC_CCBIN"] == ("/usr/local/cuda/host/g++",)
    # nvcc of CUDA 11.8 and 12.4 reads no NVCC_CCBIN.
    assert values["NVCC_PREPEND_FLAGS"] == ("-ccbin /usr/local/cuda/host/g++",)
    assert values["PATH"][0] == "/usr/local/cuda/host:"


# --- components ----------------------------------------------------------------------------------------


def test_components_of_the_release_are_tied_to_it_with_what_they_need():
    (requirement,) = components.requirements(["cusolver", "cublas"], 12)
    assert requirement == ("cuda-toolkit[cusolver,cublas,cusparse,nvjitlink]==", Ref("CUDA_VERSION"))
    (old,) = components.requirements(["cusolver"], 11)
    assert old[0] == "cuda-toolkit[cusolver,cublas,cusparse]=="


def test_components_of_their_own_are_named_by_major_and_may_have_a_version():
    assert components.requirements(["cudnn==9.*", "nccl"], 13) == (
        ("cuda-toolkit[cublas]==", Ref("CUDA_VERSION")),
        ("nvidia-cudnn-cu13==9.*",),
        ("nvidia-nccl-cu13==2.28.9",),
    )


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        ("12.1.0", ["nvidia-cudnn-cu12==9.1.0.70", "nvidia-nccl-cu12==2.20.5"]),
        ("12.4.1", ["nvidia-cudnn-cu12==9.1.0.70", "nvidia-nccl-cu12==2.21.5"]),
        ("12.6.3", ["nvidia-cudnn-cu12==9.5.1.17", "nvidia-nccl-cu12==2.26.2"]),
        ("12.8.0", ["nvidia-cudnn-cu12==9.10.2.21", "nvidia-nccl-cu12==2.27.5"]),
        ("12.10.0", ["nvidia-cudnn-cu12==9.10.2.21", "nvidia-nccl-cu12==2.27.5"]),
    ],
)
def test_components_of_their_own_are_tied_to_the_release(tmp_path: Path, release: str, versions: list[str]):
    file = tmp_path / "tied.txt"
    (script,) = components.tied(["cublas", "cudnn", "nccl"], 12, str(file))
    subprocess.run(["sh", "-ec", script.text], env={"CUDA_VERSION": release}, check=True)
    assert file.read_text().splitlines() == versions


def test_a_version_that_a_recipe_says_comes_first():
    assert components.tied(["cudnn==9.10.*"], 12, "file") == ()
    assert ("nvidia-cudnn-cu12==9.10.*",) in components.requirements(["cudnn==9.10.*"], 12)
    assert components.tied(["cudnn"], 13, "file") == ()


def test_every_component_of_its_own_has_a_version_for_all_releases_of_its_majors():
    for row in (row for row in components.facts.components() if row.package):
        for major in row.majors:
            first = next(item.version for item in cuda_releases() if item.version.startswith(f"{major}."))
            assert next(iter(row.versions)) == first, row


def test_a_component_that_a_major_lacks_is_told_in_the_plan_and_in_the_image():
    said = "there is no component nvjitlink for CUDA 11, only for 12, 13"
    assert components.lacking(["cublas", "nvjitlink"], 11) == said
    with pytest.raises(PlanError, match=said):
        check_components(["nvjitlink"], "debian", 11, "11.8.0")
    with pytest.raises(PlanError, match="toolkit 'image' installs no components"):
        check_components(["cublas"], "image", 0, "13.0.3")
    check_components(["cufile"], "clang", 12, "12.6.3")
    with pytest.raises(PlanError, match=r"there is no component cufile for CUDA 12\.4\.1, only from 12\.6\.3 on"):
        check_components(["cufile"], "clang", 12, "12.4.1")
    *_, last = debian.PROVIDER.of_choice(nvcc=False).stage({"components": ["nvjitlink"]})
    (run,) = [step for step in last.steps if isinstance(step, Run)]
    assert run.commands == (Script(f"echo 'bakery: {said}' >&2; exit 1"),)


def test_components_are_a_layer_above_the_one_that_all_recipes_share():
    plain, asked = wheels.PROVIDER.stage()[-1], wheels.PROVIDER.stage({"components": ["cublas"]})[-1]
    assert asked.steps[:-1] == plain.steps
    assert isinstance(asked.steps[-1], Run)


def test_none_adds_nothing():
    assert none.PROVIDER.stage() == ()
    assert none.PROVIDER.index_name == ""


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_the_release_comes_from_the_argument_alone(provider: base.Toolkit):
    runs = [step for stage in provider.stage() for step in stage.steps if isinstance(step, Run)]
    words = [
        word for run in runs for command in run.commands if not isinstance(command, Script) for word in command.words
    ]
    (requirement,) = [word for word in words if Ref("CUDA_VERSION") in word and len(word) > 1]
    assert str(requirement[0]).startswith("cuda-toolkit[nvcc,cudart,")
    assert requirement[1:] == (Ref("CUDA_VERSION"),)


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_only_what_asks_the_index_has_its_password(provider: base.Toolkit):
    for stage in provider.stage():
        for step in stage.steps:
            if isinstance(step, Run):
                asks = any("/programs/packages" in str(command) for command in step.commands)
                secrets = {mount.id for mount in step.mounts if mount.type == "secret"}
                assert secrets == ({"ca-bundle", "pip-conf"} if asks else {"ca-bundle"})


@pytest.mark.parametrize(
    ("provider", "compiler"), [(clang.PROVIDER, "clang++"), (debian.PROVIDER, "nvcc"), (wheels.PROVIDER, "nvcc")]
)
def test_the_environment_names_the_tree(provider: base.Toolkit, compiler: str):
    (env,) = [step for step in provider.stage()[-1].steps if isinstance(step, Env)]
    values = dict(env.values)
    assert values["CUDACXX"] == (f"/usr/local/cuda/bin/{compiler}",)
    assert {values[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")} == {("/usr/local/cuda",)}
    assert values["PATH"][-1] == Ref("PATH")


@pytest.mark.parametrize("name", PYTHON)
def test_python_programs_run_on_3_8(name: str):
    tree = ast.parse(programs.text(name), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not any(module.startswith("bakery") for module in imported)


@pytest.mark.parametrize("name", SHELL)
def test_shell_programs_are_posix(name: str):
    text = programs.text(name)
    assert text.startswith("#!/bin/sh\n")
    assert "[[" not in text.replace("[[:space:]]", "")


def test_no_host_is_named_in_any_program():
    texts = [programs.text(name) for name in (*PYTHON, *SHELL, "clang-cuda.cmake")]
    assert not any("://" in text for text in texts)


# --- the driver's stub -------------------------------------------------------------------------------


def test_symbols_are_those_after_the_preprocessor():
    assert libcuda_stub.symbols(HEADER) == [
        "cuCtxDetach", "cuDeviceTotalMem", "cuDeviceTotalMem_v2", "cuInit", "cuMemcpyHtoD", "cuMemcpyHtoD_v2",
        "cuMemcpyHtoD_v2_ptds", "cuStreamQuery", "cuStreamQuery_ptsz", "cuTensorMapEncodeTiled",
    ]  # fmt: skip


def test_an_empty_header_is_refused(tmp_path: Path):
    header = tmp_path / "cuda.h"
    header.write_text("/* nothing */")
    with pytest.raises(SystemExit, match="no function declarations"):
        libcuda_stub.build(tmp_path, tmp_path / "stubs", "cc")
    assert not (tmp_path / "stubs").exists()


def test_the_stub_has_the_functions_of_all_headers_and_the_profiler(tmp_path: Path):
    (tmp_path / "cuda.h").write_text(HEADER)
    (tmp_path / "cudaGL.h").write_text("CUresult CUDAAPI cuGLInit(void);")
    count = libcuda_stub.build(tmp_path, tmp_path / "stubs", "cc")
    library = ctypes.CDLL(str(tmp_path / "stubs/libcuda.so.1"))
    assert all(hasattr(library, name) for name in ("cuInit", "cuGLInit", "cuProfilerStart", "cuProfilerStop"))
    assert count == len(libcuda_stub.symbols(HEADER)) + 1 + len(libcuda_stub.ALWAYS)


def test_the_source_defines_each_name():
    assert libcuda_stub.source(["cuInit", "cuFree"]) == "void cuInit(void) {}\nvoid cuFree(void) {}\n"


# --- fatbinary ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--image=profile=sm_80,file=/tmp/a.cubin", "--image3=kind=elf,sm=80,file=/tmp/a.cubin"),
        ("-image=profile=sm_90a,file=a.cubin", "--image3=kind=elf,sm=90a,file=a.cubin"),
        ("--image=profile=compute_90,file=/tmp/a,b=c.s", "--image3=kind=ptx,sm=90,file=/tmp/a,b=c.s"),
        ("--image3=kind=elf,sm=80,file=a", "--image3=kind=elf,sm=80,file=a"),
        ("-64", "-64"),
    ],
)
def test_images_are_renamed(given: str, expected: str):
    assert fatbinary.rewrite([given]) == [expected]


def test_packing_uses_the_compression_that_all_drivers_know():
    assert fatbinary.rewrite(["-64", "--create", "a.fatbin", "--image=profile=sm_80,file=a"]) == [
        "--compress-mode=speed", "-64", "--create", "a.fatbin", "--image3=kind=elf,sm=80,file=a",
    ]  # fmt: skip
    assert fatbinary.rewrite(["--version"]) == ["--version"]


# --- the tree ----------------------------------------------------------------------------------------


def _unpacked(folder: Path, *names: str) -> Path:
    return write_files(folder, {name: name for name in names})


def test_cuda_12_has_a_folder_for_each_component(tmp_path: Path):
    unpacked = _unpacked(
        tmp_path / "wheels",
        "nvidia/__init__.py",
        "nvidia/cuda_nvcc/bin/ptxas",
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        "nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so",
        "nvidia/cuda_runtime/__init__.py",
        "nvidia/cuda_runtime/include/cuda.h",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        "nvidia/curand/include/curand_kernel.h",
        "nvidia/curand/lib/libcurand.so.10",
        "nvidia_cuda_nvcc_cu12-12.8.61.dist-info/METADATA",
    )
    tree = tmp_path / "cuda"
    cuda_tree.main([str(unpacked), str(tree), "12.8.0", "--without", "libcurand*"])
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir()) == [
        "bin/ptxas", "include/cuda.h", "include/curand_kernel.h", "lib/libcudart.so", "lib/libcudart.so.12",
        "nvvm/libdevice/libdevice.10.bc", "version.json",
    ]  # fmt: skip
    assert (tree / "lib64").readlink() == Path("lib")
    assert (tree / "lib/libcudart.so").readlink() == Path("libcudart.so.12")
    assert json.loads((tree / "version.json").read_text()) == {
        "cuda": {"name": "CUDA SDK", "version": "12.8.0"},
        "cuda_nvcc": {"name": "cuda_nvcc", "version": "12.8.61"},
    }


def test_cuda_13_has_one_folder(tmp_path: Path):
    unpacked = _unpacked(
        tmp_path / "wheels",
        "nvidia/cu13/bin/nvcc",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libcudart_static.a",
        "nvidia/cu13/lib/libnvvm.so.4",
        "nvidia_nvvm-13.0.88.dist-info/METADATA",
    )
    tree = _unpacked(tmp_path / "cuda", "bin/fatbinary.py")
    cuda_tree.main([str(unpacked), str(tree), "13.0.3"])
    assert sorted(path.name for path in (tree / "bin").iterdir()) == ["fatbinary.py", "nvcc"]
    assert sorted(path.name for path in (tree / "lib").iterdir()) == [
        "libcudart.so",
        "libcudart.so.13",
        "libcudart_static.a",
    ]
    assert json.loads((tree / "version.json").read_text())["nvvm"]["version"] == "13.0.88"


def test_components_join_a_tree_that_is_there(tmp_path: Path):
    tree = _unpacked(tmp_path / "cuda", "bin/nvcc", "lib/libcudart.so.13")
    (tree / "version.json").write_text('{"cuda_nvcc": {"name": "cuda_nvcc", "version": "13.0.88"}}')
    unpacked = _unpacked(
        tmp_path / "wheels",
        "nvidia/cu13/lib/libcusolverMg.so.12",
        "nvidia/cu13/lib/libcurand.so.10",
        "nvidia/cudnn/include/cudnn.h",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia_cudnn_cu13-9.28.0.42.dist-info/METADATA",
    )
    cuda_tree.main([str(unpacked), str(tree), "13.0.3"])
    assert (tree / "lib/libcusolverMg.so").readlink() == Path("libcusolverMg.so.12")
    assert (tree / "lib/libcudnn.so").readlink() == Path("libcudnn.so.9")
    assert (tree / "lib/libcurand.so").exists()
    assert (tree / "include/cudnn.h").exists()
    known = json.loads((tree / "version.json").read_text())
    assert {name: part["version"] for name, part in known.items()} == {
        "cuda_nvcc": "13.0.88",
        "cuda": "13.0.3",
        "cudnn": "9.28.0.42",
    }


# --- headers ---------------------------------------------------------------------------------------------


def test_declarations_are_given_what_glibc_says_of_them():
    old = (
        "extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 sinpi(double x);\n"
        "extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ float                  rsqrtf(float x);\n"
        "extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ void                   sincospi(double x, double *s);\n"
        "__MATH_FUNCTIONS_DECL__ float sinpi(const float a);\n"
    )
    new = glibc_headers.patched(old)
    assert "sinpi(double x) BAKERY_SINCE_GLIBC_2_41;" in new
    assert "rsqrtf(float x) BAKERY_SINCE_GLIBC_2_42;" in new
    assert "sincospi(double x, double *s);" in new
    assert "float sinpi(const float a);" in new
    assert glibc_headers.patched(new) == new


def test_headers_that_know_are_left_alone():
    text = "extern __device_builtin__ double rsqrt(double x) _NV_RSQRT_SPECIFIER;\n"
    assert glibc_headers.patched(text) == text


def test_wheels_without_a_part_of_nvcc_are_refused(tmp_path: Path):
    unpacked = _unpacked(tmp_path / "wheels", "nvidia/cu13/bin/cudafe++", "nvidia/cu13/lib/libcudart.so.13")
    message = "the wheels of CUDA 13.0.0 lack nvvm/bin/cicc, bin/crt/link.stub: take another release"
    with pytest.raises(SystemExit, match=message):
        cuda_tree.main([str(unpacked), str(tmp_path / "cuda"), "13.0.0"])
