"""``wheel-bakery init``: write a first recipe for a project. Needs no engine, and runs nothing of the project."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli.console import ask, echo, echo_text, say
from bakery.core.errors import UsageError

if TYPE_CHECKING:
    from bakery.init.tree import Tree
    from bakery.init.write import Draft

REGISTRY_S = 3.0
"""Seconds that an image registry has to answer."""


def init(
    folder: Annotated[Path, typer.Argument(help="The folder of the project.", metavar="DIR")] = Path(),
    pyproject: Annotated[
        bool, typer.Option("--pyproject", help="Write [tool.wheel-bakery] of pyproject.toml instead of bakery.toml.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            help="The base: manylinux_2_28 (default) or another short name, debian, or the name of an image.",
            metavar="BASE",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take the default of every question.")] = False,
    print_: Annotated[bool, typer.Option("--print", help="Print the recipe, and write nothing.")] = False,
) -> None:
    """Write a first recipe for a project: bakery.toml, with a comment on each guess.

    Reads pyproject.toml, setup.py, CMake, Meson and Cargo files, sources, the settings of cibuildwheel and
    docker-bake.hcl. Runs no code of the project, and overwrites nothing.

    Example: wheel-bakery init && wheel-bakery wheel
    """
    from bakery.cli.recipes import ok, print_warnings
    from bakery.init.bases import DEFAULT, base_choice
    from bakery.init.make import make_recipe
    from bakery.init.tree import scan
    from bakery.init.write import find_target

    is_asking = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    tree = scan(folder)
    target = find_target(tree, pyproject=pyproject, is_printed=print_)
    source = _source(tree, is_asking=is_asking)

    @cache
    def choose(question: str, options: Sequence[str]) -> str:
        return _ask(question, options) if is_asking else options[0]

    result = make_recipe(tree, source, target, base_choice(base) if base else None, choose)
    is_default = base is None and result.draft.base == DEFAULT
    if is_default and not print_ and (registry := _silent_registry()):
        result = make_recipe(tree, source, target, base_choice("debian"), choose)
        say(
            f"note: {registry} does not answer, so the base is debian, which is made here; where it answers, "
            f"--base {DEFAULT} gives wheels for older Linux, and more Pythons"
        )
    print_warnings(result.plan, result.warnings)
    if print_ or result.refusal:
        echo_text(result.text.rstrip("\n"))
        _report(result.draft)
        if result.refusal:
            # It is not written: what to change in it is in the message.
            raise result.refusal
        return
    target.write(result.text)
    echo(f"{target.file.name}: {result.text.count(chr(10))} lines: {result.draft.title}")
    _report(result.draft)
    echo(ok(result.plan))
    option = "" if folder.resolve() == Path.cwd() else f" -C {shlex.quote(str(folder))}"
    echo(f"next: wheel-bakery{option} wheel")


def _silent_registry() -> str:
    """Return the registry of the default base if it does not answer, and this machine can make Debian's; else nothing."""
    from bakery.core.connections import answers
    from bakery.engine.debian_packages import can_make_bases
    from bakery.init.bases import DEFAULT
    from bakery.toolchains.facts import pinned_images

    registry = pinned_images()[DEFAULT][0].image.partition("/")[0]
    return registry if can_make_bases() and not answers(f"https://{registry}/v2/", REGISTRY_S) else ""


def _source(tree: Tree, *, is_asking: bool) -> str:
    """Return the folder of the project in the tree; empty for the tree's own.

    Raises:
        UsageError: there is none, or there are several and nobody can be asked.
    """
    from bakery.init.project import candidates

    folders = candidates(tree)
    if not folders:
        raise UsageError(
            f"no Python project in {tree.root}",
            hint="name the folder of the project: wheel-bakery init DIR",
            details=[
                "looked for setup.py, setup.cfg, and pyproject.toml with [project] or [build-system]",
                *tree.skipped,
            ],
        )
    if len(folders) == 1:
        return folders[0]
    if is_asking:
        return _ask("Several projects are in this folder. Which one is the recipe for?", folders[:20])
    raise UsageError(
        f"{len(folders)} projects in {tree.root}",
        hint=f"name one: wheel-bakery init {shlex.quote(folders[0])}",
        details=folders[:20],
    )


def _ask(question: str, options: Sequence[str]) -> str:
    """Return the option that the user chooses; the first one is the default."""
    shown = f"{question}\n" + "\n".join(f"  {number}  {option}" for number, option in enumerate(options, 1))
    for _ in range(3):
        answer = ask(f"{shown}\nNumber")
        if answer in options:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1]
    raise UsageError("none of the options was chosen", hint="run the command again, or with --yes")


def _report(draft: Draft) -> None:
    for note in draft.notes:
        say(f"note: {note}")
    by_reason: dict[str, list[str]] = {}
    for what, reason in draft.rest:
        by_reason.setdefault(reason, []).append(what)
    if by_reason:
        say("not carried over:")
    for reason, items in by_reason.items():
        say(f"  {', '.join(items)}: {reason}")
