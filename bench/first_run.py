"""The first run of a project: ujson for two Pythons, built and tested, beside cibuildwheel on the same image.

The base image is there and the engine is warm; nothing else is cached. Each run has a base of its own, a copy with
another file, and a project folder of its own, so no layer, download or object of another run is used.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import tomllib
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, seconds, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from cibuildwheel_image import can_be_made, make_image
from command import shell

from bakery.engine import debian_rootfs
from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.discover import find
from bakery.runs.cibuildwheel.run import Host, create_args

BAR = 1.2
TIMES = 3
FRESH = "bakery-standin/manylinux_2_36_x86_64:first-run"
SHIPPED = ROOT / "bakery" / "recipe" / "shipped" / "ujson.toml"


def fresh_image(environment: dict[str, str], image: str, folder: Path, number: int) -> None:
    """Tag a copy of the image with a file that no other copy has."""
    (folder / "Dockerfile").write_text(f"FROM {image}\nRUN echo {folder}-{number} > /etc/first-run\n")
    shell(environment, "docker", "build", "--quiet", "--provenance=false", "--tag", FRESH, str(folder))


def unpacked(requirement: str, folder: Path) -> Path:
    """Fetch the source archive of NAME==VERSION and return the folder with its files."""
    seconds(
        Call(
            [
                sys.executable,
                "-P",
                str(ROOT / "bakery" / "toolchains" / "programs" / "packages"),
                "fetch",
                requirement,
                str(folder),
            ]
        )
    )
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES)
    options = parser.parse_args()
    if not can_be_made():
        print("first_run: skipped; the image is made of pyenv's Pythons 3.11 and 3.13")
        return 0
    environment = {**os.environ, **find().environment}
    debian_rootfs.ensure_debian(environment, "bookworm", "amd64", "debian:bookworm-slim", print)
    host = Host(environment, find_ca_bundle(None, os.environ))
    recipe = tomllib.loads(SHIPPED.read_text())
    own, peer = [], []
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as scratch:
        folder = Path(scratch)
        (folder / "context").mkdir()
        image = make_image(environment, folder / "context")
        project = unpacked(recipe["source"].removeprefix("sdist:"), folder / "sdist")
        settings = {
            "CIBW_BUILD": " ".join(
                f"cp{item.replace('.', '')}-manylinux_x86_64" for item in recipe["matrix"]["python"]
            ),
            "CIBW_ARCHS": "x86_64",
            "CIBW_MANYLINUX_X86_64_IMAGE": FRESH,
            "CIBW_TEST_COMMAND": recipe["test"]["command"],
            # The package index of this machine, as bakery gives it to the same containers.
            "CIBW_CONTAINER_ENGINE": f"docker; create_args: {' '.join(create_args(folder, host))}",
        }
        for number in range(options.times):
            (folder / "fresh").mkdir(exist_ok=True)
            fresh_image(environment, image, folder / "fresh", number)
            ours = folder / f"ours-{number}"
            ours.mkdir()
            (ours / "bakery.toml").write_text(f'{SHIPPED.read_text()}\n[builder]\nbase = {{ image = "{FRESH}" }}\n')
            own.append(seconds(Call([*BAKERY, "full", "--progress", "quiet"], ours)) or 0.0)
            words = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--output-dir", f"{folder}/peer"]
            peer.append(seconds(Call([*words, str(project)], folder, {**environment, **settings})) or 0.0)
        shell(environment, "docker", "rmi", "--force", FRESH, image)
    ratio = statistics.median(own) / statistics.median(peer)
    rows = [
        Row("bakery full", f"{statistics.median(own):.1f} s"),
        Row("cibuildwheel", f"{statistics.median(peer):.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
    ]
    return table(f"First run of ujson, two Pythons (median of {options.times})", rows)


if __name__ == "__main__":
    sys.exit(main())
