"""Describe the contents of an image, except packages of the index.

Usage: materials.py image NAME BASE     the packages of the image's package manager, without those of its base image,
                                        which base-packages wrote to BASE; and the versions of compilers and tools
       materials.py suites              the state of the suites that apt knows

Each writes a JSON file into /bakery/materials.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable
from typing import Any, Dict

FOLDER = "/bakery/materials"
LOCKED = "/lock/locked.json"
STATUS = "var/lib/dpkg/status"
INFO = "var/lib/dpkg/info/"
APK = "lib/apk/db/installed"
RPM = "rpm"
RELEASE = "/etc/os-release"

Fields = Dict[str, str]

PROGRAMS = ("cc", "c++", "ld", "make", "ccache", "git", "nvcc", "clang++", "cmake", "ninja", "rustc", "cargo", "python")
"""Programs whose versions are told, where there are any. Those of the CUDA toolkit stand first on PATH."""


def packages(root: str) -> dict[str, str]:
    """Return name → version of the packages of this image (``/``), or of those that base-packages wrote into a folder.

    Packages of a foreign architecture have it in their name.
    """
    if os.path.exists(os.path.join(root, STATUS)):
        return {name: item["Version"] for name, item in installed(root).items()}
    if os.path.exists(os.path.join(root, APK)):
        return {name: fields["V"] for name, fields in of_alpine(root).items()}
    return dict(line.split("\t", 1) for line in of_rpm(root).splitlines())


def of_rpm(root: str) -> str:
    """Return a line for each package of rpm: its name, a tab, and its version with its architecture."""
    listed = os.path.join(root, RPM)
    if root != "/" and os.path.exists(listed):
        with open(listed, encoding="utf-8") as stream:
            return stream.read()
    if root == "/" and shutil.which("rpm"):
        command = ["rpm", "--query", "--all", "--queryformat", "%{NAME}\\t%{EVR}.%{ARCH}\\n"]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    return ""


def installed(root: str) -> dict[str, Fields]:
    """Return name → dpkg's fields of each installed package of a file system.

    Packages of another architecture than dpkg's have it in their name: ``libc6:arm64``.
    """
    with open(os.path.join(root, STATUS), encoding="utf-8") as stream:
        paragraphs = stream.read().split("\n\n")
    entries = [dict(re.findall(r"(?m)^(Package|Status|Version|Architecture): (.*)$", text)) for text in paragraphs]
    entries = [fields for fields in entries if fields.get("Status", "").endswith(" installed")]
    architectures = {"all", *(fields["Architecture"] for fields in entries if fields["Package"] == "dpkg")}

    def name(fields: Fields) -> str:
        arch = fields.get("Architecture", "all")
        return fields["Package"] + ("" if architectures == {"all"} or arch in architectures else ":" + arch)

    return {name(fields): fields for fields in entries}


def of_alpine(root: str) -> dict[str, Fields]:
    """Return name → apk's fields (V: version, A: architecture) of each installed package of a file system."""
    with open(os.path.join(root, APK), encoding="utf-8") as stream:
        entries = [dict(re.findall(r"(?m)^([PVA]):(.*)$", text)) for text in stream.read().split("\n\n")]
    return {fields["P"]: fields for fields in entries if "P" in fields}


def release() -> tuple[str, str]:
    """Return the id of this image's distribution, and with its version."""
    fields = {}
    if os.path.exists(RELEASE):
        with open(RELEASE, encoding="utf-8") as stream:
            fields = dict(re.findall(r"(?m)^([A-Z_]+)=[\"']?(.*?)[\"']?$", stream.read()))
    name = fields.get("ID", "linux")
    return name, "-".join(filter(None, [name, fields.get("VERSION_ID") or fields.get("VERSION_CODENAME")]))


def purl(kind: str, name: str, version: str, **qualifiers: str) -> str:
    """Return a package URL (https://github.com/package-url/purl-spec)."""
    namespace, distro = release()
    path = "/".join(urllib.parse.quote(part, safe=":") for part in (namespace, name))
    more = sorted({**qualifiers, "distro": distro}.items())
    ending = "&".join(key + "=" + urllib.parse.quote(value, safe=":") for key, value in more if value)
    return "pkg:" + kind + "/" + path + "@" + urllib.parse.quote(version, safe=":") + "?" + ending


def purls(versions: dict[str, str]) -> dict[str, str]:
    """Return package → its URL."""
    if os.path.exists(os.path.join("/", STATUS)):
        known = installed("/")
        return {
            name: purl("deb", known[name]["Package"], version, arch=known[name].get("Architecture", ""))
            for name, version in versions.items()
        }
    if os.path.exists(os.path.join("/", APK)):
        alpine = of_alpine("/")
        return {name: purl("apk", name, version, arch=alpine[name].get("A", "")) for name, version in versions.items()}
    result = {}
    for name, version in versions.items():
        epoch, _, rest = version.rpartition(":")
        number, _, machine = rest.rpartition(".")
        result[name] = purl("rpm", name, number, arch=machine, epoch=epoch if epoch.isdigit() else "")
    return result


def sums(names: Iterable[str]) -> dict[str, str]:
    """Return package → SHA-256 of dpkg's list of its files and their MD5 sums; of those that have one."""
    result = {}
    versions = installed("/") if os.path.exists(os.path.join("/", STATUS)) else {}
    for name in (name for name in names if name in versions):
        package, arch = versions[name]["Package"], versions[name].get("Architecture", "")
        # That of a package that may be there for several architectures is in the file's name.
        for path in ("/" + INFO + package + ".md5sums", "/" + INFO + package + ":" + arch + ".md5sums"):
            if os.path.exists(path):
                with open(path, "rb") as stream:
                    result[name] = hashlib.sha256(stream.read()).hexdigest()
    return result


def program(name: str) -> str:
    """Return the first line that a program says of its version; empty where there is no such program."""
    path = shutil.which(name)
    if not path:
        return ""
    done = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    # nvcc says its release further down.
    version = next((line for line in lines if "release" in line and name == "nvcc"), lines[0] if lines else "")
    return "" if done.returncode else version


def image(name: str, base: str) -> None:
    """Write what this image has beside what the one below it has."""
    below = packages(base)
    added = {key: version for key, version in packages("/").items() if below.get(key) != version}
    tools = {key: said for key in PROGRAMS if (said := program(key))}
    write(name, {"packages": added, "tools": tools, "purls": purls(added), "sums": sums(added)})


def suites() -> None:
    """Write which state apt's suites are in; with a lock, what that says."""
    if os.path.exists(LOCKED):
        with open(LOCKED, encoding="utf-8") as stream:
            write("suites", json.load(stream)["suites"])
        return
    result = {}
    if shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        for path in glob.glob("/var/lib/apt/lists/*Release"):
            with open(path, encoding="utf-8") as stream:
                fields = dict(re.findall(r"(?m)^(Codename|Date): (.*)$", stream.read()))
            if "Codename" in fields:
                result[fields["Codename"]] = fields.get("Date", "")
    write("suites", result)


def write(name: str, data: dict[str, Any]) -> None:
    """Write and print a file."""
    os.makedirs(FOLDER, exist_ok=True)
    text = json.dumps(data, indent=1, sort_keys=True)
    with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as stream:
        stream.write(text)
    print(text)


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "image":
        image(words[1], words[2])
    elif words == ["suites"]:
        suites()
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
