"""Which files of the project enter the build context."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.core.dockerignore import escaped, normalised
from bakery.core.names import size_mb
from bakery.plan.model import ignored_output, leaves
from bakery.plan.options import SourceContext
from bakery.resolve.stage_inputs import Parts, folder

IGNORED = (
    ".git",
    "**/.bakery",
    "**/.provenance",
    "**/bakery.lock",
    "**/bakery.toml",
    "**/__pycache__",
    "**/.*_cache",
    "**/.hypothesis",
    "**/.nox",
    "**/.tox",
    "**/.venv",
    "**/*.egg-info",
    "**/*.cpython-*.so",
    "**/*.abi3.so",
    "**/build/bdist.*",
    "**/build/lib.*",
    "**/build/temp.*",
    "**/CMakeCache.txt",
    "**/CMakeFiles",
    "dist",
    "wheels",
    "wheelhouse",
)
"""Files that never enter the build context.

Results, caches and history change without changing a wheel. A build in a container would treat objects, extensions and
CMake's cache of a local build as up to date, and include them in the wheel.
"""


def ignore_patterns(parts: Parts, generated: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of the plan's ignore file; ``generated`` are the files that Bakery writes."""
    inside = folder(parts) if parts.settings.text("source.path") else "."
    patterns = (
        "build/lib" if inside == "." else f"{inside}/build/lib",
        ignored_output(parts.settings.text("output.directory")),
        *generated,
        *_in_context(parts, parts.settings.texts("source.ignore")),
        # Last, so that no exception of the recipe sends a secret's file: only the steps that the secret names get it.
        *(escaped(item.file) for item in parts.secrets if item.file and not leaves(item.file)),
    )
    return (*IGNORED, *(pattern for pattern in patterns if pattern and pattern not in IGNORED))


def source_context(parts: Parts) -> SourceContext:
    """Return which part of the project's folder is sent to BuildKit."""
    settings = parts.settings
    if not settings.text("source.path") or settings.texts("image.requirements"):
        return SourceContext()
    return SourceContext(
        folder(parts),
        _in_context(parts, settings.texts("source.accept")),
        size_mb(settings.text("source.expected-size")),
        settings.origins["source.ignore"][1] != "default",
    )


def _in_context(parts: Parts, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns that are relative to the source as patterns of the build context."""
    if not patterns or not parts.settings.text("source.path"):
        return ()
    inside = "" if folder(parts) == "." else folder(parts) + "/"
    return tuple(f"{'!' * text.startswith('!')}{inside}{text.removeprefix('!')}" for text in map(normalised, patterns))
