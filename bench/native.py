"""What the native step saves: a project of CMake libraries for one Python and for four, with the step and without.

Each run compiles everything anew (the source differs, no ccache); builders and tools are there before. The project is
the one of the engine tests in the shape of jaxmg: six shared libraries with kernels, which no Python needs to build.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, seconds, table

from bakery.engine.discover import find

PROJECT = ROOT / "tests" / "engine" / "shaped" / "jaxmg"
BAR = 1.3

IMAGE = "bakery-standin/manylinux_2_36_x86_64:many"
"""An image with all Pythons, as manylinux images are (tests/engine/manylinux_many.py makes it)."""

ON_IMAGE = ("3.10", "3.11", "3.12", "3.13")
ON_DEBIAN = ("3.9", "3.11", "3.13", "3.14")
"""Without the image: the Pythons of four Debian releases."""

RECIPE = """\
name = "bench-native"
[variables]
CUDA_VERSION = "13.0.3"
[matrix]
python = [@pythons@]
[builder]
@base@
toolkit = "cuda"
components = ["cublas", "cusolver"]
compiler-cache = false
@builder@
[wheel.repair]
exclude = ["libcublas*.so.*", "libcudart.so.*", "libcusolver*.so.*", "libcusparse.so.*", "libnvJitLink.so.*"]
"""

TOOLS = 'requirements = ["cmake>=3.26", "ninja"]'
ENVIRONMENT = (
    'environment = { CUDAARCHS = "@archs@", CMAKE_GENERATOR = "Ninja", CMAKE_BUILD_PARALLEL_LEVEL = "@jobs@" }'
)

NATIVE = f"""
[native]
command = '''
cmake -S . -B /build
cmake --build /build --target install
cp src/jaxmg/bin/*.so /native
'''
into = "src/jaxmg/bin"
{TOOLS}
{ENVIRONMENT}
"""


def has_image() -> bool:
    """Whether the engine has the image."""
    environment = {**os.environ, **find().environment}
    asked = ["docker", "image", "inspect", IMAGE]
    return subprocess.run(asked, env=environment, capture_output=True, check=False).returncode == 0


def project(folder: Path, archs: str, pythons: Sequence[str], *, native: bool) -> Path:
    """Copy the project with a recipe."""
    shutil.copytree(PROJECT, folder)
    words = {
        "@pythons@": ", ".join(f'"{python}"' for python in pythons),
        "@base@": f'base = {{ image = "{IMAGE}" }}' if pythons == ON_IMAGE else 'base = "debian"',
        "@builder@": NATIVE if native else f"{TOOLS}\n{ENVIRONMENT}\n",
        "@archs@": archs,
        "@jobs@": str(os.cpu_count()),
    }
    recipe = RECIPE
    for word, text in words.items():
        recipe = recipe.replace(word, text)
    (folder / "bakery.toml").write_text(recipe, encoding="utf-8")
    return folder


def taken(folder: Path, pythons: Sequence[str]) -> float:
    """Return the seconds of a bake for these Pythons; nothing of it was compiled before."""
    (folder / "csrc" / "fresh.txt").write_text(str(uuid.uuid4()), encoding="utf-8")
    only = [word for python in pythons for word in ("--only", f"cp{python.replace('.', '')}")]
    return seconds(Call([*BAKERY, "wheel", *only], cwd=folder)) or 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archs", default="80;90;100", help="GPUs to compile for, as CMake writes them")
    options = parser.parse_args()
    if not PROJECT.is_dir():
        print(f"{PROJECT.relative_to(ROOT)} is not there: nothing to measure", file=sys.stderr)
        return 2
    pythons = ON_IMAGE if has_image() else ON_DEBIAN
    several = len(pythons)
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        with_step = project(Path(place, "with"), options.archs, pythons, native=True)
        without = project(Path(place, "without"), options.archs, pythons, native=False)
        for folder in (with_step, without):
            taken(folder, pythons)
        own = [taken(with_step, chosen) for chosen in (pythons[:1], pythons)]
        bare = [taken(without, chosen) for chosen in (pythons[:1], pythons)]
    ratio, usual = (times[1] / times[0] for times in (own, bare))
    rows = [
        Row("native step, one Python", f"{own[0]:.1f} s"),
        Row(f"native step, {several} Pythons", f"{own[1]:.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
        Row("without, one Python", f"{bare[0]:.1f} s"),
        Row(f"without, {several} Pythons", f"{bare[1]:.1f} s"),
        Row("ratio", f"{usual:.2f}"),
    ]
    return table(f"Compile per CUDA, package per Python ({options.archs})", rows)


if __name__ == "__main__":
    sys.exit(main())
