"""Read what a project says about Rust, without running anything of it.

Usage: cargo_project.py FOLDER RUST OUTPUT

RUST is the recipe's word: a version or a channel, or auto. Written into OUTPUT:

    rust                     the Rust that the recipe or the project asks for: 1.85, stable, nightly-2026-01-31, >=1.78
    manifests/               the project's Cargo.toml and Cargo.lock, and its Rust files, empty: enough to fetch its crates
    roots                    the folders in manifests whose crates are fetched, one on each line; empty if the project
                             brings its crates, or has none
    materials/crates.json    the crates of Cargo.lock

Sources that differ in anything else give the same files, so the steps that use them are cached.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any, Dict

Table = Dict[str, Any]

AUTO = "auto"
CHANNEL = re.compile(r"((?:stable|beta|nightly|\d+\.\d+(?:\.\d+)?)(?:-\d{4}-\d\d-\d\d)?)(?:-\w+-[\w-]+)?\Z")
"""A channel as rustup knows it; the platform after it is that of the machine anyway."""

_SKIPPED = ("target", "node_modules")
_DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")

# What a newer format needs: edition 2024 came with 1.85, version 4 of Cargo.lock with 1.78.
_EDITIONS = {"2021": "1.56", "2024": "1.85"}
_LOCKS = {3: "1.53", 4: "1.78"}


def read(path: str) -> Table:
    """Return the data of a TOML file; exit if it is not valid."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # installed beside the tools, where the base's Python is that old
        import tomli as tomllib
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except (OSError, ValueError) as error:
        sys.exit("bakery: cannot read " + path + ": " + str(error))


def table(data: object, *keys: str) -> Table:
    """Return the table at a path of keys; empty if there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def files(folder: str) -> Iterator[str]:
    """Yield the files of a project, relative and sorted, without hidden folders, results and vendored crates."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(where, name, ".cargo-checksum.json"))
        )
        for name in sorted(names):
            path = os.path.join(where, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, folder)


def topmost(paths: list[str]) -> list[str]:
    """Return the folders of the paths that are nearest to the project's own folder."""
    depth = min((path.count(os.sep) for path in paths), default=0)
    return [os.path.dirname(path) or "." for path in paths if path.count(os.sep) == depth]


def named_channel(folder: str) -> str:
    """Return the channel in the rust-toolchain.toml or rust-toolchain of a folder; empty if there is neither."""
    for name in ("rust-toolchain", "rust-toolchain.toml"):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as stream:
            text = stream.read().strip()
        if name == "rust-toolchain" and re.match(r"[\w.-]+\Z", text):
            channel: object = text
        else:
            channel = table(read(path), "toolchain").get("channel", "stable")
        match = CHANNEL.match(str(channel))
        if not match:
            sys.exit(
                "bakery: " + name + " of the project: " + repr(channel)[:80] + " is no channel that can be installed; "
                "set a version in the recipe: builder.rust"
            )
        return match.group(1)
    return ""


def number(text: object) -> tuple[int, ...]:
    """Return a version as numbers: ``1.85.0-beta`` → (1, 85, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", str(text))
    return tuple(map(int, match.group().split("."))) if match else ()


def lowest(manifests: list[Table], locks: list[Table]) -> str:
    """Return the lowest Rust that manifests and lock files allow, as ``>=1.78``; ``stable`` if they allow any."""
    versions = [str(item.get("rust-version", "")) for item in _packages(manifests)]
    versions += [_EDITIONS.get(str(item.get("edition")), "") for item in _packages(manifests)]
    versions += [_LOCKS.get(item.get("version", 0), "") for item in locks]
    highest = max(versions, key=number, default="")
    return ">=" + highest if number(highest) else "stable"


def _packages(manifests: list[Table]) -> list[Table]:
    return [item for data in manifests for item in (table(data, "package"), table(data, "workspace", "package"))]


def has_vendored(folder: str) -> bool:
    """Whether the project's own configuration of cargo replaces the registry by a folder."""
    for name in ("config.toml", "config"):
        path = os.path.join(folder, ".cargo", name)
        if os.path.isfile(path) and table(read(path), "source", "crates-io").get("replace-with"):
            return True
    return False


