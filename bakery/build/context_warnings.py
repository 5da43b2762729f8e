"""Warnings about the files that an engine is sent."""

from __future__ import annotations

from pathlib import Path

from bakery.build.context_scan import ContextContent, scan
from bakery.core.dockerignore import normalised
from bakery.core.plain_files import read_plain
from bakery.plan.model import Plan

_NAMED = 5
_LARGEST = 1 << 20


def warnings(root: Path, plan: Plan) -> list[str]:
    """Return the warnings about a plan's build context; none if nothing is sent."""
    if not plan.source_context.folder:
        return []
    content = scan(root, plan.source_context, plan.ignore)
    return [*_size(plan, content), *_secrets(content), *_ignore_file(root, plan)]


def _size(plan: Plan, content: ContextContent) -> list[str]:
    if content.size <= plan.source_context.expected_mb * 10**6:
        return []
    largest = ", ".join(f"{name} {_mb(size)}" for name, size in content.folders.most_common(3))
    return [
        f"the source is {_mb(content.size)} in {content.files} files, more than {plan.source_context.expected_mb} MB: {largest}; leave "
        f'out what no build needs with source.ignore, or say source.expected-size = "{-(-content.size // 10**9)} GB"'
    ]


def _secrets(content: ContextContent) -> list[str]:
    if not content.secrets:
        return []
    paths = sorted(content.secrets)
    named = ", ".join(f"{path!r} ({content.secrets[path]})" for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if paths[_NAMED:] else ""
    return [
        f"what looks like a secret would be sent to the engine: {named}{more}; leave it out with source.ignore, hand it "
        "to steps as [secrets], or list it in source.accept"
    ]


def _ignore_file(root: Path, plan: Plan) -> list[str]:
    """A Dockerfile's own ignore file beats the project's, and every Dockerfile of bakery has one."""
    path = root / ".dockerignore"
    try:
        lines = read_plain(path, _LARGEST).decode("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
    if plan.source_context.has_ignore or not set(filter(None, map(normalised, lines))) - set(plan.ignore):
        return []
    return [
        ".dockerignore is not read: Docker takes that of bakery's Dockerfile; repeat in source.ignore what no build "
        "needs, or write source.ignore = []"
    ]


def _mb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
