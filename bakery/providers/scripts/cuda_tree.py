"""Turn NVIDIA's wheels, unpacked in one folder, into the tree that compilers and build systems know.

The wheels of CUDA 13 share one folder, ``nvidia/cu13``; those of CUDA 12 have one each. Neither has
``lib64`` or the names that a linker looks for (``libX.so``), and both hold libraries that no compiler needs.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

UNNEEDED = ("__init__.py", "__pycache__", "libnvvm.so*", "libcurand.so*", "libcurand_static.a")
"""Package files; the compiler as a library (nvcc and clang bring their own); cuRAND beside its headers."""

_VERSIONED = re.compile(r"(lib.+\.so)(?:\.[0-9]+)+\Z")
_DIST_INFO = re.compile(r"nvidia_(?P<name>.+?)(?:_cu[0-9]+)?-(?P<version>[0-9.]+)\.dist-info\Z")


def merge(wheels: Path, tree: Path) -> None:
    """Move everything that the wheels in ``wheels`` hold into ``tree``."""
    shared = sorted((wheels / "nvidia").glob("cu[0-9]*"))
    roots = shared or sorted(path for path in (wheels / "nvidia").iterdir() if path.is_dir())
    for root in roots:
        for source in sorted(root.rglob("*")):
            target = tree / source.relative_to(root)
            if source.is_dir() or any(source.match(pattern) for pattern in UNNEEDED):
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
    """Run as ``cuda_tree.py WHEELS TREE RELEASE``."""
    if len(arguments) != 3:
        raise SystemExit("usage: cuda_tree.py WHEELS TREE RELEASE")
    wheels, tree = Path(arguments[0]), Path(arguments[1])
    merge(wheels, tree)
    link(tree)
    lacking = missing(tree)
    if lacking:
        raise SystemExit(f"the wheels of CUDA {arguments[2]} lack {', '.join(lacking)}: take another release")
    text = json.dumps(versions(wheels, arguments[2]), indent=2)
    (tree / "version.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
