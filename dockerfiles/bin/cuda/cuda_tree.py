"""Turn NVIDIA's wheels, unpacked in one folder, into the folder tree that compilers and build systems expect.

The wheels of CUDA 13 share one folder, ``nvidia/cu13``. Those of CUDA 11 and 12, and libraries with their own releases
(cuDNN, NCCL), have one folder each. None has ``lib64`` or the names that a linker looks for (``libX.so``).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

UNNEEDED = ("__init__.py", "__pycache__", "libnvvm.so*")
"""Package files; the compiler as a library (nvcc and clang bring their own)."""

_VERSIONED = re.compile(r"(lib.+\.so)(?:\.[0-9]+)+\Z")
_DIST_INFO = re.compile(r"nvidia_(?P<name>.+?)(?:_cu[0-9]+)?-(?P<version>[0-9.]+)\.dist-info\Z")


def merge(wheels: Path, tree: Path, without: list[str]) -> None:
    """Move everything that the wheels in ``wheels`` hold into ``tree``, but for files that match ``without``."""
    unneeded = (*UNNEEDED, *without)
    for root in sorted(path for path in (wheels / "nvidia").iterdir() if path.is_dir()):
        for source in sorted(root.rglob("*")):
            target = tree / source.relative_to(root)
            if source.is_dir() or any(source.match(pattern) for pattern in unneeded):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(str(source), str(target))


def link(tree: Path) -> None:
    """Add the names that compilers and linkers look for."""
    libraries = tree / "lib"
    for path in sorted(libraries.iterdir()):
        match = _VERSIONED.match(path.name)
        if match and not (libraries / match.group(1)).exists():
            (libraries / match.group(1)).symlink_to(path.name)
    if not (tree / "lib64").exists():
        (tree / "lib64").symlink_to("lib")


def missing(tree: Path) -> list[str]:
    """Return the files that nvcc needs and the wheels lack; the wheels of 13.0.0 lack some."""
    if not (tree / "bin/cudafe++").exists():
        return []
    return [name for name in ("nvvm/bin/cicc", "bin/crt/link.stub") if not (tree / name).exists()]


def versions(wheels: Path, release: str) -> dict[str, dict[str, str]]:
    """Return what ``version.json`` says in NVIDIA's own installations: the release and its components."""
    components = {"cuda": {"name": "CUDA SDK", "version": release}}
    for path in sorted(wheels.glob("*.dist-info")):
        match = _DIST_INFO.match(path.name)
        if match:
            components[match["name"]] = {"name": match["name"], "version": match["version"]}
    return components


def main(arguments: list[str]) -> None:
    """Put what was unpacked into the tree; what is in the tree already stays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels", type=Path)
    parser.add_argument("tree", type=Path)
    parser.add_argument("release")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args(arguments)
    merge(options.wheels, options.tree, options.without)
    link(options.tree)
    lacking = missing(options.tree)
    if lacking:
        raise SystemExit(f"the wheels of CUDA {options.release} lack {', '.join(lacking)}: take another release")
    file = options.tree / "version.json"
    existing = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    text = json.dumps({**existing, **versions(options.wheels, options.release)}, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
