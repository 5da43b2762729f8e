"""What cross compiling saves over emulation: a wheel of the C++ example for the other architecture, both ways.

With nothing cached, as on a fresh runner: base packages, tools and compilers are installed, then the wheel is compiled,
repaired and audited; that has a bar. And again where only the source is another one: the example is one small file, so
that is mostly what any build takes. The machine must run programs of that architecture: `bakery engine emulate linux/arm64`.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, seconds, table

from bakery.drive.emulate import emulated
from bakery.names import platform_of

PROJECT = ROOT / "examples" / "cpp"
BAR = 0.3

RECIPE = """\
name = "bench-arm64"
platforms = ["@platform@"]
[builder]
cross = @cross@
compiler-cache = false
[wheel.repair]
strip = true
"""


def project(folder: Path, target: str, *, cross: bool) -> Path:
    """Copy the example with a recipe."""
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(".bakery", "build", "*.egg-info"))
    text = RECIPE.replace("@platform@", target).replace("@cross@", str(cross).lower())
    (folder / "bakery.toml").write_text(text, encoding="utf-8")
    return folder


def taken(folder: Path, *flags: str) -> float:
    """Return the seconds of a bake; nothing of it was compiled before."""
    source = folder / "src" / "core.cpp"
    source.write_text(f"{source.read_text(encoding='utf-8')}// {uuid.uuid4()}\n", encoding="utf-8")
    return seconds(Call([*BAKERY, "wheel", *flags], cwd=folder)) or 0.0


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    other = "linux/amd64" if platform_of(platform.machine()) == "linux/arm64" else "linux/arm64"
    if not emulated(other):
        print(f"this machine runs no programs of {other}: bakery engine emulate {other}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        ways = [project(Path(place, name), other, cross=name == "cross") for name in ("cross", "emulated")]
        fresh = [taken(folder, "--no-cache") for folder in ways]
        again = [taken(folder) for folder in ways]
    ratio = fresh[0] / fresh[1]
    rows = [
        Row("nothing cached, cross compiled", f"{fresh[0]:.1f} s"),
        Row("nothing cached, emulated", f"{fresh[1]:.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
        Row("another source, cross compiled", f"{again[0]:.1f} s"),
        Row("another source, emulated", f"{again[1]:.1f} s"),
        Row("ratio", f"{again[0] / again[1]:.2f}"),
    ]
    return table(f"The C++ example for {other}: installed, compiled, repaired, audited", rows)


if __name__ == "__main__":
    sys.exit(main())
