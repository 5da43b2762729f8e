"""A machine with an empty compiler cache: how much of it comes from a store, and how long that takes.

The project has many small files, as each of them is an object that is fetched. Its compile step runs twice, and in between
the engine's compiler cache is emptied, so that the second run is that of another machine.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import uuid
from pathlib import Path

from timing import ROOT, Row, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from command import bakery
from projects import SOURCE, extension
from stores import empty_compiler_cache, redis, s3

from bakery.engine.discover import find

BAR = 0.95
SERVERS = {"redis": redis, "s3": s3}
RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


def many(folder: Path, files: int) -> Path:
    """Write a project of many C++ files that nobody compiled."""
    extension(folder, RECIPE, SOURCE)
    sources = ["src/core.cpp"]
    for number in range(files - 1):
        name = f"src/part{number}.cpp"
        text = f'#include <map>\n#include <string>\nextern "C" const char fresh{number}[] = "{uuid.uuid4()}";\n'
        sort = f"std::string sorted{number}(std::map<std::string, int> of) {{ return of.begin()->first; }}\n"
        (folder / name).write_text(text + sort)
        sources.append(name)
    (folder / "src" / "core.cpp").write_text(f"{SOURCE}// {uuid.uuid4()}\n")
    setup = folder / "setup.py"
    setup.write_text(setup.read_text().replace("['src/core.cpp']", repr(sources)))
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("servers", nargs="*", help="redis, s3")
    options = parser.parse_args()
    rows = []
    engine = {**os.environ, **find().environment}
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        folder = Path(place)
        for name in options.servers or SERVERS:
            project = many(folder / f"project-{name}", options.files)
            (served := folder / name).mkdir()
            with SERVERS[name](served) as store:
                here = {**store, "BAKERY_CACHE_KEY": uuid.uuid4().hex}
                first = bakery(project, "wheel", environment=here)
                empty_compiler_cache(here, engine, folder / f"empty-{name}")
                (project / "fresh.txt").write_text("another source for BuildKit, and none for a compiler\n")
                second = bakery(project, "wheel", environment=here)
            count = second.results()["wheel-cp311"]["compiler_cache"]
            assert isinstance(count, dict)
            share = count["hits"] / count["compilations"]
            rows.append(Row(f"{name}: objects reused", f"{share:.1%}", f"≥ {BAR:.0%}", share >= BAR))
            times = [f"{done.results()['wheel-cp311']['seconds']:.1f} s" for done in (first, second)]
            rows.append(Row(f"{name}: bake, first and second machine", " and ".join(times)))
            rows += [
                Row(f"{name}: {what}", text)
                for done in (first, second)
                for text, what in re.findall(r"compiler cache: (\d.*? (saved|restored) in [0-9.]+ s)", done.err)
                if not text.startswith("0 ")
            ]
    return table(f"A compiler cache in a store, {options.files} files", rows)


if __name__ == "__main__":
    sys.exit(main())
