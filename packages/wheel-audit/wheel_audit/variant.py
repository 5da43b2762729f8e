"""Wheel variants (PEP 825): the properties that device code proves, and ``variant.json``.

The formats and names, which are drafts, are in ``variants.toml``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wheel_audit.elf import SharedObject
from wheel_audit.fatbin import DeviceImage
from wheel_audit.pe import PeImage
from wheel_audit.readers import json_of
from wheel_audit.systems import cuda_majors
from wheel_audit.wheel import is_grafted

NULL = "null"
"""The label of the wheel without properties, which fits every machine."""

FILE = "variant.json"
LOWER, UPPER, ARCH = "cuda_version_lower_bound", "cuda_version_upper_bound", "sm_arch"
X86, LEVEL = "x86_64", "level"

_PREFIXES = {"sm": "real", "compute": "virtual"}
_LABEL, _WORD, _VALUE = (re.compile(pattern) for pattern in (r"[0-9a-z_.]+\Z", r"[a-z0-9_]+\Z", r"[a-z0-9_.]+\Z"))
_RELEASE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?\Z")
_KEYS = {"$schema", "default-priorities", "variants"}

Properties = Mapping[str, Mapping[str, Sequence[str]]]
"""Namespace → feature → values. A machine must fit one value of each feature."""


class BadVariant(ValueError):
    """Why a wheel cannot be a variant, or why its variant.json is invalid."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The content of a variant.json: its dialect, the order of namespaces, and the properties of its one label."""

    dialect: str
    namespaces: tuple[str, ...]
    label: str
    properties: Properties


@cache
def _facts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("variants.toml").read_text(encoding="utf-8"))


def dialects() -> tuple[str, ...]:
    """Return the names of the formats of variant.json; the first is the default."""
    return tuple(row["name"] for row in _facts()["dialects"])


def derive(objects: Iterable[SharedObject | PeImage]) -> Properties:
    """Return the properties that a wheel's objects prove; none for one that fits every machine.

    ``x86_64 :: level`` is the level that objects say they need, if it is above the first. ``sm_arch`` has all architectures with code. ``cuda_version_lower_bound`` is the oldest driver that runs all of it:
    machine code needs its toolkit's major release, PTX the release of its version, packed code one that unpacks it.

    Raises BadVariant if a wheel without device code needs CUDA, or if the CUDA release cannot be read.
    """
    objects = tuple(objects)
    level = max((item.x86_level for item in objects), default=0)
    return _cuda_properties(objects) | ({X86: {LEVEL: [f"v{level}"]}} if level > 1 else {})


def _cuda_properties(objects: Iterable[SharedObject | PeImage]) -> dict[str, dict[str, list[str]]]:
    built = [item for item in objects if not is_grafted(item.path)]
    linked = {majors[0] for item in built for name in item.needed if (majors := cuda_majors(name))}
    images = [image for item in built for image in item.device_code.images if image.kind in ("elf", "ptx")]
    if damaged := next((item for item in built if item.device_code.defect), None):
        raise BadVariant(f"the device code of {damaged.path} cannot be read: {damaged.device_code.defect}")
    if not images:
        if linked:
            raise BadVariant(f"it has no device code, but needs a library of CUDA {', '.join(sorted(linked))}")
        return {}
    bounds = {bound for image in images for bound in _bounds(image)} | {f"{major}.0" for major in linked}
    if not any(image.kind == "ptx" or image.toolkit for image in images) and not linked:
        raise BadVariant("its device code does not say which CUDA release made it, and it has no PTX")
    archs = {f"{number}_{_PREFIXES[kind]}" for kind, number in (image.arch.split("_") for image in images)}
    return {"nvidia": {LOWER: [max(bounds, key=_number)], ARCH: sorted(archs)}}


def _bounds(image: DeviceImage) -> Iterable[str]:
    """Yield the CUDA releases that the driver must have at least."""
    facts = _facts()
    if image.compressed == "zstd":
        yield facts["zstd"]["cuda"]
    if image.kind == "elf" and image.toolkit:
        yield f"{image.toolkit.partition('.')[0]}.0"
    if image.kind == "ptx":
        if _number(image.ptx_isa) < (7, 0):
            yield "11.0"
        elif release := facts["ptx"].get(image.ptx_isa):
            yield release
        else:
            raise BadVariant(f"it is not known which driver reads its PTX {image.ptx_isa}")


