"""Writes ``pinned.toml``: the images that cibuildwheel pins, and the Pythons that it finds in them.

``make pins`` downloads the newest cibuildwheel and runs ``python -m bakery.toolchains.facts.pin_images WHEEL``.
"""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from packaging.utils import parse_wheel_filename

from bakery.core.cell_ids import MACHINES
from wheel_audit.readers import ini_of

FILE = "pinned.toml"
PINS, PYTHONS = "pinned_docker_images.cfg", "build-platforms.toml"
"""cibuildwheel's own files, in its package ``resources``."""

_HEADER = """\
# The images that short names of bases stand for. Written by `make pins` from cibuildwheel's own data; do not edit.
# pythons: those that cibuildwheel finds in /opt/python of the image.
"""
_PIN = re.compile(r"(?P<image>\S+)@(?P<digest>sha256:[0-9a-f]{64})\s+#\s*(?P<tag>[0-9.]+-[0-9]+)\Z")
_IDENTIFIER = re.compile(r"cp(?P<major>3)(?P<minor>[0-9]+)(?P<free>t?)-(?P<kind>manylinux|musllinux)_(?P<machine>\w+)")


def text(pins: str, pythons: str, source: str, read: str) -> str:
    """Return the table for the texts of cibuildwheel's files; ValueError for a pin that cannot be read."""
    tables = ini_of(pins)
    rows = [_HEADER]
    for platform, machine in MACHINES.items():
        if not platform.startswith("linux/"):
            continue
        for name, pin in tables[machine].items():
            match = _PIN.match(pin)
            if match is None:
                raise ValueError(f"{PINS}: {machine}: {name} is no image with a digest and a tag: {pin}")
            listed = ", ".join(f'"{python}"' for python in _pythons(pythons, name, machine))
            rows.append(
                f'[[images]]\nname = "{name}"\nplatform = "{platform}"\nimage = "{match["image"]}"\n'
                f'tag = "{match["tag"]}"\ndigest = "{match["digest"]}"\npythons = [{listed}]\n'
                f'source = "{source}"\nread = "{read}"\n'
            )
    return "\n".join(rows)


def _pythons(pythons: str, name: str, machine: str) -> Iterator[str]:
    """Yield the versions of CPython in an image, as ``3.14t``, oldest first."""
    for row in tomllib.loads(pythons)["linux"]["python_configurations"]:
        match = _IDENTIFIER.fullmatch(row["identifier"])
        if match and match["machine"] == machine and name.startswith(match["kind"]):
            yield f"{match['major']}.{match['minor']}{match['free']}"


def main(wheel: Path) -> None:
    """Write the table from a wheel of cibuildwheel."""
    with zipfile.ZipFile(wheel) as archive:
        pins, pythons = (archive.read(f"cibuildwheel/resources/{name}").decode() for name in (PINS, PYTHONS))
    source = f"cibuildwheel {parse_wheel_filename(wheel.name)[1]}: {PINS}, {PYTHONS}"
    table = text(pins, pythons, source, datetime.now(UTC).date().isoformat())
    Path(__file__).with_name(FILE).write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
