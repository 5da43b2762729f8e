"""The memory of the build machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule

_NUMBER = re.compile(r"[1-9][0-9]*")


@rule(
    "jobs-memory",
    "The machine has enough memory for the number of compilers in the recipe",
    why="If memory runs out, the kernel kills a compiler, and the build fails late with only 'Killed' as the reason. "
    "This is checked when wheels are built, with the memory of the engine's machine.",
    fix="remove the number: with builder.job-memory, it depends on the machine; or build on a larger machine",
    source="SageAttention 2.2: 3.1 to 3.3 GB for each nvcc, and 4 × 32 of them by default; flash-attention #2079",
)
def _jobs_memory(case: Case) -> Iterator[str]:
    setting, jobs = max(_fixed(case), key=lambda item: item[1])
    if case.host.memory and jobs * case.job_memory > case.host.memory:
        sizes = (case.job_memory, jobs * case.job_memory, case.host.memory)
        each, needed, available = (f"{size / 1e9:.1f} GB" for size in sizes)
        yield f"{setting}: {jobs} compilers of {each} need {needed}, and the machine has {available}"


def _fixed(case: Case) -> Iterator[tuple[str, int]]:
    """Yield every setting that fixes the number of compilers, with the number; 0 for none."""
    yield f"builder.jobs = {case.jobs}", case.jobs
    texts = {
        name: case.environment.get(name, "") for name in ("CMAKE_BUILD_PARALLEL_LEVEL", "EXT_PARALLEL", "MAX_JOBS")
    }
    numbers = {name: int(text) for name, text in texts.items() if _NUMBER.fullmatch(text)}
    level = numbers.pop("CMAKE_BUILD_PARALLEL_LEVEL", 0)
    yield f"CMAKE_BUILD_PARALLEL_LEVEL = {level}", level
    yield " × ".join(f"{name} = {number}" for name, number in numbers.items()), math.prod(numbers.values() or (0,))
