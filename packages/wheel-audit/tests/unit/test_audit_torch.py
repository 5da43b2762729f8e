"""torch's stable ABI: the symbols that it has, since which release, and what a wheel that promises it may not use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from elfs import shared_object
from packaging.version import Version
from wheels import EXTENSION, write_wheel

from wheel_audit import torch_abi
from wheel_audit.auditor import audit_wheel
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity

pytestmark = pytest.mark.usefixtures("no_tools")

CALLS = ("aoti_torch_library_init_def", "aoti_torch_get_numel", "torch_call_dispatcher", "torch_library_impl")
"""What g++ left undefined in an extension with ``STABLE_TORCH_LIBRARY`` and the headers of torch 2.10."""

UNSTABLE = {
    "an operator": "_ZN2at4_ops5empty4callEN3c108ArrayRefINS2_6SymIntEEE",
    "a method": "_ZNK3c1010TensorImpl15sym_sizes_customEv",
    "autograd": "_ZN5torch8autograd4Node4nameEv",
    "a type's table": "_ZTIN3c105ErrorE",
    "output of a type": "_ZN3c10lsERSoNS_10ScalarTypeE",
    "an operator of its types": "_ZlsRSoRKN2at6TensorE",
    "the Python binding": "_Z16THPVariable_WrapN2at10TensorBaseE",
    "a type of Python's": "THPVariableClass",
    "a C function that no release has": "aoti_torch_cpu_perhaps_later",
}

PROMISE = ExpectedWheel(platform="linux/amd64", requires=("torch>=2.10",), torch_abi="2.10")


def findings(
    folder: Path,
    *names: str,
    pin: str = "torch>=2.10",
    defined: tuple[str, ...] = (),
    needed: tuple[str, ...] = ("libtorch_cpu.so", "libc.so.6"),
    expected: ExpectedWheel = PROMISE,
) -> list[Finding]:
    """Return what the audit says about the torch of a wheel that uses ``names`` and requires ``pin``."""
    files = {EXTENSION: shared_object(needed=needed, wanted=names)}
    files |= {"demo/libhelp.so": shared_object(defined=defined)} if defined else {}
    metadata = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: {pin}\n"
    found = audit_wheel(write_wheel(folder, files=files, metadata=metadata), expected).findings
    return [item for item in found if item.check in ("promised-torch-abi", "framework-pin")]


def test_a_wheel_with_the_stable_abi_passes(tmp_path: Path) -> None:
    assert findings(tmp_path, "PyInit__core", "malloc", "_ZNSt6vectorIiE", *CALLS) == []


@pytest.mark.parametrize("name", UNSTABLE.values(), ids=UNSTABLE)
def test_what_is_not_in_it_is_refused_by_name(name: str, tmp_path: Path) -> None:
    # Also without libtorch among the libraries that it needs: importing torch first would provide the symbol.
    for needed in (("libtorch_cpu.so",), ("libc.so.6",)):
        refused = findings(tmp_path, *CALLS, name, needed=needed)
        assert [(item.severity, item.message) for item in refused] == [
            (Severity.ERROR, f"uses {name}, which is not in torch's stable ABI")
        ]


def test_a_function_of_a_later_release_is_refused_by_name(tmp_path: Path) -> None:
    (promised, pin) = findings(tmp_path, *CALLS, "torch_from_blob")
    assert promised.message == "uses torch_from_blob, which torch has since 2.11; the recipe promises 2.10"
    assert pin.message == "calls torch_from_blob, which torch has since 2.11, but accepts torch 2.10"
    later = replace(PROMISE, torch_abi="2.11", requires=("torch>=2.11",))
    assert findings(tmp_path, *CALLS, "torch_from_blob", pin="torch>=2.11", expected=later) == []


def test_what_another_object_of_the_wheel_defines_is_not_torchs(tmp_path: Path) -> None:
    own = ("torch_of_this_project", "_ZN2at4own_callEv")
    assert findings(tmp_path, *CALLS, *own, defined=own) == []
    assert len(findings(tmp_path, *CALLS, *own)) == 2


@pytest.mark.parametrize(
    ("pin", "accepted"),
    [
        ("torch>=2.12", ""),
        ("torch>=2.12.1,<3", ""),
        ("torch==2.13.*", ""),
        ("torch>2.11", "2.11"),  # also 2.11.1
        ("torch>=2.11.0", "2.11"),
        ("torch<3", "2.7"),
        ("torch!=2.7.*", "2.8"),
        ("torch @ https://example.org/torch-2.11.0-py3-none-any.whl", ""),
    ],
)
def test_the_oldest_torch_follows_from_the_symbols(pin: str, accepted: str, tmp_path: Path) -> None:
    # Without any promise, as for wheels of other projects.
    found = findings(tmp_path, *CALLS, "torch_tag_core", pin=pin, expected=ExpectedWheel())
    text = f"calls torch_tag_core, which torch has since 2.12, but accepts torch {accepted}"
    assert [(item.severity, item.message, item.hint) for item in found] == (
        [(Severity.WARNING, text, "require torch>=2.12")] if accepted else []
    )


def test_a_wheel_for_any_torch_is_told_the_oldest(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, *CALLS, pin="torch", expected=ExpectedWheel())
    assert found.hint == "require torch>=2.10, which has all that it calls"


def test_the_facts_agree_with_the_list_of_kernel_abi_check() -> None:
    # Of torch/csrc/stable/c/shim_function_versions.txt, pytorch@018aa9b8.
    listed = {
        "torch_call_dispatcher": "2.10",
        "torch_string_length": "2.10",
        "aoti_torch_aten_full": "2.10",
        "torch_from_blob": "2.11",
        "aoti_torch_cuda_nonzero_static": "2.11",
        "torch_library_def_with_tags": "2.12",
        "aoti_torch_cpu__grouped_mm": "2.12",
        "torch_new_stable_ivalue": "2.13",
    }
    assert torch_abi.needed(listed) == {name: Version(release) for name, release in listed.items()}
    assert [str(item) for item in torch_abi.releases()] == [f"2.{minor}" for minor in range(7, 16)]
