"""The ledger of the proofs: what each slow proof showed, when and on what; ``make proof`` runs the oldest first.

A proof is a test function with the mark ``proof``, or a property test, with all of its cases. ``tests/proofs.toml`` has a
line for each. It is written here, never by hand. ``tests/proof_packages.toml`` declares what each file of proofs depends on:
a proof is stale when one of these files changed since.

A pytest plugin, used with ``--proofs-until``; ``tests/proofs.py`` is the command.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

import pytest

from bakery.core.files import write_file

ROOT = Path(__file__).parents[2]
LEDGER = "tests/proofs.toml"
PAGE = "docs/proofs.md"
"""What is in the ledger, for people. No proof depends on it: each run changes it."""
PACKAGES = "tests/proof_packages.toml"

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

_HEAD = "# What became of each proof; `make proof` writes it, nobody by hand. `make proof LIST=1` shows it with ages.\n"


@dataclass(frozen=True)
class Entry:
    """What a proof showed.

    Attributes:
        result: passed, failed (one case failed) or skipped (none ran).
        cases: how many cases ran; ``seconds``: how long all of them took, on ``machine``.
        commit: the commit that was checked out; ``on`` is the day (UTC).
        digest: that of the files that the proof depends on, as they were.
    """

    result: str
    cases: int
    seconds: float
    on: date
    commit: str
    machine: str
    digest: str


def function_of(nodeid: str) -> str:
    """Return the id of a test's function, without the case."""
    return nodeid.partition("[")[0]


def read(root: Path) -> dict[str, Entry]:
    """Return proof → entry; empty without a ledger."""
    file = root / LEDGER
    rows = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {proof: Entry(**row) for proof, row in rows.items()}


def write(root: Path, entries: Mapping[str, Entry]) -> None:
    """Write the ledger, a line for each proof, in order of their ids."""
    lines = []
    for proof, entry in sorted(entries.items()):
        pairs = (f"{key} = {value if key == 'on' else json.dumps(value)}" for key, value in vars(entry).items())
        lines.append(f"{json.dumps(proof)} = {{ {', '.join(pairs)} }}\n")
    write_file(root / LEDGER, (_HEAD + "".join(lines)).encode())


@cache
def depends(root: Path) -> Mapping[str, Sequence[str]]:
    """Return file of proofs → the files and folders that it depends on, as it is declared."""
    declared: Mapping[str, Sequence[str]] = tomllib.loads((root / PACKAGES).read_text(encoding="utf-8"))
    return declared


