"""How long `make wheel` takes with nothing changed, beside the raw `docker buildx bake` of the same targets.

Bakes once first, so that both find everything in the engine's cache. The raw bake takes the committed files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from timing import BAKERY, ROOT, Call, Row, medians, seconds, table

from bakery.cli.engine import find_ca_bundle
from bakery.core.names import CACHE_SCOPE, Kind
from bakery.engine.cache_scope import cache_scope
from bakery.engine.discover import find
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

BAR = 2.0
TIMES = 3


def raw_calls(references: list[str], dest: str, flags: list[str]) -> list[str]:
    """Return shell text for each recipe: the bake of its wheels as a person would do it without bakery."""
    loaded = [item for reference in (references or [None]) for item in load(reference, ROOT)]
    plans = [resolve(item, None, os.environ) for item in loaded]
    options = " ".join(["--progress=quiet", f"--allow=fs.write={dest}", *flags])
    # Compile steps are cache hits in their own scope only.
    scopes = [f"--set='*.args.{CACHE_SCOPE}={cache_scope(os.environ, ROOT, plan.recipe)}'" for plan in plans]
    return [
        f"DEST={dest}/{plan.recipe} docker buildx bake -f {plan.bakefile} {options} {scope} {Kind.WHEEL} > {dest}/said"
        for plan, scope in zip(plans, scopes, strict=True)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", help="recipes to bake; all of the workspace without any")
    parser.add_argument("--times", type=int, default=TIMES)
    options = parser.parse_args()
    bundle = find_ca_bundle(None, os.environ)
    environment = {**find().environment, **({"CA_BUNDLE": str(bundle)} if bundle else {})}
    flags = [f"--allow=fs.read={bundle}"] if bundle else []
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as folder:
        chosen = [word for name in options.recipes for word in ("-r", name)]
        # The whole workspace is what `make wheel` bakes.
        bakery = Call([*BAKERY, "wheel", *chosen] if chosen else ["make", "-s", "wheel"])
        raw = Call(["sh", "-c", " && ".join(raw_calls(options.recipes, folder, flags))], environment=environment)
        first = seconds(bakery)
        own, bare = medians([bakery, raw], options.times)
    rows = [
        Row("wheels, first", f"{first:.2f} s"),
        Row("wheels, nothing changed", f"{own:.2f} s"),
        Row("docker buildx bake, same targets", f"{bare:.2f} s"),
        Row("ratio", f"{own / bare:.2f}", f"≤ {BAR:g}", own <= BAR * bare),
    ]
    return table(f"Nothing changed (median of {options.times})", rows)


if __name__ == "__main__":
    sys.exit(main())
