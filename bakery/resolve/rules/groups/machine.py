"""The machine that builds: its memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule

_NUMBER = re.compile(r"[1-9][0-9]*")


@rule(
    "jobs-memory",
    "The machine has the memory for as many compilers as the recipe fixes",
    why="The kernel ends a compiler when memory runs out, and the build fails late, with no word of the reason but "
    "'Killed'. It is judged when wheels are baked, by the memory of the engine's machine.",
    fix="leave the number out: with builder.job-memory it follows the machine; or bake on a larger one",
    source="SageAttention 2.2: 3.1 to 3.3 GB for each nvcc, and 4 × 32 of them unless told otherwise; flash-attention "
    "#2079",
)
def _jobs_memory(case: Case) -> Iterator[str]:
    setting, jobs = max(_fixed(case), key=lambda item: item[1])
    if case.host.memory and jobs * case.job_memory > case.host.memory:
        each, all_, there = (
            f"{size / 1e9:.1f} GB" for size in (case.job_memory, jobs * case.job_memory, case.host.memory)
        )
        yield f"{setting}: {jobs} compilers of {each} need {all_}, and the machine has {there}"


def _fixed(case: Case) -> Iterator[tuple[str, int]]:
    """Yield every way in which the recipe fixes the number of compilers, with the number; 0 for none."""
    yield f"builder.jobs = {case.jobs}", case.jobs
    texts = {
        name: case.environment.get(name, "") for name in ("CMAKE_BUILD_PARALLEL_LEVEL", "EXT_PARALLEL", "MAX_JOBS")
    }
    numbers = {name: int(text) for name, text in texts.items() if _NUMBER.fullmatch(text)}
    level = numbers.pop("CMAKE_BUILD_PARALLEL_LEVEL", 0)
    yield f"CMAKE_BUILD_PARALLEL_LEVEL = {level}", level
    product = 1
    for number in numbers.values():
        product *= number
    yield " × ".join(f"{name} = {number}" for name, number in numbers.items()), product if numbers else 0
