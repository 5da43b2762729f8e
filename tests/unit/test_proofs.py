"""The ledger of the proofs, as it is in this repository."""

from __future__ import annotations

import tomllib
from pathlib import Path

import proof_ledger
from proof_ledger import page, read


def test_the_page_shows_the_ledger() -> None:
    written = (proof_ledger.ROOT / proof_ledger.PAGE).read_text(encoding="utf-8")
    assert written == page(read(proof_ledger.ROOT))


def test_each_file_of_proofs_declares_what_it_depends_on() -> None:
    declared = tomllib.loads((proof_ledger.ROOT / proof_ledger.PACKAGES).read_text(encoding="utf-8"))
    for file, paths in declared.items():
        assert [path for path in (file, *paths) if not (proof_ledger.ROOT / path).exists()] == []
    marked = [
        str(path.relative_to(proof_ledger.ROOT))
        for folder in ("tests", "packages")
        for path in (proof_ledger.ROOT / folder).rglob("test_*.py")
        if path.name != Path(__file__).name
        and ("mark.proof" in (text := path.read_text()) or "sampled(" in text or "@given" in text)
    ]
    assert sorted(set(marked) - declared.keys()) == []
