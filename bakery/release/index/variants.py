"""The files of an index that describe wheel variants, ``{name}-{version}-variants.json`` (PEP 825)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.release.index.files import File, NotAWheel, read_variant
from wheel_audit.variant import Properties, write
from wheel_audit.wheel_names import split_label
from wheel_audit.worker import LimitExceeded, call


def describe(files: Mapping[str, tuple[File, Path]], problems: list[str]) -> dict[str, dict[str, str]]:
    """Return project → name of a file → its text, for all wheel variants among ``files`` (name → entry and path).

    A label has the same properties in every wheel of a version; ``problems`` gets those that differ.
    """
    projects: dict[tuple[str, str], dict[str, Properties]] = {}
    formats: dict[tuple[str, str], str] = {}
    for name, (file, path) in sorted(files.items()):
        if not split_label(name)[1]:
            continue
        try:
            variant = call(read_variant, path.absolute(), size=path.lstat().st_size)
        except (NotAWheel, OSError) as error:
            problems.append(f"{path}: {error}")
            continue
        except LimitExceeded as error:
            problems.append(f"{path}: reading it was stopped: {error.message}")
            continue
        # As in the file names, where a dash separates the parts.
        key = file.project, "-".join(split_label(name)[0].split("-")[:2])
        labels = projects.setdefault(key, {})
        if formats.setdefault(key, variant.dialect) != variant.dialect:
            problems.append(f"{name}: is in the format {variant.dialect}, others of its version in {formats[key]}")
        if labels.setdefault(variant.label, variant.properties) != variant.properties:
            problems.append(f"{name}: another wheel of its version has other properties for the label {variant.label}")
    result: dict[str, dict[str, str]] = {}
    for (project, stem), labels in projects.items():
        result.setdefault(project, {})[f"{stem}-variants.json"] = write(labels, formats[project, stem])
    return result