def _number(release: str) -> tuple[int, ...]:
    """Return major and minor of a release: 13 is 13.0."""
    return tuple(map(int, f"{release}.0".split(".")))[:2]


def label_of(properties: Properties) -> str:
    """Return the label of properties from `derive`, such as ``cu12.8_80_90_90v``: equal ones have equal labels."""
    if not properties:
        return NULL
    parts = []
    if nvidia := properties.get("nvidia"):
        pairs = sorted(
            (value.partition("_") for value in nvidia.get(ARCH, ())), key=lambda pair: (_arch_key(pair[0]), pair[2])
        )
        archs = (number + ("v" if kind == "virtual" else "") for number, _, kind in pairs)
        parts += [f"cu{nvidia.get(LOWER, ('',))[0]}", *archs]
    if level := properties.get(X86, {}).get(LEVEL):
        parts.append(f"x86{level[0]}")
    return "_".join(parts)


def is_label(text: str) -> bool:
    """Whether a file name may end in this label."""
    return bool(_LABEL.match(text))


def declare(proven: Properties, declared: Mapping[str, Sequence[str]]) -> Properties:
    """Return properties with some values replaced by those of a recipe: ``namespace :: feature`` → values.

    Whether the wheel has what they claim is for `contradictions` to say.
    """
    result = {space: dict(features) for space, features in proven.items()}
    for name, values in declared.items():
        space, _, feature = name.partition(" :: ")
        result.setdefault(space, {})[feature] = sorted(set(values))
    return result


def _arch_key(number: str) -> tuple[int, str]:
    digits = number.rstrip("af")
    return int(digits) if digits.isdecimal() else 0, number[len(digits) :]


def write(variants: Mapping[str, Properties], dialect: str) -> str:
    """Return the text of variant.json for one label, or of an index's file for all labels of a version."""
    facts = _facts()
    row = next(row for row in facts["dialects"] if row["name"] == dialect)
    used = {name for properties in variants.values() for name in properties}
    # The list may not be empty, also if all variants are null.
    spaces = [item for item in facts["namespaces"] if item["name"] in used] or facts["namespaces"][:1]
    document: dict[str, object] = {
        "$schema": row["schema"],
        "default-priorities": {"namespace": [item["name"] for item in spaces]},
        "variants": {label: variants[label] for label in sorted(variants)},
    }
    if row["providers"]:
        document["providers"] = {
            item["name"]: {"requires": [item["requires"]], "plugin-api": item["plugin-api"]} for item in spaces
        }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def read(text: bytes) -> Variant:
    """Return the content of a wheel's variant.json. Raises BadVariant if it is invalid."""
    try:
        document = json_of(text)
    except ValueError as error:
        raise BadVariant(f"is not JSON: {error}"[:300]) from None
    if not isinstance(document, dict):
        raise BadVariant("is no JSON object")
    facts = _facts()
    row = next((row for row in facts["dialects"] if row["schema"] == document.get("$schema")), None)
    if row is None:
        known = ", ".join(item["schema"] for item in facts["dialects"])
        raise BadVariant(f"has $schema {document.get('$schema')!r:.100}; expected one of {known}")
    keys = _KEYS | ({"providers"} if row["providers"] else set())
    if wrong := sorted(keys ^ document.keys()):
        raise BadVariant(f"must have exactly the keys {', '.join(sorted(keys))}; wrong: {', '.join(wrong)[:200]}")
    variants = document["variants"]
    if not (isinstance(variants, dict) and len(variants) == 1):
        raise BadVariant("must have exactly one entry in variants")
    label, properties = next(iter(variants.items()))
    if not _LABEL.match(label):
        raise BadVariant(f"has an invalid label: {label!r:.100}")
    _check_properties(label, properties)
    spaces = _priorities(document["default-priorities"], set(properties))
    if row["providers"] and (wanted := json_of(write({label: properties}, row["name"]))["providers"]):
        _check_providers(document["providers"], wanted, spaces)
    return Variant(row["name"], spaces, label, properties)


