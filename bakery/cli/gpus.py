"""``wheel-bakery gpus``: the GPUs that a list of architectures covers. Needs no GPU and no engine."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, echo_json, err, out


def gpus(
    archs: Annotated[
        list[str],
        typer.Argument(
            help="Architectures in the notation of torch ('8.0;9.0+PTX'), CMake ('80;90a;120-virtual') or nvcc "
            "('sm_80,compute_90'). Several arguments form one list.",
            metavar="ARCHS",
        ),
    ],
    cuda: Annotated[
        str,
        typer.Option(
            "--cuda", help="Warn about architectures that this CUDA release cannot compile for.", metavar="RELEASE"
        ),
    ] = "",
    json: options.AsJson = False,
) -> None:
    """Show which GPUs a list of architectures covers: natively, via PTX, or not at all.

    [dim]wheel-bakery gpus '8.0;8.6;9.0+PTX' --cuda 12.8[/dim]
    """
    from bakery.cli.tables import gpus as report
    from bakery.core.errors import UsageError
    from bakery.toolchains.facts import cuda_release, cuda_releases
    from bakery.toolchains.facts.archs import known, parse
    from bakery.toolchains.facts.cover import cover, lack

    parsed = parse(" ".join(archs))
    release = cuda_release(cuda) if cuda else None
    if cuda and release is None:
        versions = ", ".join(item.version for item in cuda_releases())
        raise UsageError(f"unknown CUDA release {cuda!r}", hint=f"known releases: {versions}")
    # Without a release, the newest one shows which architectures no release has.
    lacks = [
        lack(arch.number, release or cuda_releases()[-1]) for arch in parsed if release or arch.number not in known()
    ]
    warnings = [item.text for item in lacks if item]
    coverage = cover(parsed)
    if json:
        echo_json(report.to_json([str(arch) for arch in parsed], cuda, coverage, warnings))
        return
    out.print(report.table(coverage))
    for text in warnings:
        err.print(f"warning: {text}", markup=False)
    if release:
        echo(f"wheels built with CUDA {release.version} need driver {release.floor} or newer")
