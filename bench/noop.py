"""How long `wheel-bakery wheel` takes with nothing changed, beside the raw `docker buildx bake` of the same targets.

One recipe, the workspace, and a project with 64 cells. Each is baked once first, so that the raw bake finds everything in
the engine's cache. The raw bake takes the committed files. ``--rebuild`` is what a run costs that bakes all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, medians, seconds, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from projects import SOURCE, extension

from bakery.core.target_kinds import CACHE_SCOPE, Kind
from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.cache_scope import cache_scope
from bakery.engine.discover import find
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

BAR = 1.3
TIMES = 3
CELLS = 64
RECIPE = """\
name = "tiny"
[matrix]
python = ["3.13"]
answer = [{}]
[builder]
environment = {{ ANSWER = "${{ANSWER}}" }}
[wheel]
naming = {{ local = "${{ANSWER}}" }}
"""


def many(folder: Path, cells: int) -> Path:
    """Write a project with a small C++ file and some cells, and its bake file."""
    axis = ", ".join(f'"a{number}"' for number in range(cells))
    extension(folder, RECIPE.format(axis), SOURCE)
    seconds(Call([*BAKERY, "generate"], folder))
    return folder


def raw(root: Path, references: Sequence[str], dest: str) -> Call:
    """Return the bake of the wheels of some recipes as a person would do it without bakery."""
    bundle = find_ca_bundle(None, os.environ)
    environment = {**find().environment, **({"CA_BUNDLE": str(bundle)} if bundle else {})}
    flags = [f"--allow=fs.read={bundle}"] if bundle else []
    loaded = [item for reference in (references or (None,)) for item in load(reference, root)]
    plans = [resolve(item, None, os.environ) for item in loaded]
    options = " ".join(["--progress=quiet", f"--allow=fs.write={dest}", *flags])
    # Compile steps are cache hits in their own scope only.
    scopes = [f"--set='*.args.{CACHE_SCOPE}={cache_scope(os.environ, root, plan.recipe)}'" for plan in plans]
    lines = [
        f"DEST={dest}/{plan.recipe} docker buildx bake -f {plan.bakefile} {options} {scope} {Kind.WHEEL} > {dest}/said"
        for plan, scope in zip(plans, scopes, strict=True)
    ]
    return Call(["sh", "-c", " && ".join(lines)], root, environment)


def rows_of(name: str, root: Path, references: Sequence[str], times: int) -> list[Row]:
    """Return the figures of some recipes in a folder."""
    words = [*BAKERY, "wheel", *(word for reference in references for word in ("-r", reference))]
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as dest:
        output = ["--output", f"{dest}/dist"]
        first = seconds(Call([*words, *output], root)) or 0.0
        bare = raw(root, references, dest)
        own, rebuilt, raws = medians(
            [Call([*words, *output], root), Call([*words, *output, "--rebuild"], root), bare], times
        )
    return [
        Row(f"{name}: first", f"{first:.2f} s"),
        Row(f"{name}: nothing changed", f"{own:.2f} s"),
        Row(f"{name}: --rebuild", f"{rebuilt:.2f} s"),
        Row(f"{name}: docker buildx bake", f"{raws:.2f} s"),
        Row(f"{name}: ratio", f"{own / raws:.2f}", f"≤ {BAR:g}", own <= BAR * raws),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", help="recipes of the workspace to bake instead")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--cells", type=int, default=CELLS, help="of the project with many")
    options = parser.parse_args()
    if options.recipes:
        rows = rows_of(" ".join(options.recipes), ROOT, options.recipes, options.times)
    else:
        rows = [*rows_of("ujson", ROOT, ["ujson"], options.times), *rows_of("workspace", ROOT, [], options.times)]
        with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
            project = many(Path(place, "project"), options.cells)
            rows += rows_of(f"{options.cells} cells", project, [], options.times)
    return table(f"Nothing changed (median of {options.times})", rows)


if __name__ == "__main__":
    sys.exit(main())
