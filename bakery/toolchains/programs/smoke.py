"""Check that an installed wheel works: load every shared object, then import modules.

Usage: smoke.py WHEEL [--driver FOLDER] [--load] [--import MODULE]... [--without FOLDER]...

WHEEL is the wheel, or a folder with only this wheel. It runs without network and without a GPU. Libraries of other
wheels are found in their folders; for those of CUDA, an import or an RPATH must lead to them, too. Shared objects in a
folder of the source that --without names need what is not installed, and are not loaded. The toolkit's stub, with every symbol
of the driver's interface, replaces the GPU driver, which no container has.
"""

from __future__ import annotations

import argparse
import glob
import importlib.metadata
import os
import re
import subprocess
import sys

LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)"
IMPORT = """
import importlib, sys
module = importlib.import_module(sys.argv[1])
folders = getattr(module, "__path__", None)
if folders is not None and getattr(module, "__file__", None) is None:
    sys.exit("it is a namespace package, a folder without code (%s): name a module in it" % ", ".join(folders))
"""
"""Imports a module. Any folder without ``__init__.py`` is a package for Python, and its import proves nothing."""

FOUND = """
import ctypes, importlib, importlib.util, os, re, sys
for name in sys.argv[1].split(","):
    try:
        if importlib.util.find_spec(name):
            importlib.import_module(name)
    except BaseException:
        pass
for path in sys.argv[2:]:
    if not os.fork():
        try:
            ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            if re.match(r"lib(cu|nv|nccl)[^/:]*: cannot open shared object file", str(error)):
                os.write(1, ("FAILED " + path + ": " + str(error) + "\\n").encode())
        os._exit(0)
    os.wait()
"""
"""Loads objects as a user does, after an import of the modules, and says which of them miss a library of CUDA."""

FRAMEWORKS = ["torch", "jax"]
"""They load the libraries of CUDA, and extensions are imported after them."""


class Options(argparse.Namespace):
    """The command line."""

    wheels: str
    driver: str
    load: bool
    imports: list[str]
    without: list[str]


def arguments() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels")
    parser.add_argument("--driver", default="")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--import", action="append", default=[], dest="imports")
    parser.add_argument("--without", action="append", default=[])
    return parser.parse_args(namespace=Options())


def main() -> None:
    """Check, say what was checked, and fail with every fault at once."""
    options = arguments()
    wheel = only_wheel(options.wheels)
    driver = [options.driver] if options.driver and os.path.isdir(options.driver) else []
    faults = []
    if options.load:
        root, objects = shared_objects(wheel.split("-")[0], options.without)
        roots = [root, *(item for item in sys.path if item.endswith("-packages") and item != root)]
        libraries = [*(folder for item in roots for folder in folders(item)), *driver]
        found = [fault for path in objects for fault in check(LOAD, path, path, libraries)]
        found = found or missing(objects, [*FRAMEWORKS, *options.imports], driver, wheel.split("-")[0])
        print("loaded %d of %d shared objects of %s" % (len(objects) - len(found), len(objects), wheel))
        faults += found
    for module in options.imports:
        found = check(IMPORT, module, "import " + module, driver)
        if not found:
            print("imported " + module)
        faults += found
    if faults:
        sys.exit("\n".join(faults))


def only_wheel(folder: str) -> str:
    """Return the name of the wheel, or of the only one in a folder; exit if there is none, or more than one."""
    if folder.endswith(".whl"):
        return os.path.basename(folder)
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(folder), "*.whl")))
    if len(names) != 1:
        sys.exit("smoke: expected one wheel in " + folder + ", found " + (", ".join(names) or "none"))
    return names[0]


def shared_objects(name: str, without: list[str]) -> tuple[str, list[str]]:
    """Return the folder of an installed distribution, and its shared objects outside of folders of the source; exit if it is
    not installed.
    """
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        sys.exit("smoke: " + name + " is not installed")
    files = [str(item) for item in distribution.files or []]
    objects = [item for item in files if re.search(r"\.so(\.[0-9.]+)?$|\.dylib$", item)]
    # The wheel has a folder of the source without the first parts of its path.
    names = [folder.split("/") for folder in without]
    ends = tuple("/".join(parts[start:]) + "/" for parts in names for start in range(len(parts)))
    objects = [item for item in objects if not item.startswith(ends)]
    return str(distribution.locate_file("")), sorted(str(distribution.locate_file(item)) for item in objects)


def folders(root: str) -> list[str]:
    """Return the folders of other wheels' libraries, and of those bundled with this one."""
    paths = glob.glob(os.path.join(glob.escape(root), "**", "lib*.so*"), recursive=True)
    return sorted({os.path.dirname(path) for path in paths})


def missing(objects: list[str], modules: list[str], libraries: list[str], name: str) -> list[str]:
    """Return the faults of objects that find libraries of CUDA only where LD_LIBRARY_PATH names their folders.

    A package whose Python code names a library may load it later, when it needs it.
    """
    if not objects or not hasattr(os, "fork"):
        return []
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(libraries))
    command = [sys.executable, "-c", FOUND, ",".join(modules), *objects]
    run = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True
    )
    found = [line for line in run.stdout.splitlines() if line.startswith("FAILED /")]
    files = (importlib.metadata.distribution(name).files or []) if found else []
    code = [item.read_binary() for item in files if item.suffix == ".py" and os.path.isfile(str(item.locate()))]
    return [line for line in found if not any(stem(line) in text for text in code)]


def stem(fault: str) -> bytes:
    """Return the name of the library that a fault names, as ``curand``."""
    return fault.partition(": lib")[2].split(".")[0].encode()


def check(program: str, argument: str, what: str, libraries: list[str]) -> list[str]:
    """Return the fault that a Python program shows, if any; a crash ends a process of its own."""
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(libraries))
    command = [sys.executable, "-c", program, argument]
    run = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True
    )
    if run.returncode == 0:
        return []
    if run.returncode < 0:
        return ["FAILED " + what + ": killed by signal %d" % -run.returncode]
    last = (run.stdout.strip().splitlines() or ["exit status %d" % run.returncode])[-1]
    return ["FAILED " + what + ": " + last]


if __name__ == "__main__":
    main()
