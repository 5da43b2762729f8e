"""torch's stable ABI: an extension that is built with the oldest torch of the axis, and tested with each."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import bakery
from test_shaped_projects import metadata

pytestmark = [pytest.mark.engine, pytest.mark.proof]

RECIPE = """\
name = "stable-twice"
[matrix]
python = ["3.11"]
torch = ["2.10.0", "2.11.0", "2.12.1"]
[builder]
framework = "torch"
[wheel]
abi3 = "3.11"
torch-abi = "2.10"
[wheel.repair]
exclude = ["libc10.so", "libtorch*.so"]
[test]
imports = ["torch", "twice"]
command = '''python -c "import torch, twice; x = torch.arange(3.0); assert torch.ops.twice.twice(x).tolist() == [0, 2, 4]; \
print('tested with', torch.__version__)"'''
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "torch"]
build-backend = "setuptools.build_meta"
[project]
name = "twice"
version = "1.0"
[tool.setuptools]
packages = ["twice"]
"""

SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

macros = ["-DTORCH_TARGET_VERSION=0x020a000000000000", "-DPy_LIMITED_API=0x030b0000"]
setup(
    ext_modules=[CppExtension("twice._C", ["twice.cpp"], extra_compile_args=macros, py_limited_api=True)],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
"""

STABLE = """\
#include <Python.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

static Tensor twice(Tensor value) {
  Tensor result = torch::stable::empty_like(value);
  const float *from = static_cast<const float *>(value.const_data_ptr());
  float *to = static_cast<float *>(result.mutable_data_ptr());
  for (int64_t i = 0; i < value.numel(); ++i) to[i] = 2 * from[i];
  return result;
}

STABLE_TORCH_LIBRARY(twice, m) { m.def("twice(Tensor value) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(twice, CPU, m) { m.impl("twice", TORCH_BOX(&twice)); }

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModuleDef_Init(&module); }
"""


def test_one_wheel_is_tested_with_each_torch_and_unstable_calls_are_refused(tmp_path: Path) -> None:
    files = {"bakery.toml": RECIPE, "pyproject.toml": PYPROJECT, "setup.py": SETUP, "twice.cpp": STABLE}
    files["twice/__init__.py"] = "import torch\n\nfrom twice import _C\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = bakery(tmp_path, "full", timeout_s=3600)
    (wheel,) = done.wheels
    assert wheel.name.startswith("twice-1.0-cp311-abi3-manylinux")
    assert "Requires-Dist: torch>=2.10" in metadata(wheel).splitlines()
    for release in ("2.10.0", "2.11.0", "2.12.1"):
        log = done.log(f"test-cp311-torch{release[:-2].replace('.', '')}")
        assert f"tested with {release}" in log
    # The same project with one call of the C++ interface, built with the same layers.
    unstable = STABLE.replace("using", "#include <c10/core/CPUAllocator.h>\nusing").replace(
        "Tensor result", "c10::GetCPUAllocator();\n  Tensor result"
    )
    (tmp_path / "twice.cpp").write_text(unstable)
    (tmp_path / "setup.py").write_text(SETUP.replace('"-DTORCH_TARGET_VERSION=0x020a000000000000", ', ""))
    refused = bakery(tmp_path, "wheel", code=8, timeout_s=3600)
    assert "uses _ZN3c1015GetCPUAllocatorEv, which is not in torch's stable ABI" in " ".join(refused.err.split())
