"""Commands that need neither a recipe nor an engine: ``gpus``, ``rules``, ``explain``, ``schema``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, echo_text, err, out
from bakery.core.errors import UsageError


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
    json: parameters.AsJson = False,
) -> None:
    """Show which GPUs a list of architectures covers: natively, via PTX, or not at all.

    Example: wheel-bakery gpus '8.0;8.6;9.0+PTX' --cuda 12.8
    """
    from bakery.cli.tables import gpus as report
    from bakery.toolchains.facts import cuda_release, cuda_releases
    from bakery.toolchains.facts.archs import cover, known, lack, parse

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
        err.print(f"warning: {text}")
    if release:
        echo(f"wheels built with CUDA {release.version} need driver {release.floor} or newer")


def rules(json: parameters.AsJson = False) -> None:
    """List the rules that every plan is checked against.

    Example: wheel-bakery rules && wheel-bakery explain torch-arch-list
    """
    from bakery.cli.tables import rules as report
    from bakery.resolve.rules import rules as all_rules

    if json:
        echo_json(report.to_json(all_rules()))
    else:
        out.print(report.table(all_rules()))


def explain(
    rule: Annotated[
        str, typer.Argument(help="A rule, from `wheel-bakery rules`, or a finding of the audit.", metavar="RULE")
    ],
    json: parameters.AsJson = False,
) -> None:
    """Explain a rule: what must hold, why, how to fix it, and the source; or what a finding of the audit means.

    Example: wheel-bakery explain cuda-unknown-arch
    """
    from difflib import get_close_matches

    from bakery.cli.tables import rules as report
    from bakery.resolve.rules import rules as all_rules
    from wheel_audit.checks import check_ids, hint_of

    by_id = {item.id: item for item in all_rules()}
    findings = check_ids()
    if rule in findings:
        document = {"id": rule, "text": findings[rule], "fix": hint_of(rule)}
        shown = report.finding(document)
    elif rule in by_id:
        document, shown = report.rule_json(by_id[rule]), report.explanation(by_id[rule])
    else:
        near = get_close_matches(rule, [*by_id, *findings], n=1)
        hint = f"did you mean {near[0]}?" if near else "`wheel-bakery rules` lists all rules"
        raise UsageError(f"unknown rule or finding {rule[:60]!r}", hint=hint)
    if json:
        echo_json(document)
    else:
        out.print(shown)


def schema(
    what: Annotated[
        str, typer.Argument(help="The kind of file: recipe, pyproject, lock, or one of a plugin.", metavar="KIND")
    ] = "recipe",
) -> None:
    """Print the JSON schema of a recipe, a pyproject.toml with one, or a lock file.

    Example: wheel-bakery schema recipe > recipe.schema.json
    """
    from bakery.cli.json_schema import schema_text

    echo_text(schema_text(what).rstrip("\n"))


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.")]) -> None:
    """Print a script that makes a shell complete commands, options, recipes, cells and variables.

    Example: eval "$(wheel-bakery completion bash)"
    """
    from bakery.cli.shell_completion import script

    echo_text(script(shell).rstrip("\n"))
