"""``make proof`` and ``make release``: run the proofs, the oldest first, or show what the ledger knows of them.

Exit code: that of pytest; with ``--fresh``, 1 if a proof never ran, failed, was skipped or is stale.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

sys.path.insert(0, f"{__file__.rpartition('/')[0]}/helpers")
from proof_ledger import PAGE, ROOT, Entry, function_of, page, read, state

SELECTED = ("-m", "proof or hypothesis", "tests", "packages/wheel-audit/tests", "packages/bakery-iree/tests")


class _Collected:
    """Plugin: keeps what is collected."""

    def __init__(self) -> None:
        self.proofs: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.proofs = sorted({function_of(item.nodeid) for item in session.items})


def collect() -> list[str]:
    """Return the ids of all proofs."""
    found = _Collected()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-q", *SELECTED], plugins=[found])
    if code:
        sys.exit(said.getvalue())
    return found.proofs


def rows(proofs: list[str], entries: dict[str, Entry]) -> list[tuple[str, str]]:
    """Return (state, line to print) of each proof, the oldest first."""
    today = datetime.now(UTC).date()
    found = []
    for proof in proofs:
        entry = entries.get(proof)
        what = state(ROOT, proof, entry)
        age = f"{(today - entry.on).days:4} days {entry.seconds:7.0f} s" if entry else " " * 19
        found.append((-(today - entry.on).days if entry else -(10**6), what, f"{what:10} {age}  {proof}"))
    return [(what, line) for _, what, line in sorted(found)]


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="no proof starts after these minutes")
    parser.add_argument("--only", default="", help="proofs with this text in their id")
    parser.add_argument("--failed", action="store_true", help="proofs that failed last")
    parser.add_argument("--list", action="store_true", help="show all proofs, with age and state, and run nothing")
    parser.add_argument(
        "--fresh", action="store_true", help="show those on which a release cannot rely, and run nothing"
    )
    options = parser.parse_args()
    if options.list or options.fresh:
        shown = rows([proof for proof in collect() if options.only in proof], read(ROOT))
        wrong = [row for row in shown if row[0] != "fresh"]
        print(*(line for _, line in (wrong if options.fresh else shown)), sep="\n")
        print(f"{len(shown)} proofs, {len(shown) - len(wrong)} of them fresh")
        return int(options.fresh and bool(wrong))
    words = [*SELECTED, "--hypothesis-profile=proof", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    words += [f"--proofs-until={time.time() + options.minutes * 60}", f"--proofs-only={options.only}"]
    words += ["--proofs-failed"] if options.failed else []
    code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode
    (ROOT / PAGE).write_text(page(read(ROOT)), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
