"""Options that several commands take, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Recipes = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe",
        "-r",
        help="A recipe file, a folder that holds one, or the name of a shipped recipe. May be given several "
        "times. Without it: what this folder holds.",
        metavar="RECIPE",
        envvar="BAKERY_RECIPE",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Set a variable of the recipe (CUDA_VERSION=12.8.0), or anything in bake's grammar "
        "('*.args.CUDA_VERSION=12.8.0', '*.platform=linux/arm64'). May be given several times.",
        metavar="NAME=VALUE",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Only the cells that a glob selects: --only 'cp312-*'. May be given several times.",
        metavar="GLOB",
        envvar="BAKERY_ONLY",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="The folder that receives audited wheels.", metavar="DIR", envvar="BAKERY_OUTPUT"
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="What the recipe may do on this machine beyond its folder: fs.read=PATH, fs.write=PATH, or "
        "secret.command=NAME (run the program that prints a secret). May be given several times.",
        metavar="WHAT",
        envvar="BAKERY_ALLOW",
    ),
]
CaBundle = Annotated[
    Path | None,
    typer.Option(
        "--ca-bundle",
        help="A company's CA bundle (PEM). Without it, the usual variables are looked at (SSL_CERT_FILE, …). "
        "Build steps get it as a secret; it ends in no image and no cache key.",
        metavar="FILE",
        envvar="BAKERY_CA_BUNDLE",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        help="One of N nearly equal parts of the cells, for a CI with N machines: --shard 2/4. The same plan gives the "
        "same parts; what compiles once stays together.",
        metavar="I/N",
        envvar="BAKERY_SHARD",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Leave out the cells that nothing touched which changed since a revision of git, and say why.",
        metavar="REV",
    ),
]
