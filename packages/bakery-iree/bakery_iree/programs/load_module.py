"""Load the module that suits this machine best, and run it.

Usage: python run.py                                        list the modules, and the best ones for this machine
       python run.py NAME [--function F] [--input VALUE]... [--output FILE.npy]... [--target TARGET]

A VALUE is a .npy file, a number, or a constant such as 64x64xf32=1. Needed: `pip install -r requirements.txt`. In Python:

    from run import load
    result = load("NAME").main(a, b).to_host()

The order is: CUDA if there is a driver and the GPU is new enough, AMD, Metal, then the module for the CPU that uses most
of its instructions. Modules for Vulkan and for CPUs by name are used only with `--target`.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import hashlib
import json
import os
import platform
import re
import sys
from importlib import import_module
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))

Module = Dict[str, Any]

LEVELS = (
    {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)
"""The additions of x86-64-v2, -v3 and -v4 (x86-64 psABI, table 3.1), as in /proc/cpuinfo."""

_COMPUTE_CAPABILITY = (75, 76)
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""


def cpu_level() -> int:
    """Return the level of an x86-64 CPU, from 1; 0 for another machine."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return 0
    try:
        with open("/proc/cpuinfo") as file:
            flags = set(re.findall(r"^flags\s*:(.*)$", file.read(), re.M)[0].split())
    except (OSError, IndexError):
        return 1
    level = 1
    for needed in LEVELS:
        if not needed <= flags:
            break
        level += 1
    return level