def _check_properties(label: str, properties: object) -> None:
    if not isinstance(properties, dict):
        raise BadVariant(f"{label} is no JSON object")
    if (label == NULL) is bool(properties):
        raise BadVariant(f"{label} has {'properties' if properties else 'none'}; only {NULL} has none")
    known = {item["name"]: item["features"] for item in _facts()["namespaces"]}
    for space, features in properties.items():
        if space not in known:
            raise BadVariant(f"has the unknown namespace {space!r:.100}; known: {', '.join(known)}")
        if not (isinstance(features, dict) and features):
            raise BadVariant(f"{space} has no features")
        for feature, values in features.items():
            if feature not in known[space]:
                raise BadVariant(f"{space} has the unknown feature {feature!r:.100}; known: {', '.join(known[space])}")
            if not (isinstance(values, list) and values and all(isinstance(item, str) for item in values)):
                raise BadVariant(f"{space} :: {feature} is no list of values")
            if not all(map(_VALUE.match, values)) or values != sorted(set(values)):
                raise BadVariant(f"{space} :: {feature} has values that are invalid, repeated or not sorted")


def _priorities(section: object, used: set[str]) -> tuple[str, ...]:
    spaces = section.get("namespace") if isinstance(section, dict) and section.keys() == {"namespace"} else None
    if not (
        isinstance(spaces, list) and spaces and all(isinstance(item, str) and _WORD.match(item) for item in spaces)
    ):
        raise BadVariant("default-priorities must have namespace, a list that is not empty, and nothing else")
    if len(set(spaces)) != len(spaces) or not used <= set(spaces):
        raise BadVariant("default-priorities.namespace must have every namespace of the properties, and each once")
    return tuple(spaces)


def _check_providers(section: object, wanted: Mapping[str, object], spaces: Sequence[str]) -> None:
    # An installer may run the named package: only known ones are accepted.
    if not isinstance(section, dict) or section.keys() != set(spaces):
        raise BadVariant("providers must have every namespace of default-priorities, and nothing else")
    for name, provider in section.items():
        if provider != wanted.get(name):
            raise BadVariant(f"names another provider of {name} than {wanted.get(name)}"[:300])


def contradictions(variant: Variant, objects: Sequence[SharedObject | PeImage]) -> Iterable[str]:
    """Yield how a variant's properties contradict the wheel's objects."""
    try:
        proven = derive(objects)
    except BadVariant as reason:
        yield str(reason)
        return
    yield from _level_contradictions(variant, proven)
    claimed, real = variant.properties.get("nvidia", {}), proven.get("nvidia", {})
    if not real:
        if claimed:
            yield "claims properties of NVIDIA GPUs, and the wheel has no device code"
        return
    if variant.label == NULL:
        yield f"{NULL} fits every machine, but the wheel has device code, which needs a GPU and a driver"
        return
    archs = set(claimed.get(ARCH, ()))
    if unproven := sorted(archs - set(real[ARCH])):
        yield f"claims {ARCH} {', '.join(unproven)[:200]}; the wheel has code for {', '.join(real[ARCH])}"
    if not archs:
        yield f"has no {ARCH}, so it fits GPUs that the wheel has no code for"
    yield from _driver_contradictions(claimed, real[LOWER][0])


def _driver_contradictions(claimed: Mapping[str, Sequence[str]], needed: str) -> Iterable[str]:
    bounds = (*claimed.get(LOWER, ()), *claimed.get(UPPER, ()))
    if wrong := [item for item in bounds if not _RELEASE.match(item)]:
        yield f"{wrong[0][:50]!r} is no CUDA release"
        return
    lowest = min(claimed.get(LOWER, ["0.0"]), key=_number)
    if _number(lowest) < _number(needed):
        yield f"claims {LOWER} {lowest}; the wheel's device code needs a driver for CUDA {needed}"
    if any(_number(item) <= _number(needed) for item in claimed.get(UPPER, ())):
        yield f"{UPPER} admits no driver that runs the wheel's device code, which needs CUDA {needed}"


def _level_contradictions(variant: Variant, proven: Properties) -> Iterable[str]:
    claimed, real = variant.properties.get(X86, {}).get(LEVEL, ()), proven.get(X86, {}).get(LEVEL, ())
    if claimed and not real:
        yield (
            f"claims {X86} :: {LEVEL} {', '.join(claimed)[:50]}, and no object says that it needs more than the first "
            "level: compile with -march=x86-64-v3 -mneeded, for example"
        )
    elif real and not claimed:
        yield f"fits every x86-64 machine, but its objects need level {real[0]}"
    elif real and min(claimed) < real[0]:
        yield f"claims {X86} :: {LEVEL} {min(claimed)[:50]}, and its objects need {real[0]}"
