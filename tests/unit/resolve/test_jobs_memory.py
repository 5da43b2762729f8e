"""Rule jobs-memory: what it counts, and what it keeps quiet about."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest

from bakery.resolve.rules import judge
from bakery.resolve.rules.cache_use import Host

GB = 10**9
NEEDED = 'job-memory = "3.5 GB"\n'
NATIVE = '[native]\ncommand = "make"\ninto = "src/lib"\nenvironment = { MAX_JOBS = "5" }\n'


def found(folder: Path, text: str, memory: int) -> list[str]:
    return [finding.text for finding in judge(plans.written(folder, f'name = "kernels"\n{text}'), Host(memory=memory))]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (f"[builder]\n{NEEDED}jobs = 5\n", 17.5),
        (f'[builder]\n{NEEDED}environment = {{ MAX_JOBS = "5" }}\n', 17.5),
        (f'[builder]\n{NEEDED}environment = {{ EXT_PARALLEL = "2", MAX_JOBS = "3" }}\n', 21.0),
        (f'[builder]\n{NEEDED}environment = {{ EXT_PARALLEL = "5" }}\n', 17.5),
        (f'[builder]\n{NEEDED}environment = {{ CMAKE_BUILD_PARALLEL_LEVEL = "9", MAX_JOBS = "5" }}\n', 31.5),
        (f'[variables]\nN = "6"\n[builder]\n{NEEDED}environment = {{ MAX_JOBS = "${{N}}" }}\n', 21.0),
        (f"[builder]\n{NEEDED}{NATIVE}", 17.5),
    ],
)
def test_what_is_counted(text: str, needed: float, tmp_path: Path) -> None:
    (said,) = found(tmp_path, text, 16 * GB)
    assert said.endswith(f" compilers of 3.5 GB need {needed} GB, and the machine has 16.0 GB")
    assert not found(tmp_path, text, 32 * GB)
    assert not found(tmp_path, text, 0), "no machine is meant"


@pytest.mark.parametrize(
    "text",
    [
        f"[builder]\n{NEEDED}",
        "[builder]\njobs = 900\n",
        '[builder]\nenvironment = { MAX_JOBS = "900" }\n',
        f'[builder]\n{NEEDED}environment = {{ MAX_JOBS = "many" }}\n',
        f'[builder]\n{NEEDED}environment = {{ CMAKE_BUILD_PARALLEL_LEVEL = "" }}\n',
    ],
)
def test_what_follows_the_machine_or_is_not_known(text: str, tmp_path: Path) -> None:
    assert not found(tmp_path, text, 1 * GB)


def test_a_cell_with_another_number_is_judged_by_its_own(tmp_path: Path) -> None:
    text = (
        f'[variables]\nN = "1"\n[matrix]\npython = ["3.11", "3.13"]\n[builder]\n{NEEDED}environment = {{ MAX_JOBS = "${{N}}" }}\n'
        '[[matrix.overrides]]\nwhere = { python = "3.13" }\nvariables = { N = "8" }\n'
    )
    (finding,) = judge(plans.written(tmp_path, f'name = "kernels"\n{text}'), Host(memory=16 * GB))
    assert finding.cells == ("cp313",)