def cuda_capability() -> int:
    """Return the compute capability of the first GPU times ten (8.6 → 86); 0 if no driver finds a GPU."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return 0
    device, values = ctypes.c_int(), (ctypes.c_int(), ctypes.c_int())
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return 0
    for index, attribute in enumerate(_COMPUTE_CAPABILITY):
        if driver.cuDeviceGetAttribute(ctypes.byref(values[index]), attribute, device):
            return 0
    return values[0].value * 10 + values[1].value


def amd_gpus() -> List[str]:
    """Return the names of AMD's GPUs: ``gfx942``."""
    names = []
    for path in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/properties"):
        try:
            with open(path) as file:
                match = re.search(r"^gfx_target_version (\d+)$", file.read(), re.M)
        except OSError:
            continue
        if match and int(match.group(1)):
            major, minor_and_stepping = divmod(int(match.group(1)), 10000)
            names.append("gfx%d%x%x" % (major, minor_and_stepping // 100, minor_and_stepping % 100))
    return names


def machine() -> Dict[str, Any]:
    """Return what this machine offers."""
    return {
        "machine": {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower()),
        "level": cpu_level(),
        "cuda": cuda_capability(),
        "amd": amd_gpus(),
        "macos": platform.system() == "Darwin",
    }


def score(module: Module, host: Dict[str, Any]) -> Optional[Tuple[int, int]]:
    """Return how well a module suits a machine: the higher, the better; None where it does not run, or is not chosen."""
    backend, architecture = module["backend"], module["architecture"]
    if backend == "cuda":
        match = re.match(r"sm_(\d+)([a-z]?)$", architecture)
        needed = int(match.group(1)) if match else 0
        # PTX with a letter runs on that one architecture; other PTX on all that are newer, too.
        runs = needed == host["cuda"] if match and match.group(2) else 0 < needed <= host["cuda"]
        return (4, needed) if runs else None
    if backend == "rocm":
        return (3, 0) if architecture in host["amd"] else None
    if backend == "metal":
        return (2, 0) if host["macos"] else None
    if backend != "cpu" or module["machine"] != host["machine"]:
        return None
    if architecture in ("generic", "x86-64", ""):
        return (1, 1)
    match = re.match(r"x86-64-v(\d)$", architecture)
    return (1, int(match.group(1))) if match and int(match.group(1)) <= host["level"] else None


def manifest() -> List[Module]:
    """Return the modules of this bundle."""
    with open(os.path.join(HERE, "manifest.json"), encoding="utf-8") as file:
        modules: List[Module] = json.load(file)["modules"]
    return modules


def choices(name: str, target: Optional[str] = None) -> List[Module]:
    """Return the modules of a name that this machine can run, the best first; exit if there is none."""
    named = [module for module in manifest() if module["name"] == name]
    if not named:
        sys.exit("run: no module %s; modules: %s" % (name, ", ".join(sorted({m["name"] for m in manifest()}))))
    if target:
        suitable = [module for module in named if module["target"] == target]
    else:
        host = machine()
        scored = [(score(module, host), module) for module in named]
        ranked = sorted((pair for pair in scored if pair[0]), key=lambda pair: pair[0] or (0, 0), reverse=True)
        suitable = [module for _, module in ranked]
    if not suitable:
        sys.exit("run: no suitable module of %s; targets: %s" % (name, ", ".join(m["target"] for m in named)))
    return suitable


def load(name: str, target: Optional[str] = None) -> Any:
    """Return the best module of a name, whose attributes are functions on arrays; exit if none can be loaded."""
    from iree import runtime

    reason = ""
    for module in choices(name, target):
        path = os.path.join(HERE, module["file"])
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != module["sha256"]:
                sys.exit("run: %s is damaged: its sha256 is not that of the manifest" % module["file"])
        try:
            loaded = runtime.load_vm_flatbuffer_file(path, driver=module["device"])
        except (RuntimeError, ValueError) as error:
            reason = str(error)
            print("run: %s does not load: %s" % (module["target"], reason.splitlines()[0][:200]), file=sys.stderr)
            continue
        print("run: %s for %s" % (name, module["target"]), file=sys.stderr)
        return loaded
    sys.exit("run: no module of %s loads: %s" % (name, reason))


DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "i1": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
DTYPES.update({"ui8": "u1", "ui16": "u2", "ui32": "u4", "ui64": "u8"})
"""Element type of a constant → dtype; NumPy has no bf16."""


def bfloat16() -> Any:
    """Return the dtype of bf16, of a package that IREE's runtime brings."""
    return import_module("ml_dtypes").bfloat16


def value(text: str, expected: str) -> Any:
    """Return an argument of an MLIR type: an array of a file or a constant, or a number; exit if it is none."""
    import numpy

    try:
        if text.endswith(".npy"):
            array = numpy.load(text, allow_pickle=False)
            # NumPy has no bfloat16, and reads an array of it as one of two bytes.
            return array.view(bfloat16()) if array.dtype == "V2" else array
        match = re.match(r"((?:\d+x)*)(\w+)=(.*)$", text)
        if not match:
            return float(text) if re.match(r"b?f\d", expected) else int(text)
        dtype = numpy.dtype(bfloat16() if match.group(2) == "bf16" else DTYPES[match.group(2).lstrip("s")])
        shape = [int(size) for size in match.group(1).split("x")[:-1]]
        words = re.sub(r"[\[\],]", " ", match.group(3)).split()
        # As Python's integers: float64 has no room for all of 64 bits.
        array = numpy.array([(int if dtype.kind in "iu" else float)(word) for word in words], dtype=dtype)
        return array.reshape(shape) if len(words) > 1 else numpy.full(shape, array[0])
    except KeyError as error:
        sys.exit("run: --input %s: unknown element type %s" % (text, error))
    except (IndexError, OSError, OverflowError, ValueError) as error:
        sys.exit("run: --input %s: %s" % (text, error))


def run(arguments: argparse.Namespace) -> None:
    """Run a function, and print or save its results."""
    import numpy

    module = load(arguments.name, arguments.target)
    described = next(item for item in manifest() if item["name"] == arguments.name)
    functions = {function["name"]: function["arguments"] for function in described["functions"]}
    if len(functions) != 1 if arguments.function is None else arguments.function not in functions:
        sys.exit("run: name a function with --function: %s" % ", ".join(functions))
    name = arguments.function or next(iter(functions))
    types = functions[name]
    if len(types) != len(arguments.input):
        sys.exit("run: %s takes %d inputs (%s), not %d" % (name, len(types), ", ".join(types), len(arguments.input)))
    result = module[name](*map(value, arguments.input, types))
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if arguments.output and len(arguments.output) != len(results):
        sys.exit("run: %d results, but %d files for --output" % (len(results), len(arguments.output)))
    for index, item in enumerate(results):
        array = numpy.asarray(item.to_host() if hasattr(item, "to_host") else item)
        if arguments.output:
            numpy.save(arguments.output[index], array)
        else:
            print(array)


def show() -> None:
    """List the modules, and the best ones for this machine."""
    host = machine()
    print("this machine: " + json.dumps(host))
    for name in sorted({module["name"] for module in manifest()}):
        named = [module for module in manifest() if module["name"] == name]
        suited = [module["target"] for module in named if score(module, host)]
        best = choices(name)[0]["target"] if suited else "nothing"
        print("%s: %s of %s" % (name, best, ", ".join(module["target"] for module in named)))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", nargs="?", help="the module; without it, list all modules")
    parser.add_argument("--function", help="the function; optional if there is only one")
    parser.add_argument("--input", action="append", default=[], metavar="VALUE", help="an argument, in order")
    parser.add_argument("--output", action="append", default=[], metavar="FILE", help="the file for a result, in order")
    parser.add_argument("--target", help="the target of the module")
    arguments = parser.parse_args()
    if arguments.name:
        run(arguments)
    else:
        show()


if __name__ == "__main__":
    main()
