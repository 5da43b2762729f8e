"""Wheel variants: which properties device code proves, and lies in variant.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from elfs import level_note, shared_object
from fatbins import ELF, ZSTD, cubin, entry, fatbin, for_archs
from pes import image
from wheels import EXTENSION, TAG, write_wheel

from wheel_audit.auditor import audit_wheel
from wheel_audit.elf import needed_level
from wheel_audit.variant import BadVariant, declare, derive, dialects, label_of, read, write

pytestmark = pytest.mark.usefixtures("no_tools")

INFO = "demo-1.0.dist-info/variant.json"
ARCHS = ("sm_80", "sm_90", "compute_90")
HONEST = {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["80_real", "90_real", "90_virtual"]}}


def module(*archs: str, needed: Sequence[str] = ("libc.so.6",), toolkit: int = 128) -> bytes:
    sections = {".nv_fatbin": for_archs(*archs, toolkit=toolkit)} if archs else {}
    return shared_object(needed=needed, sections=sections)


def properties(folder: Path, code: bytes) -> object:
    return derive(audit_wheel(write_wheel(folder, files={EXTENSION: code})).objects)


def ids(folder: Path, text: str | None, label: str = "cu12.8", archs: Sequence[str] = ARCHS) -> list[str]:
    """Return the errors of a wheel with device code for some architectures and a text of variant.json."""
    files = {EXTENSION: module(*archs)} | ({INFO: text.encode()} if text is not None else {})
    name = f"demo-1.0-{TAG}{'-' if label else ''}{label}.whl"
    report = audit_wheel(write_wheel(folder, files=files, filename=name))
    return [finding.check for finding in report.findings if finding.severity == "error"]


def honest(**changed: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(write({"cu12.8": HONEST}, "uv"))
    return document | changed


def with_values(feature: str, values: Sequence[str]) -> dict[str, Any]:
    return honest(variants={"cu12.8": {"nvidia": HONEST["nvidia"] | {feature: list(values)}}})


def without(feature: str) -> dict[str, Any]:
    kept = {key: value for key, value in HONEST["nvidia"].items() if key != feature}
    return honest(variants={"cu12.8": {"nvidia": kept}})


@pytest.mark.parametrize(
    ("archs", "needed", "said"),
    [
        (ARCHS, ["cudart64_12.dll"], HONEST),
        (
            ARCHS[:2],
            ["cudart64_13.dll"],
            {"nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["80_real", "90_real"]}},
        ),
        ([], ["KERNEL32.dll", "nvcuda.dll"], {}),
        ([], ["nvrtc64_120_0.dll"], "it has no device code, but needs a library of CUDA 12"),
        ([], ["cusolver64_11.dll"], "it has no device code, but needs a library of CUDA 11"),
    ],
)
def test_a_wheel_for_windows_has_properties(
    tmp_path: Path, archs: Sequence[str], needed: Sequence[str], said: object
) -> None:
    code = image(imports=needed, sections={".nv_fatb": for_archs(*archs)} if archs else {})
    path = write_wheel(tmp_path, "cp311-cp311-win_amd64", {"demo/_core.cp311-win_amd64.pyd": code})
    objects = audit_wheel(path).device_objects
    if isinstance(said, dict):
        assert derive(objects) == said
    else:
        with pytest.raises(BadVariant, match=f"^{said}$"):
            derive(objects)


@pytest.mark.parametrize("dialect", dialects())
def test_an_honest_variant_passes(tmp_path: Path, dialect: str) -> None:
    assert ids(tmp_path, write({"cu12.8": HONEST}, dialect)) == []
    assert ids(tmp_path, write({"null": {}}, dialect), "null", archs=()) == []


LIES: dict[str, Callable[[], dict[str, Any]]] = {
    "a GPU without code": lambda: with_values("sm_arch", ["100_real", "80_real", "90_real"]),
    "PTX that is not there": lambda: with_values("sm_arch", ["80_real", "80_virtual"]),
    "the variant of an architecture": lambda: with_values("sm_arch", ["90a_real"]),
    "every GPU": lambda: without("sm_arch"),
    "an older driver": lambda: with_values("cuda_version_lower_bound", ["12.4"]),
    "an older driver as a second choice": lambda: with_values("cuda_version_lower_bound", ["11.8", "12.8"]),
    "every driver": lambda: without("cuda_version_lower_bound"),
    "only drivers that are too old": lambda: with_values("cuda_version_upper_bound", ["12.8"]),
    "a release that is none": lambda: with_values("cuda_version_lower_bound", ["12.8.x"]),
}


@pytest.mark.parametrize("lie", LIES)
def test_refuses_lies_about_the_device_code(tmp_path: Path, lie: str) -> None:
    assert ids(tmp_path, json.dumps(LIES[lie]())) == ["variant-property"]


BAD: dict[str, Callable[[], object]] = {
    "no object": list,
    "another schema": lambda: honest(**{"$schema": "https://example.org/v9.json"}),
    "a key too many": lambda: honest(extra={}),
    "two entries": lambda: honest(variants={"cu12.8": HONEST, "null": {}}),
    "a namespace nobody knows": lambda: honest(variants={"cu12.8": {"acme": {"speed": ["fast"]}}}),
    "a feature nobody knows": lambda: honest(variants={"cu12.8": {"nvidia": {"speed": ["fast"]}}}),
    "no priorities": lambda: honest(**{"default-priorities": {"namespace": []}}),
    "priorities of others": lambda: honest(**{"default-priorities": {"namespace": ["x86_64"]}}),
    "another provider": lambda: honest(providers={"nvidia": {"requires": ["evil"], "plugin-api": "evil:Plugin"}}),
    "capital letters": lambda: with_values("sm_arch", ["80_REAL"]),
    "not sorted": lambda: with_values("sm_arch", ["90_real", "80_real"]),
    "a text for a list": lambda: honest(variants={"cu12.8": {"nvidia": {"sm_arch": "80_real"}}}),
    "no properties": lambda: honest(variants={"cu12.8": {}}),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_invalid_files(tmp_path: Path, case: str) -> None:
    assert ids(tmp_path, json.dumps(BAD[case]())) == ["variant-file"]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"variants": {}, "variants": {}}', "\udc00"])
def test_refuses_what_is_not_json(text: str) -> None:
    with pytest.raises(BadVariant):
        read(text.encode("utf-8", "surrogatepass"))


def test_label_file_and_device_code_must_fit(tmp_path: Path) -> None:
    text = write({"cu12.8": HONEST}, "uv")
    assert ids(tmp_path, text, "cu13.0") == ["variant-label"]
    assert ids(tmp_path, text, "") == ["variant-file"]
    assert ids(tmp_path, None) == ["variant-file"]
    # A wheel for every machine must not have code for GPUs, and a wheel without such code must not claim it.
    assert ids(tmp_path, write({"null": {}}, "uv"), "null") == ["variant-property"]
    assert ids(tmp_path, text, archs=()) == ["variant-property"]


def test_strict_files_have_no_providers() -> None:
    strict = json.loads(write({"cu12.8": HONEST}, "pep825"))
    assert sorted(strict) == ["$schema", "default-priorities", "variants"]
    with pytest.raises(BadVariant, match="providers"):
        read(json.dumps(strict | {"providers": {}}).encode())


def test_properties_are_those_of_the_device_code(tmp_path: Path) -> None:
    found = derive(audit_wheel(write_wheel(tmp_path, files={EXTENSION: module(*ARCHS)})).objects)
    assert found == HONEST
    assert label_of(found) == "cu12.8_80_90_90v"
    assert label_of({}) == "null"
    # Without PTX, any driver of the same CUDA major runs it.
    assert properties(tmp_path, module("sm_90a")) == {
        "nvidia": {"cuda_version_lower_bound": ["12.0"], "sm_arch": ["90a_real"]}
    }
    packed = fatbin(entry(ELF, 90, cubin(90, toolkit=128), flags=ZSTD))
    zstd = shared_object(needed=["libcudart.so.12"], sections={".nv_fatbin": packed})
    assert properties(tmp_path, zstd) == {"nvidia": {"cuda_version_lower_bound": ["12.4"], "sm_arch": ["90_real"]}}
    assert properties(tmp_path, module()) == {}


def test_refuses_to_guess(tmp_path: Path) -> None:
    unknown = shared_object(sections={".nv_fatbin": fatbin(entry(ELF, 90, cubin(90), flags=ZSTD))})
    with pytest.raises(BadVariant, match="which CUDA release"):
        properties(tmp_path, unknown)
    with pytest.raises(BadVariant, match="needs a library of CUDA 12"):
        properties(tmp_path, module(needed=["libcudart.so.12"]))


def levelled(*levels: int) -> dict[str, bytes]:
    """Return modules that need x86-64 levels; 0 is one that says nothing."""
    notes = [{".note.gnu.property": level_note(level)} if level else {} for level in levels]
    return {EXTENSION.replace("demo", f"demo{index}"): shared_object(sections=more) for index, more in enumerate(notes)}


@pytest.mark.parametrize(
    ("levels", "proven"), [((0,), {}), ((1, 0), {}), ((3, 2), {"x86_64": {"level": ["v3"]}})], ids=str
)
def test_the_level_is_what_objects_say_they_need(tmp_path: Path, levels: tuple[int, ...], proven: object) -> None:
    report = audit_wheel(write_wheel(tmp_path, files=levelled(*levels)))
    assert derive(report.objects) == proven
    assert label_of(derive(report.objects)) == ("x86v3" if proven else "null")


@pytest.mark.parametrize(
    ("level", "claimed", "fault"),
    [
        (0, ["v3"], "no object says that it needs more than the first level"),
        (3, ["v2"], "its objects need v3"),
        (3, [], "its objects need level v3"),
        (3, ["v3"], ""),
        (3, ["v4"], ""),
    ],
    ids=str,
)
def test_a_level_must_be_proven(tmp_path: Path, level: int, claimed: list[str], fault: str) -> None:
    space = {"x86_64": {"level": claimed}} if claimed else {}
    text = write({"v" if claimed else "null": space}, "uv").encode()
    name = f"demo-1.0-{TAG}-{'v' if claimed else 'null'}.whl"
    report = audit_wheel(write_wheel(tmp_path, files={**levelled(level), INFO: text}, filename=name))
    errors = [finding.message for finding in report.findings if finding.severity == "error"]
    assert [fault in message for message in errors] == ([True] if fault else [])


def test_damaged_notes_prove_nothing() -> None:
    note = level_note(3)
    for cut in range(len(note)):
        assert needed_level(note[:cut], wide=True) in (0, 3)
    assert needed_level(note, wide=True) == 3
    assert needed_level(b"\xff" * 64, wide=True) == 0


def test_a_recipe_demands_more_of_a_machine(tmp_path: Path) -> None:
    proven = derive(audit_wheel(write_wheel(tmp_path, files={EXTENSION: module(*ARCHS)})).objects)
    more = declare(proven, {"nvidia :: sm_arch": ["90_real"], "x86_64 :: level": ["v3"]})
    assert more == {
        "nvidia": {"cuda_version_lower_bound": proven["nvidia"]["cuda_version_lower_bound"], "sm_arch": ["90_real"]},
        "x86_64": {"level": ["v3"]},
    }
