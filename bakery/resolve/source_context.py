"""Which files of the project enter the build context."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.core.dockerignore import escaped, normalised
from bakery.core.names import size_mb
from bakery.plan.delivery import SourceContext
from bakery.plan.model import ignored_output, leaves
from bakery.resolve.stage_inputs import StageInputs, folder

OWN = ("**/.git", "**/.bakery", "**/.provenance", "**/bakery.lock", "**/bakery.toml")
"""The files of git and of Bakery: no part of a source."""

METADATA = "**/*.egg-info"
"""Metadata of setuptools: the result of a build, but a part of a source archive."""

RESULTS = (
    "**/__pycache__",
    "**/.*_cache",
    "**/.hypothesis",
    "**/.nox",
    "**/.tox",
    "**/.venv",
    METADATA,
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
"""Files that look like the results of a build on this machine.

Results, caches and history change without changing a wheel. A build in a container would treat objects, extensions and
CMake's cache of a local build as up to date, and include them in the wheel. Of a project's own files with such a name, a rule tells (``tracked-results``).
"""

IGNORED = (*OWN, *RESULTS)
"""Files that enter the build context only if ``source.ignore`` has an exception for them."""


def ignore_patterns(inputs: StageInputs, generated: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of the plan's ignore file; ``generated`` are the files that Bakery writes."""
    patterns = (
        *_output(inputs),
        *generated,
        *_in_context(inputs, inputs.recipe.source.ignore),
        # Last, so that no exception of the recipe sends a secret's file: only the steps that the secret names get it.
        *(escaped(item.file) for item in inputs.secrets if item.file and not leaves(item.file)),
    )
    return (*IGNORED, *(pattern for pattern in patterns if pattern and pattern not in IGNORED))


def source_context(inputs: StageInputs) -> SourceContext:
    """Return which part of the project's folder is sent to BuildKit."""
    settings = inputs.settings
    if not settings.recipe.source.path or settings.recipe.image:
        return SourceContext()
    own = _in_context(inputs, settings.recipe.source.ignore)
    return SourceContext(
        folder(inputs),
        _in_context(inputs, settings.recipe.source.accept),
        size_mb(settings.recipe.source.expected_size),
        "ignore" in settings.recipe.source.model_fields_set,
        (*RESULTS, *_output(inputs), *(f"!{text}" for text in own if not text.startswith("!"))),
    )


def _output(inputs: StageInputs) -> tuple[str, ...]:
    """Return the patterns of what builds on this machine leave in the folder of the source."""
    inside = folder(inputs) if inputs.recipe.source.path else "."
    results = "build/lib" if inside == "." else f"{inside}/build/lib"
    return (results, *ignored_output(inputs.recipe.output.directory, inside))


def _in_context(inputs: StageInputs, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns that are relative to the source as patterns of the build context."""
    if not patterns or not inputs.recipe.source.path:
        return ()
    inside = "" if folder(inputs) == "." else folder(inputs) + "/"
    return tuple(f"{'!' * text.startswith('!')}{inside}{text.removeprefix('!')}" for text in map(normalised, patterns))
