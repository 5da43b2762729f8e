"""Prove that an installed wheel works: load every shared object, then import modules.

Usage: smoke.py WHEELS [--driver FOLDER] [--load] [--import MODULE]...

Runs without network and without a GPU. Libraries that the wheel leaves to other wheels are found where
those put them; the GPU driver, which no container has, is stood in for by the toolkit's stub, which
defines every symbol of the driver's interface.
"""

import argparse
import glob
import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile

LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)"


def main():
    """Check, say what was checked, and fail with every fault at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels")
    parser.add_argument("--driver", default="")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--import", action="append", default=[], dest="imports")
    options = parser.parse_args()
    (wheel,) = glob.glob(os.path.join(options.wheels, "*.whl"))
    name = os.path.basename(wheel).split("-")[0]
    files = [str(item) for item in importlib.metadata.distribution(name).files or []]
    root = str(importlib.metadata.distribution(name).locate_file(""))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    objects = sorted(
        os.path.join(root, item) for item in names if re.search(r"\.so(\.[0-9.]+)?$", item) and item in files
    )
    driver = [options.driver] if options.driver and os.path.isdir(options.driver) else []
    faults = []
    if options.load:
        faults += [
            fault
            for item in objects
            for fault in check([sys.executable, "-c", LOAD, item], item, folders(root), driver)
        ]
        print("loaded %d shared objects of %s" % (len(objects), os.path.basename(wheel)))
    for module in options.imports:
        faults += check(
            [sys.executable, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])", module],
            "import " + module,
            [],
            driver,
        )
        print("imported " + module)
    if faults:
        sys.exit("\n".join(faults))


def folders(root):
    """Return the folders of other wheels' libraries, and of those bundled with this one."""
    found = {os.path.dirname(path) for path in glob.glob(os.path.join(root, "**", "lib*.so*"), recursive=True)}
    return sorted(found)


def check(command, what, libraries, driver):
    """Return the fault that a command shows, if any."""
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join([*libraries, *driver]))
    run = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True
    )
    if run.returncode == 0:
        return []
    last = (run.stdout.strip().splitlines() or ["exit status %d" % run.returncode])[-1]
    return ["FAILED " + what + ": " + last]


main()