def needs_crates(manifest: Table) -> bool:
    """Whether a manifest names a crate that is not in the project."""
    tables = [manifest, table(manifest, "workspace"), *filter(None, map(table, table(manifest, "target").values()))]
    entries = [entry for item in tables for key in _DEPENDENCIES for entry in table(item, key).values()]
    return any(isinstance(entry, str) or not {"path", "workspace"} & set(table(entry)) for entry in entries)


def crates(locks: list[Table]) -> Table:
    """Return what a lock of Bakery, a provenance and a bill of materials say about the crates of lock files."""
    packages: dict[str, str] = {}
    purls: dict[str, str] = {}
    sums: dict[str, str] = {}
    listed = [item for lock in locks for item in lock.get("package", []) if isinstance(item, dict)]
    for item in sorted(listed, key=lambda item: (str(item.get("name")), number(item.get("version"))), reverse=True):
        name, version, source = (str(item.get(key) or "") for key in ("name", "version", "source"))
        if not source:  # a crate of the project
            continue
        # The newest version has the short name.
        key = name if packages.get(name, version) == version else name + "@" + version
        packages[key] = version
        purls[key] = "pkg:cargo/" + name + "@" + urllib.parse.quote(version)
        if source.startswith("git+"):
            purls[key] += "?vcs_url=" + urllib.parse.quote(source.replace("#", "@"), safe=":/@")
        if item.get("checksum"):
            sums[key] = str(item["checksum"])
    return {"packages": packages, "purls": purls, "sums": sums, "tools": {}}


def copy_manifests(folder: str, names: list[str], to: str) -> None:
    """Copy manifests and lock files, and write an empty file for each Rust file."""
    for name in names:
        target = os.path.join(to, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if name.endswith(".rs"):
            open(target, "w").close()
        else:
            shutil.copyfile(os.path.join(folder, name), target)


def write(path: str, text: str) -> None:
    """Write a file, and its folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def main() -> None:
    """Read the project."""
    if len(sys.argv) != 4:
        sys.exit((__doc__ or "").split("\n\n")[1])
    folder, word, output = sys.argv[1:]
    names = [name for name in files(folder) if name.endswith((".rs", "Cargo.toml", "Cargo.lock"))]
    manifest_names = [name for name in names if os.path.basename(name) == "Cargo.toml"]
    lock_names = [name for name in names if os.path.basename(name) == "Cargo.lock"]
    manifests = [read(os.path.join(folder, name)) for name in manifest_names]
    roots = topmost(lock_names) or topmost(manifest_names)
    locks = [read(os.path.join(folder, root, "Cargo.lock")) for root in roots if lock_names]

    channels = (
        [] if word != AUTO else [named_channel(os.path.join(folder, root)) for root in dict.fromkeys((".", *roots))]
    )
    wanted = next(filter(None, channels), "") or (lowest(manifests, locks) if word == AUTO else word)
    brings_crates = any(has_vendored(os.path.join(folder, root)) for root in (".", *roots))
    if not brings_crates and not lock_names and any(map(needs_crates, manifests)):
        sys.exit(
            "bakery: the project has a Cargo.toml and no Cargo.lock, which names its crates with their hashes: "
            "run `cargo generate-lockfile` and add the file to the project; or let cargo choose crates "
            "while it compiles: builder.network = true"
        )
    roots = [] if brings_crates or not lock_names else roots
    copy_manifests(folder, names if roots else [], os.path.join(output, "manifests"))
    os.makedirs(os.path.join(output, "manifests"), exist_ok=True)
    write(os.path.join(output, "rust"), wanted + "\n")
    write(os.path.join(output, "roots"), "".join(root + "\n" for root in roots))
    write(os.path.join(output, "materials", "crates.json"), json.dumps(crates(locks), indent=1, sort_keys=True))
    print("Rust " + wanted + "; crates of: " + (", ".join(roots) or "none"))


if __name__ == "__main__":
    main()