@cache
def _tracked(root: Path) -> Mapping[str, str]:
    """Return path → digest of each file that git tracks, as it is in the folder now."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    paths = (path for path in map(os.fsdecode, listed.split(b"\0")) if path and path != PAGE)
    return {path: hashlib.sha256((root / path).read_bytes()).hexdigest() for path in paths if (root / path).is_file()}


@cache
def digest_of(root: Path, file: str) -> str:
    """Return the digest of a file of proofs and of all that it depends on."""
    wanted = tuple(f"{path}/" for path in (file, *depends(root)[file]))
    found = sorted((path, digest) for path, digest in _tracked(root).items() if f"{path}/".startswith(wanted))
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def state(root: Path, proof: str, entry: Entry | None) -> str:
    """Return ``fresh``, or why a release cannot rely on the proof: ``never ran``, ``failed``, ``skipped``, ``stale``."""
    if entry is None:
        return "never ran"
    if entry.result != PASSED:
        return entry.result
    return "fresh" if entry.digest == digest_of(root, proof.partition("::")[0]) else "stale"


def in_order(root: Path, proofs: Iterable[str], entries: Mapping[str, Entry]) -> list[str]:
    """Return the files of proofs, that with the oldest proof first, and of one day those that are not fresh.

    A proof that never ran is the oldest.
    """
    ranks: dict[str, tuple[date, bool]] = {}
    for proof in proofs:
        file, entry = proof.partition("::")[0], entries.get(proof)
        rank = (entry.on if entry else date.min, state(root, proof, entry) == "fresh")
        ranks[file] = min(rank, ranks.get(file, rank))
    return sorted(ranks, key=lambda file: (ranks[file], file))


def page(entries: Mapping[str, Entry]) -> str:
    """Return docs/proofs.md."""
    rows = defaultdict(list)
    for proof, entry in entries.items():
        rows[proof.partition("::")[0]].append(entry)
    text = [
        "<!-- Written by `make proof`: tests/helpers/proof_ledger.py. -->",
        "",
        "# Proofs",
        "",
        "`make check` and `make test` sample; these tests are the whole: mutations, kills, network faults, nodes, real projects.",
        "They take hours, so `make proof` runs the oldest first and stops after `MINUTES=60`; each run adds to the ledger,",
        "`tests/proofs.toml`. A proof is stale when a file changed on which it depends; `make release` refuses stale ones.",
        "",
        "    make proof LIST=1       # all, with their age and what is stale",
        "    make proof ONLY=lock    # those with this text in their id",
        "    make proof FAILED=1     # those that failed",
        "",
        "| file | proofs | passed | failed | skipped | minutes | oldest |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for file, found in sorted(rows.items()):
        counts = [sum(entry.result == result for entry in found) for result in (PASSED, FAILED, SKIPPED)]
        minutes = sum(entry.seconds for entry in found) / 60
        cells = [f"`{file}`", len(found), *counts, f"{minutes:.1f}", min(entry.on for entry in found)]
        text.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(text) + "\n"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Selection:
    """Plugin: which proofs run, and in which order.

    Attributes:
        until: when no further proof starts, in seconds since the epoch.
        only: a text that ids must have; ``failed``: only those that failed last.
    """

    root: Path
    until: float
    only: str = ""
    failed: bool = False
    begun: set[str] = field(default_factory=set)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep what is asked for, the oldest file first."""
        entries = read(self.root)
        kept = [item for item in items if self._is_wanted(function_of(item.nodeid), entries)]
        proofs = {function_of(item.nodeid) for item in kept}
        ranks = {file: rank for rank, file in enumerate(in_order(self.root, proofs, entries))}
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = sorted(kept, key=lambda item: ranks[item.nodeid.partition("::")[0]])

    def _is_wanted(self, proof: str, entries: Mapping[str, Entry]) -> bool:
        has_failed = proof in entries and entries[proof].result == FAILED
        return self.only in proof and (has_failed or not self.failed)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Start no proof after the end of the time; one that has begun goes on with its other cases."""
        proof = function_of(item.nodeid)
        if proof not in self.begun and time.time() > self.until:
            return True
        self.begun.add(proof)
        return None


@dataclass
class Recorder:
    """Plugin of the process that starts the tests: writes down each proof when all of its cases have run."""

    root: Path
    cases: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    results: dict[str, str] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._expect(ids)

    def _expect(self, ids: Sequence[str]) -> None:
        for nodeid in ids:
            self.cases[function_of(nodeid)].add(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        before = self.results.get(report.nodeid, PASSED)
        self.results[report.nodeid] = before if before == FAILED or report.passed else report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        proof = function_of(nodeid)
        cases = self.cases[proof]
        if not cases <= self.results.keys():
            return
        results = {self.results[case] for case in cases}
        entry = Entry(
            FAILED if FAILED in results else PASSED if PASSED in results else SKIPPED,
            len(cases),
            round(sum(self.seconds[case] for case in cases), 1),
            datetime.now(UTC).date(),
            _git(self.root, "rev-parse", "--short=12", "HEAD"),
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            digest_of(self.root, proof.partition("::")[0]),
        )
        known = {other: entry for other, entry in read(self.root).items() if is_there(self.root, other)}
        write(self.root, {**known, proof: entry})


def is_there(root: Path, proof: str) -> bool:
    """Whether the function of a proof still exists."""
    file, _, name = proof.partition("::")
    path = root / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return bool(re.search(rf"^ *def {re.escape(name.rpartition('::')[2])}\(", text, re.MULTILINE))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("proofs")
    group.addoption("--proofs-until", type=float, help="run and record proofs; none starts after this time (epoch)")
    group.addoption("--proofs-only", default="", help="proofs with this text in their id")
    group.addoption("--proofs-failed", action="store_true", help="proofs that failed last")


def pytest_configure(config: pytest.Config) -> None:
    until = config.getoption("--proofs-until")
    if until is None:
        return
    only, failed = str(config.getoption("--proofs-only")), bool(config.getoption("--proofs-failed"))
    config.pluginmanager.register(Selection(config.rootpath, until, only, failed))
    # A process of xdist runs tests; the one that started it records them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.rootpath))
