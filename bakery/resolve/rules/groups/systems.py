"""macOS and Windows: what cibuildwheel supports, and which parts of a recipe do not apply."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import Severity, rule

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
"""CPythons that cibuildwheel has for every platform of macOS and Windows."""

_SOURCE = "cibuildwheel 4.3.3: resources/build-platforms.toml, and --print-build-identifiers run"


def _system(case: Case) -> str:
    system = case.platform.partition("/")[0]
    return {"macos": "macOS", "windows": "Windows"}.get(system, "")


@rule(
    "system-python",
    "A Python for macOS and Windows is one that cibuildwheel installs",
    why="Its configuration would name cells that it does not know, and leave them out without a word.",
    fix=f'use {", ".join(PYTHONS)}, or exclude the others: exclude = [{{ platform = "macos/*", python = "…" }}]',
    source=_SOURCE,
)
def _python(case: Case) -> Iterator[str]:
    if _system(case) and case.python not in PYTHONS:
        yield f"cibuildwheel has no Python {case.python} for {_system(case)}"


@rule(
    "system-cuda",
    "Recipes with a CUDA toolkit have platforms of Linux only",
    why="NVIDIA ended CUDA for macOS with release 10.2; bakery's toolkits are made of Debian's packages and of NVIDIA's "
    "wheels for Linux, and cibuildwheel brings none for Windows.",
    fix="remove the platform; a build for it without CUDA is a recipe of its own, with toolkit none",
    source="NVIDIA, CUDA 10.2 release notes; docs/cuda.md, Toolkits",
)
def _cuda(case: Case) -> Iterator[str]:
    if _system(case) == "macOS" and case.cibuildwheel.toolkit != "none":
        yield f"toolkit {case.cibuildwheel.toolkit!r}: there is no CUDA for macOS"
    if _system(case) == "Windows" and case.cibuildwheel.toolkit != "none":
        yield f"toolkit {case.cibuildwheel.toolkit!r} is made of packages of Linux"


@rule(
    "system-native",
    "Recipes with a native step have platforms of Linux only",
    why="The step runs in a container of Linux, and its result is for Linux.",
    fix="remove the platform, or let the project's own build make what the native step makes",
    source="bakery/resolve/native.py",
)
def _native(case: Case) -> Iterator[str]:
    if _system(case) and case.cibuildwheel.native:
        yield f"the native step runs in a stage of the Dockerfile, which {_system(case)} does not have"


@rule(
    "system-names",
    "Recipes whose wheels have several names have platforms of Linux only",
    why="cibuildwheel takes exactly one wheel from a build's repair, and ends with an error for several.",
    fix="remove wheel.also-named, or the platform",
    source="cibuildwheel 4.3.3: errors.RepairStepProducedMultipleWheelsError",
)
def _names(case: Case) -> Iterator[str]:
    if _system(case) and case.several_names:
        yield f"on {_system(case)} one build gives one wheel, and the recipe wants several names"


@rule(
    "system-secrets",
    "Recipes with secrets have platforms of Linux only",
    why="A step that gets a secret and leaves no trace of it is one of BuildKit's.",
    fix="remove the platform, or hand in what the build needs by the machine's own environment",
    source="docs/recipe.md, [secrets.NAME]",
)
def _secrets(case: Case) -> Iterator[str]:
    if _system(case) and case.secrets:
        yield f"steps that get secrets ({', '.join(case.secrets)}) do not exist on {_system(case)}"


@rule(
    "windows-quotes",
    "A test command on Windows puts its words into double quotes",
    why="cmd.exe splits text in single quotes at each blank, so Python gets half a program.",
    fix="write test.command with double quotes outside, or set windows.test-command",
    source="cibuildwheel runs it by subprocess with shell=True (util/cmd.py), which is cmd.exe on Windows",
    severity=Severity.WARNING,
)
def _quotes(case: Case) -> Iterator[str]:
    command = case.test_command
    if _system(case) == "Windows" and "'" in command.replace("\\'", "").split('"')[0]:
        yield f"test command {command[:60]!r} has single quotes, which cmd.exe takes for characters"
