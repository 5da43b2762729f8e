"""macOS and Windows: limits of cibuildwheel, and parts of a recipe that only Linux has."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
"""CPythons that cibuildwheel supports on all platforms of macOS and Windows."""


def _system(subject: RuleSubject) -> str:
    system = subject.platform.partition("/")[0]
    return {"macos": "macOS", "windows": "Windows"}.get(system, "")


@rule("system-python", "cibuildwheel supports the Pythons for macOS and Windows")
def _python(subject: RuleSubject) -> Iterator[str]:
    if _system(subject) and subject.python not in PYTHONS:
        yield f"cibuildwheel has no Python {subject.python} for {_system(subject)}"


@rule("system-cuda", "Recipes with a CUDA toolkit have only Linux platforms")
def _cuda(subject: RuleSubject) -> Iterator[str]:
    if _system(subject) == "macOS" and subject.plan.cibuildwheel.toolkit != "none":
        yield f"toolkit {subject.plan.cibuildwheel.toolkit!r}: there is no CUDA for macOS"
    if _system(subject) == "Windows" and subject.plan.cibuildwheel.toolkit != "none":
        yield f"toolkit {subject.plan.cibuildwheel.toolkit!r} consists of Linux packages"


@rule("system-native", "Recipes with a native step have only Linux platforms")
def _native(subject: RuleSubject) -> Iterator[str]:
    if _system(subject) and subject.plan.cibuildwheel.native:
        yield f"the native step is a stage of the Dockerfile, and builds on {_system(subject)} have none"


@rule("system-names", "Recipes whose wheels have several names have only Linux platforms")
def _names(subject: RuleSubject) -> Iterator[str]:
    if _system(subject) and len(subject.plan.audit.namings) > 1:
        yield f"on {_system(subject)}, one build gives one wheel, and the recipe has several names"


@rule("system-secrets", "Recipes with secrets have only Linux platforms")
def _secrets(subject: RuleSubject) -> Iterator[str]:
    if _system(subject) and subject.plan.secrets:
        yield f"{_system(subject)} has no steps with secrets ({', '.join(item.name for item in subject.plan.secrets)})"


@rule("windows-quotes", "A test command on Windows uses double quotes", severity=Severity.WARNING)
def _quotes(subject: RuleSubject) -> Iterator[str]:
    command = subject.test_command
    if _system(subject) == "Windows" and "'" in command.replace("\\'", "").split('"')[0]:
        yield f"test command {command[:60]!r} has single quotes, which have no meaning to cmd.exe"
