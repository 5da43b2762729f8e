"""``wheel-bakery gpus``: which GPUs a list of architectures covers. Pure Python, no GPU, no engine."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, out


def gpus(
    archs: Annotated[
        list[str],
        typer.Argument(
            help="Architectures as torch ('8.0;9.0+PTX'), CMake ('80;90a;120-virtual') or nvcc ('sm_80,compute_90') "
            "write them; several words are one list.",
            metavar="ARCHS",
        ),
    ],
    cuda: Annotated[
        str, typer.Option("--cuda", help="Warn about what this CUDA release cannot compile for.", metavar="RELEASE")
    ] = "",
    json: options.AsJson = False,
) -> None:
    """Show which GPUs a list of architectures covers: natively, by PTX, or not at all.

    [dim]wheel-bakery gpus '8.0;8.6;9.0+PTX' --cuda 12.8[/dim]
    """
    from bakery.cli.tables import gpus as report
    from bakery.core.errors import UsageError
    from bakery.toolchains.facts import cuda_release, cuda_releases
    from bakery.toolchains.facts.archs import known, parse
    from bakery.toolchains.facts.cover import cover, lack

    wanted = parse(" ".join(archs))
    release = cuda_release(cuda) if cuda else None
    if cuda and release is None:
        raise UsageError(
            f"no CUDA release {cuda!r} is known",
            hint=f"known are {', '.join(item.version for item in cuda_releases())}",
        )
    # Without a release, the newest tells what no release has at all.
    checked = release or cuda_releases()[-1]
    lacks = [lack(arch.number, checked) for arch in wanted if release or arch.number not in known()]
    warnings = [item.text for item in lacks if item]
    coverage = cover(wanted)
    if json:
        out.print(report.to_json([str(arch) for arch in wanted], cuda, coverage, warnings), markup=False)
    else:
        out.print(report.table(coverage))
        for text in warnings:
            err.print(f"warning: {text}", markup=False)
        if release:
            out.print(f"built with CUDA {release.version}, it needs a driver from {release.floor} on", markup=False)
