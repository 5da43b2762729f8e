"""How long `wheel-bakery init` takes on a tree of 5,000 files, beside a Python that only walks it.

Every second file is a C++ source or header that `init` reads. With docker-bake.hcl, its reader's grammar takes most of the
time, so that is measured without a bar.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from timing import BAKERY, Call, Row, medians, table

FILES = 5_000
SECONDS = 1.0
RATIO = 60.0
OF_CHECK = 1.5
TIMES = 5
WALK = "import os, sys; print(sum(len(files) for _, _, files in os.walk(sys.argv[1])))"

PYPROJECT = """[build-system]
requires = ["scikit-build-core>=0.10", "pybind11"]
build-backend = "scikit_build_core.build"

[project]
name = "large"
version = "1.0"
requires-python = ">=3.11"
"""
SOURCE = "#include <vector>\n#include <pybind11/pybind11.h>\n" + "// A line of a source file.\n" * 200
BAKE = 'variable "PY" { default = "3.11" }\ntarget "wheel" { platforms = ["linux/amd64"] }\n'


def make(root: Path) -> None:
    """Write a project of `FILES` files in folders of 50."""
    root.mkdir()
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (root / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.26)\nproject(large CXX)\n", encoding="utf-8")
    for number in range(FILES - 2):
        folder = root / "src" / f"part{number // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"file{number}.{('cpp', 'txt', 'hpp', 'py')[number % 4]}"
        (folder / name).write_text(SOURCE, encoding="utf-8")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as folder:
        plain, with_bake = Path(folder) / "plain", Path(folder) / "bake"
        make(plain)
        shutil.copytree(plain, with_bake)
        (with_bake / "docker-bake.hcl").write_text(BAKE, encoding="utf-8")
        init = [*BAKERY, "init", "--yes", "--print"]
        own, walk, check, bake = medians(
            [
                Call([*init, str(plain)]),
                Call([sys.executable, "-c", WALK, str(plain)]),
                Call([*BAKERY, "check", "-r", "examples/cpp"]),
                Call([*init, str(with_bake)]),
            ],
            TIMES,
        )
    rows = [
        Row(f"wheel-bakery init, {FILES:,} files", f"{own:.2f} s", f"≤ {SECONDS:g} s", own <= SECONDS),
        Row("os.walk", f"{walk:.2f} s"),
        Row("ratio", f"{own / walk:.1f}×", f"≤ {RATIO:g}×", own <= RATIO * walk),
        Row("wheel-bakery check, one recipe", f"{check:.2f} s"),
        Row(
            "ratio to check and os.walk",
            f"{own / (check + walk):.2f}×",
            f"≤ {OF_CHECK:g}×",
            own <= OF_CHECK * (check + walk),
        ),
        Row("wheel-bakery init, with docker-bake.hcl", f"{bake:.2f} s"),
    ]
    return table(f"First recipe of a large project (median of {TIMES})", rows)


if __name__ == "__main__":
    sys.exit(main())
