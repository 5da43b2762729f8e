"""``make fuzz``: read hostile inputs for some time, or a number of them, and tell what came of it."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from fuzz.runner import crashers, keep, read_files, read_for, read_made
from fuzz.targets import TARGETS


def main() -> int:
    """Fuzz; return 1 if a reader crashed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"any of {', '.join(TARGETS)}; none for all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--count", type=int, help="inputs of each target, in place of a time")
    parser.add_argument("--seed", type=int, default=0, help="another number gives other inputs")
    parser.add_argument("--random", action="store_true", help="do not let atheris choose, even if it is installed")
    given = parser.parse_args()
    if unknown := [name for name in given.target if name not in TARGETS]:
        parser.error(f"no such target: {' '.join(unknown)}; there are {' '.join(TARGETS)}")
    guided = not (given.random or given.count) and find_spec("atheris") is not None
    print("inputs are chosen by", "the code that they reach" if guided else "chance", flush=True)
    failed = False
    for name in given.target or TARGETS:
        old = read_files(crashers(name))
        for cause in old.times:
            print(f"{name}: a stored crasher still crashes: {cause}", flush=True)
        if given.count:
            tally = read_made([name], given.seed, given.count)
        else:
            tally = read_for(name, given.seed, given.seconds, guided=guided)
        print(f"{name}: {tally}", flush=True)
        print(f"  {', '.join(f'{outcome} {number}' for outcome, number in tally.outcomes.most_common())}", flush=True)
        tally.crashes = {cause: data for cause, data in tally.crashes.items() if cause not in old.times}
        kept = keep(name, tally)
        for cause in tally.crashes:
            print(f"  {tally.times[cause]} times: {cause}\n    {kept.get(cause, 'not again')}", flush=True)
        failed = failed or bool(tally.times or old.times)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
