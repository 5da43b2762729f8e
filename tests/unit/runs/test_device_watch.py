"""DeviceWatch: what it says of the first file that nvcc compiled."""

from __future__ import annotations

import pytest

from bakery.resolve.device_promises import DevicePromise
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx.progress import LogLines
from bakery.runs.device_watch import DeviceWatch

PROMISES = {"cp312": DevicePromise("13.0.3", ("sm_80", "sm_90", "compute_90")), "open": DevicePromise("13.0.3", ())}


def said(*lines: str, targets: tuple[str, ...] = ("wheel-cp312", "test-cp312")) -> list[str]:
    texts: list[str] = []
    watch = DeviceWatch(Listener(), PROMISES, texts.append)
    watch.start(Board({"wheel-cp312": "cp312", "test-cp312": "cp312", "wheel-open": "open"}))
    for line in lines:
        watch.line(b"", [LogLines(targets, "[compile 1/1] RUN", (line,))])
    return texts


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        ("sm_80 sm_90", ""),
        ("sm_80", "not for sm_90"),
        ("sm_75 sm_80 sm_90", "also for sm_75"),
        ("sm_80 sm_90a", ""),
        ("sm_120a", "not for sm_80 sm_90 and also for sm_120a"),
    ],
)
def test_the_first_file_is_compared_with_the_recipe(gpus: str, told: str) -> None:
    texts = said(
        "[1/9] nvcc", f"bakery: nvcc compiled csrc/my kernel.cu for {gpus}", "bakery: nvcc compiled b.cu for sm_7"
    )
    assert [text.partition(", unlike")[0] for text in texts] == [
        f"cp312: nvcc compiled csrc/my kernel.cu {told}"
    ] * bool(told)


def test_a_recipe_without_a_list_promises_nothing() -> None:
    assert not said("bakery: nvcc compiled a.cu for sm_80", targets=("wheel-open",))
