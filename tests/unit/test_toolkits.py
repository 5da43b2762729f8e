"""Toolkits: what the providers promise, and the programs that run inside images."""

from __future__ import annotations

import ast
import json
import pkgutil
from pathlib import Path

import pytest

from bakery.plan import Env, File, Ref, Run, Script, Stage
from bakery.providers import scripts, toolkits
from bakery.providers.scripts import cuda_tree, fatbinary, libcuda_stub
from bakery.providers.toolkits import base, clang, none, wheels

PROVIDERS = [clang.PROVIDER, none.PROVIDER, wheels.PROVIDER]
CUDA = [clang.PROVIDER, wheels.PROVIDER]
PYTHON = ("cuda_tree.py", "fatbinary.py", "libcuda_stub.py")
SHELL = ("clang-for-cuda", "clang-tools", "find-python", "install-packages", "net", "nvcc-clang", "pip-target")

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


def _programs(stage: Stage) -> dict[str, File]:
    return {step.path: step for step in stage.steps if isinstance(step, File)}


def test_every_module_of_the_folder_is_known_here():
    names = {info.name for info in pkgutil.iter_modules(toolkits.__path__)} - {"base"}
    assert names == {provider.name for provider in PROVIDERS}


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_the_last_stage_is_named_after_the_major(provider: base.Toolkit):
    (major,) = provider.majors
    stages = provider.stage()
    assert stages[-1].name == f"cuda-{major}"
    assert stages[0].base == ("base",)
    assert provider.index_name == "cuda-toolkit"


def test_each_major_has_one_toolkit():
    majors = [major for provider in PROVIDERS for major in provider.majors]
    assert sorted(majors) == [12, 13]


def test_none_adds_nothing():
    assert none.PROVIDER.stage() == ()
    assert none.PROVIDER.index_name == ""


def test_shared_stages_are_equal():
    assert clang.PROVIDER.stage()[0] == wheels.PROVIDER.stage()[0]
    assert len(dict.fromkeys((*clang.PROVIDER.stage(), *wheels.PROVIDER.stage()))) == 3


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_the_release_comes_from_the_argument_alone(provider: base.Toolkit):
    runs = [step for stage in provider.stage() for step in stage.steps if isinstance(step, Run)]
    words = [
        word for run in runs for command in run.commands if not isinstance(command, Script) for word in command.words
    ]
    (requirement,) = [word for word in words if Ref("CUDA_VERSION") in word]
    assert str(requirement[0]).startswith("cuda-toolkit[nvcc,cudart,")
    assert requirement[1:] == (Ref("CUDA_VERSION"),)


@pytest.mark.parametrize("provider", CUDA, ids=lambda provider: provider.name)
def test_what_uses_the_network_has_the_secrets(provider: base.Toolkit):
    for stage in provider.stage():
        for step in stage.steps:
            if isinstance(step, Run):
                assert {mount.id for mount in step.mounts} >= {"ca-bundle", "pip-conf"}


@pytest.mark.parametrize(("provider", "compiler"), [(clang.PROVIDER, "clang++"), (wheels.PROVIDER, "nvcc")])
def test_the_environment_names_the_tree(provider: base.Toolkit, compiler: str):
    (env,) = [step for step in provider.stage()[-1].steps if isinstance(step, Env)]
    values = dict(env.values)
    assert values["CUDACXX"] == (f"/usr/local/cuda/bin/{compiler}",)
    assert {values[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")} == {("/usr/local/cuda",)}
    assert values["PATH"][-1] == Ref("PATH")


@pytest.mark.parametrize("name", PYTHON)
def test_python_programs_run_on_3_8(name: str):
    tree = ast.parse(scripts.text(name), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not any(module.startswith("bakery") for module in imported)


@pytest.mark.parametrize("name", SHELL)
def test_shell_programs_are_posix(name: str):
    text = scripts.text(name)
    assert text.startswith("#!/bin/sh\n")
    assert "[[" not in text.replace("[[:space:]]", "")


def test_no_host_is_named_in_any_program():
    texts = [scripts.text(name) for name in (*PYTHON, *SHELL, "clang-cuda.cmake")]
    assert not any("://" in text for text in texts)


def test_programs_are_executable_in_the_image():
    shared = _programs(wheels.PROVIDER.stage()[0])
    assert set(shared) == {"/usr/local/bin/pip-target", "/usr/local/bin/cuda_tree.py", "/usr/local/bin/libcuda_stub.py"}
    assert {file.mode for file in shared.values()} == {"0755"}


# --- the driver's stub -------------------------------------------------------------------------------


def test_symbols_are_those_after_the_preprocessor():
    assert libcuda_stub.symbols(HEADER) == [
        "cuCtxDetach",
        "cuDeviceTotalMem",
        "cuDeviceTotalMem_v2",
        "cuInit",
        "cuMemcpyHtoD",
        "cuMemcpyHtoD_v2",
        "cuMemcpyHtoD_v2_ptds",
        "cuStreamQuery",
        "cuStreamQuery_ptsz",
        "cuTensorMapEncodeTiled",
    ]


def test_an_empty_header_is_refused(tmp_path: Path):
    header = tmp_path / "cuda.h"
    header.write_text("/* nothing */")
    with pytest.raises(SystemExit, match="no function declarations"):
        libcuda_stub.build(header, tmp_path / "stubs", "cc")
    assert not (tmp_path / "stubs").exists()


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
        "--compress-mode=speed",
        "-64",
        "--create",
        "a.fatbin",
        "--image3=kind=elf,sm=80,file=a",
    ]
    assert fatbinary.rewrite(["--version"]) == ["--version"]


# --- the tree ----------------------------------------------------------------------------------------


def _unpacked(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


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
    cuda_tree.main([str(unpacked), str(tree), "12.8.0"])
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir()) == [
        "bin/ptxas",
        "include/cuda.h",
        "include/curand_kernel.h",
        "lib/libcudart.so",
        "lib/libcudart.so.12",
        "nvvm/libdevice/libdevice.10.bc",
        "version.json",
    ]
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


def test_wheels_without_a_part_of_nvcc_are_refused(tmp_path: Path):
    unpacked = _unpacked(tmp_path / "wheels", "nvidia/cu13/bin/cudafe++", "nvidia/cu13/lib/libcudart.so.13")
    message = "the wheels of CUDA 13.0.0 lack nvvm/bin/cicc, bin/crt/link.stub: take another release"
    with pytest.raises(SystemExit, match=message):
        cuda_tree.main([str(unpacked), str(tmp_path / "cuda"), "13.0.0"])
