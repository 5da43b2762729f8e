"""Whole files that compile a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hcl2

from bakery_iree.emit import BAKEFILE, DOCKERFILE, generate_job
from bakery_iree.job.load import load
from bakery_iree.job.resolve import resolve

FOLDER = Path(__file__).parent / "jobs"
IMAGE = "iree-cpu:3.13.0-x86_64-0123456789ab"


def test_files_of_a_job(golden: Callable[[Path, str], None]) -> None:
    plan = resolve(load(FOLDER / "job.json", "job.json"))
    texts = generate_job(plan, IMAGE, "a-machine")
    golden(FOLDER / DOCKERFILE, texts[DOCKERFILE])
    golden(FOLDER / BAKEFILE, texts[BAKEFILE])
    assert texts == generate_job(plan, IMAGE, "a-machine")


def test_another_reader_of_hcl_finds_the_cells() -> None:
    plan = resolve(load(FOLDER / "job.json", "job.json"))
    document = hcl2.loads(generate_job(plan, IMAGE)[BAKEFILE])
    assert [cell["id"].strip('"') for cell in document["cells"]] == [cell.id for cell in plan.cells]
