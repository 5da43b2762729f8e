"""Calls that nothing answers: whose a name is, what is in reach, and where nothing may be said."""

from __future__ import annotations

from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest
from built import build, calls, library
from elfs import shared_object
from wheels import EXTENSION, write_wheel

from wheel_audit.auditor import audit_wheel
from wheel_audit.checks.undefined import FAMILIES, Family
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity

pytestmark = pytest.mark.usefixtures("no_tools")

IDS = {"driver-not-needed", "library-not-needed", "undefined-symbol", "undefined-version"}
NAMES = {
    "the CUDA driver": "cuLaunchKernelEx",
    "the CUDA runtime": "__cudaRegisterFatBinary",
    "cuBLASLt": "cublasLtMatmul",
    "cuBLAS": "cublasGemmEx",
    "cuSOLVER": "cusolverDnDpotrf",
    "cuSPARSE": "cusparseSpMM",
    "cuSPARSELt": "cusparseLtMatmul",
    "cuFFT": "cufftExecC2C",
    "cuRAND": "curandCreateGenerator",
    "cuDNN": "cudnnCreate",
    "NCCL": "ncclAllReduce",
    "NVRTC": "nvrtcCompileProgram",
    "nvJitLink": "__nvJitLinkCreate_12_8",
    "CUPTI": "cuptiActivityEnable",
    "cuFile": "cuFileRead",
    "torch": "_ZNK2at6Tensor3sumEv",
}
needs_gcc = pytest.mark.skipif(which("gcc") is None, reason="needs gcc")


def found(folder: Path, expected: ExpectedWheel | None = None, **files: bytes) -> list[tuple[str, Severity, str]]:
    """Audit a wheel of an extension module and other objects; return what is said of their calls."""
    content = {EXTENSION if name == "core" else f"demo/{name}.so": data for name, data in files.items()}
    findings = audit_wheel(write_wheel(folder, files=content), expected or ExpectedWheel(name="demo")).findings
    return [(item.check, item.severity, item.message) for item in findings if item.check in IDS]


def wants(*names: str, needed: tuple[str, ...] = ()) -> bytes:
    return shared_object(wanted=names, needed=(*needed, "libc.so.6"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_library_must_be_asked_for(family: Family, tmp_path: Path) -> None:
    name = NAMES[family.name]
    library = family.sonames[0].replace("*", "") + ".1"
    assert found(tmp_path, core=wants(name, needed=(library,))) == []
    ((check, severity, message),) = found(tmp_path, core=wants(name))
    assert check == ("driver-not-needed" if "cuda.so" in library else "library-not-needed")
    assert severity is Severity.ERROR
    assert name in message


def test_each_family_is_tried() -> None:
    assert {family.name for family in FAMILIES} == NAMES.keys()


def test_without_a_promise_it_is_a_warning(tmp_path: Path) -> None:
    ((_, severity, _),) = found(tmp_path, ExpectedWheel(), core=wants("cublasCreate_v2"))
    assert severity is Severity.WARNING
    ((_, severity, _),) = found(tmp_path, ExpectedWheel(), core=wants("demo_left_out"))
    assert severity is Severity.WARNING


@pytest.mark.parametrize("soname", ["libwidget.so.2", "libtorch.so", "libcusolver.so.11"])
def test_a_library_whose_needs_are_not_known_may_bring_it(soname: str, tmp_path: Path) -> None:
    assert found(tmp_path, core=wants("cublasCreate_v2", needed=(soname,))) == []


def test_no_library_of_nvidias_and_no_torch_brings_the_driver(tmp_path: Path) -> None:
    core = wants("cuInit", needed=("libtorch_cuda.so", "libcudart.so.13", "libcublas.so.13"))
    assert [check for check, *_ in found(tmp_path, core=core)] == ["driver-not-needed"]
    assert found(tmp_path, core=wants("cuInit", needed=("libwidget.so.2",))) == []


@pytest.mark.parametrize(
    "name",
    [
        *("PyLong_FromLong", "_Py_NoneStruct", "sinf", "pthread_create", "dlopen", "__tls_get_addr", "_Znwm"),
        *("_ZNSt11logic_errorC1EPKc", "_ZTTNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEE"),
        "_ZTVN10__cxxabiv117__class_type_infoE",
    ],
)
def test_what_every_interpreter_has_loaded_is_not_asked_for(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, core=wants(name)) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("_Z6launchPvN2at6TensorE", True),
        ("_Z16THPVariable_WrapN2at10TensorBaseE", False),
        ("_ZN6google8protobuf7MessageD2Ev", False),
        ("cblas_sgemm", False),
    ],
)
def test_beside_torch_only_functions_of_the_global_namespace_are_judged(name: str, said: bool, tmp_path: Path) -> None:
    assert [check for check, *_ in found(tmp_path, core=wants(name, needed=("libtorch.so",)))] == [
        "undefined-symbol"
    ] * said


def test_a_library_may_leave_its_needs_to_who_loads_it(tmp_path: Path) -> None:
    one = shared_object(wanted=["blas"], defined=["solve"])
    two = shared_object(defined=["blas"])
    both = wants("solve", needed=("one.so", "two.so"))
    assert found(tmp_path, core=both, one=one, two=two) == []
    ((check, _, message),) = found(tmp_path, core=wants("solve", needed=("one.so",)), one=one, two=two)
    assert check == "undefined-symbol"
    assert message == "calls blas, which demo/two.so defines, but it does not need it"


def test_objects_that_need_each_other(tmp_path: Path) -> None:
    one = shared_object(wanted=["b"], defined=["a"], needed=["two.so"])
    two = shared_object(wanted=["a"], defined=["b"], needed=["one.so"])
    assert found(tmp_path, one=one, two=two) == []


def test_musl_has_no_versions_to_judge_by(tmp_path: Path) -> None:
    data = shared_object(wanted=["memcpy", "getrandom"], needed=["libc.musl-x86_64.so.1"], versions={})
    assert found(tmp_path, core=data) == []


DEFECTS = {"version": ("undefined-version",)}
"""For the count of ids: planted below."""


def _with_map(source: str, version: str, soname: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "map"
        path.write_text(f"{version} {{ global: *; }};\n")
        return build(source, f"-Wl,--version-script={path}", soname=soname)()


def _caller(folder: Path, functions: tuple[str, ...], against: bytes) -> bytes:
    path = folder / "libdemo.so"
    path.write_bytes(against)
    return build(calls(*functions), str(path), runpath="$ORIGIN")()


@needs_gcc
def test_a_version_that_the_wheels_own_library_lacks(tmp_path: Path) -> None:
    new, old = (_with_map(library("one"), version, "libdemo.so") for version in ("DEMO_2", "DEMO_1"))
    core = _caller(tmp_path, ("one",), new)
    assert found(tmp_path, core=core, libdemo=new) == []
    ((check, severity, message),) = found(tmp_path, core=core, libdemo=old)
    assert (check, severity) == ("undefined-version", Severity.ERROR)
    assert message == "needs DEMO_2 of libdemo.so, which demo/libdemo.so does not define"


@needs_gcc
def test_a_versioned_symbol_that_the_wheels_own_library_lacks(tmp_path: Path) -> None:
    whole, part = (_with_map(library(*names), "DEMO_1", "libdemo.so") for names in (("one", "two"), ("one",)))
    core = _caller(tmp_path, ("one", "two"), whole)
    ((check, _, message),) = found(tmp_path, core=core, libdemo=part)
    assert check == "undefined-symbol"
    assert message == "calls two of libdemo.so, which does not define it"
