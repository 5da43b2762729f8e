"""docs/gpus.md: the compute capability of each GPU. It is generated from the facts."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.cli.tables.gpus import names
from bakery.toolchains.facts import cuda_releases, gpus, number, wrong_claims
from bakery.toolchains.facts.archs import first_release, last_release
from bakery.toolchains.facts.rows import Gpu

PATH = "docs/gpus.md"
"""The path of the page in the repository."""

_HEAD = """\
# GPUs and architectures

    wheel-bakery gpus '8.0;8.6;9.0+PTX'             # notation of torch
    wheel-bakery gpus '80;90a;120-virtual'          # notation of CMake
    wheel-bakery gpus 'sm_80,compute_90' --json     # notation of nvcc
    wheel-bakery gpus '7.0;8.0' --cuda 13.0         # warn about what this CUDA release cannot compile for

The command shows which GPUs a list of architectures covers natively, via PTX, or not at all. It needs no GPU.

## What runs where

- Machine code (`sm_86`, `8.6`) runs on the same major with an equal or higher minor: `sm_80` runs on 8.6 and 8.9,
  `sm_86` not on 8.0, and neither on 9.0.
- `a` (`90a`, `100a`) runs on exactly that capability, as machine code and as PTX.
- `f` (`100f`, CUDA 12.9 and newer) runs on the same major with an equal or higher minor, as machine code and as PTX.
- Plain PTX (`compute_90`, `9.0+PTX`, `90-virtual`) runs on every later GPU: the driver compiles it at first use.
- A Jetson runs only machine code for exactly its capability, or PTX.

In CMake's notation, `90` alone means machine code and PTX. In torch's notation, `9.0` alone means machine code only.
"""

_CLAIMS = """\
## Wrong claims in guides

The table of a guide for building SageAttention with Docker has these errors:
"""

_TAIL = """\
Its list, `7.0;7.5;8.0;8.6;8.9;9.0`, covers no Blackwell GPU at all, and CUDA 13 no longer compiles for 7.0:
`wheel-bakery gpus '7.0;7.5;8.0;8.6;8.9;9.0' --cuda 13.0` shows a warning.
"""


def page() -> str:
    """Return docs/gpus.md."""
    return "\n".join((_HEAD, "## GPUs", "", *_gpus(), "", _CLAIMS, *_claims(), "", _TAIL))


def _gpus() -> Iterator[str]:
    releases = cuda_releases()
    yield f"| compute capability | GPUs | CUDA releases ({releases[0].version} to {releases[-1].version}) |"
    yield "|---|---|---|"
    for gpu in gpus():
        yield f"| {gpu.capability} | {names(gpu)} | {_releases(gpu)} |"


def _releases(gpu: Gpu) -> str:
    major, minor = number(gpu.capability)
    arch = f"{major}{minor}"
    first, last = first_release(arch), last_release(arch)
    oldest, newest = cuda_releases()[0].version, cuda_releases()[-1].version
    ends = [f"from {first}"] if first != oldest else []
    ends += [f"to {last}"] if last != newest else []
    return " ".join(ends) or "all"


def _claims() -> Iterator[str]:
    yield "| the guide says | correct |"
    yield "|---|---|"
    for claim in wrong_claims():
        yield f"| {claim.claimed}: {claim.gpu} | {claim.capability} |"
