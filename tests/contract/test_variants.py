"""Wheel variants: packaged as variantlib does it, and chosen by uv from an index for a forced driver and GPU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import pytest
from elfs import level_note, shared_object
from fatbins import for_archs
from gpu_tests import BASE, VERSION
from servers import Plain, served
from typer.testing import CliRunner
from variantlib.commands.generate_index_json import generate_index_json
from variantlib.commands.make_variant import make_variant
from wheels import EXTENSION, write_wheel

from bakery.cli.app import app
from bakery.core.errors import AuditError, OutputError
from bakery.release.index.pages import JSON
from bakery.release.index.store import NewWheel, extend
from bakery.release.variants import make_variants
from bakery.release.verify import verify
from wheel_audit.auditor import audit_wheel
from wheel_audit.variant import dialects

RECORD = "demo-1.0.dist-info/RECORD"
NOW = "2026-01-02T03:04:05.000006Z"
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-manylinux_2_17_x86_64"
PROVIDERS = """
[variant.default-priorities]
namespace = ["nvidia"]
[variant.providers.nvidia]
requires = ["nvidia-variant-provider"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
"""
CU128, CU130, NULL = "cu12.8_80_90_90v", "cu13.0_80_90_90v", "null"
CHOICES = {
    **{("11.8", gpu): NULL for gpu in ("7.5", "8.0", "9.0")},
    **{("12.4", gpu): NULL for gpu in ("8.0", "9.0")},
    **{("12.8", gpu): CU128 for gpu in ("8.0", "8.6", "9.0")},
    **{("13.0", gpu): CU130 for gpu in ("8.0", "8.6", "9.0")},
    ("12.8", "7.5"): NULL,
    ("13.0", "7.5"): NULL,
    ("", ""): NULL,
}


def plain(folder: Path, tag: str, archs: tuple[str, ...], toolkit: int, isa: tuple[int, int]) -> Path:
    code = shared_object(sections={".nv_fatbin": for_archs(*archs, toolkit=toolkit, isa=isa)} if archs else {})
    python, abi, platform = TAG.split("-")
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {python}-{abi}-{platform}\nBuild: {tag}\n"
    module = EXTENSION.replace("cpython-311", PYTHON.replace("cp", "cpython-"))
    return write_wheel(folder, TAG, {module: code}, filename=f"demo-1.0-{tag}-{TAG}.whl", wheel=wheel)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Plain wheels of one version: for CUDA 12.8 and 13.0, and without CUDA."""
    folder, archs = tmp_path_factory.mktemp("plain"), ("sm_80", "sm_90", "compute_90")
    return (
        plain(folder, "1cu128", archs, 128, (8, 7)),
        plain(folder, "1cu130", archs, 130, (9, 0)),
        plain(folder, "2cpu", (), 0, (0, 0)),
    )


@pytest.fixture(scope="module")
def variants(wheels: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("variants")
    return make_variants(wheels, folder, folder, "uv")


@pytest.mark.parametrize(
    ("table", "label", "said"),
    [
        ('label = "cu${CUDA_TAG}"\n', "cu128", ""),
        ('[wheel.variants.properties]\n"nvidia :: cuda_version_lower_bound" = "12.9"\n', "cu12.9_80_90_90v", ""),
        ('[wheel.variants.properties]\n"nvidia :: sm_arch" = ["80_real", "100_real"]\n', "", "claims sm_arch 100_real"),
        (
            '[wheel.variants.properties]\n"nvidia :: cuda_version_lower_bound" = "12.0"\n',
            "",
            "needs a driver for CUDA 12.8",
        ),
        ('[wheel.variants.properties]\n"x86_64 :: level" = "v3"\n', "", "-march=x86-64-v3 -mneeded"),
        ('[wheel.variants.properties]\n"x86_64 :: size" = "v3"\n', "", "unknown feature 'size'"),
    ],
)
def test_a_recipe_declares_labels_and_properties(
    table: str, label: str, said: str, wheels: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bakery.toml").write_text(
        f'name = "demo"\n{BASE}matrix.python = ["{VERSION}"]\nbuilder.toolkit = "cuda"\nvariables.CUDA_VERSION = "12.8.1"\n'
        f'wheel.naming.build-tag = "1cu128"\n[wheel.variants]\n{table}'
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["variants", str(wheels[0]), "-o", "out"], env={"COLUMNS": "400"})
    names = [path.name for path in tmp_path.glob("out/*.whl")]
    if label:
        assert done.exit_code == 0, done.output
        assert names == [f"{wheels[0].stem}-{label}.whl"]
    else:
        assert names == []
        assert isinstance(done.exception, AuditError)
        assert said in str(done.exception.details)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_variant_has_the_same_files_and_is_reproducible(
    wheels: tuple[Path, ...], variants: tuple[Path, ...], tmp_path: Path
) -> None:
    new = {"demo-1.0.dist-info/variant.json", "demo-1.0.dist-info/RECORD"}
    again = make_variants(wheels, tmp_path, tmp_path, "uv")
    for old, variant, second in zip(wheels, variants, again, strict=True):
        before, after = members(old), members(variant)
        assert {name for name in after if after[name] != before.get(name)} == new
        # The audit compares RECORD with every file.
        assert audit_wheel(variant).ok
        assert hashlib.sha256(variant.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_variantlib_writes_the_same(wheels: tuple[Path, ...], variants: tuple[Path, ...], tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(PROVIDERS)
    for wheel, variant in zip(wheels, variants, strict=True):
        label = variant.stem.rpartition("-")[2]
        found = json.loads(members(variant)["demo-1.0.dist-info/variant.json"])["variants"][label]
        values = [f"nvidia :: {key} :: {value}" for key, row in found.get("nvidia", {}).items() for value in row]
        chosen = ["--variant-label", label, "--skip-plugin-validation", "-p", *values] if values else ["--null-variant"]
        make_variant(["-f", str(wheel), "-o", str(tmp_path), "--pyproject-toml", str(project), *chosen])
        theirs, ours = members(tmp_path / variant.name), members(variant)
        path = "demo-1.0.dist-info/variant.json"
        assert json.loads(theirs.pop(path)) == json.loads(ours.pop(path))
        del theirs["demo-1.0.dist-info/RECORD"], ours["demo-1.0.dist-info/RECORD"]
        assert theirs == ours
    generate_index_json(["-d", str(tmp_path)])
    site = tmp_path / "site"
    extend(site, [NewWheel(path, NOW) for path in variants], NOW)
    name = "demo-1.0-variants.json"
    assert json.loads((site / "simple/demo" / name).read_bytes()) == json.loads((tmp_path / name).read_bytes())
    listed = {item["filename"]: item["size"] for item in json.loads((site / "simple/demo" / JSON).read_text())["files"]}
    assert listed[name] == (site / "simple/demo" / name).stat().st_size


@pytest.fixture(scope="module")
def address(
    wheels: tuple[Path, ...], variants: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    # In two steps: the second adds to the description that the first wrote.
    extend(site, [NewWheel(path, NOW) for path in (wheels[2], variants[0])], NOW)
    extend(site, [NewWheel(path, NOW) for path in variants[1:]], NOW)
    with served(site, Plain) as (url, _):
        yield f"{url}/simple/"


def chosen_by_uv(address: str, folder: Path, driver: str, gpu: str, *preview: str) -> str:
    forced = {"CUDA_DRIVER_VERSION": driver, "SM_ARCH": gpu}
    environment = os.environ | {f"NV_VARIANT_PROVIDER_FORCE_{key}": value for key, value in forced.items() if value}
    command = ["uv", "pip", "install", "--no-cache", "--no-config", "--dry-run", "-v", "--python", sys.executable]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--target", str(folder), "--index-url", address]
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([*command, *preview, "demo"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(r"(demo-1\.0-\S+?\.whl)", done.stderr)[-1]


@pytest.mark.parametrize(("driver", "gpu"), CHOICES)
def test_uv_takes_the_right_wheel(address: str, tmp_path: Path, driver: str, gpu: str) -> None:
    if not driver and find_library("cuda"):
        pytest.skip("uv finds the driver of this machine")
    found = chosen_by_uv(address, tmp_path, driver, gpu, "--preview-features", "wheel-variants")
    assert found.removesuffix(".whl").rpartition("-")[2] == CHOICES[driver, gpu]


def test_installers_without_the_preview_take_the_plain_wheel(address: str, tmp_path: Path) -> None:
    name = f"demo-1.0-2cpu-{TAG}.whl"
    assert chosen_by_uv(address, tmp_path, "13.0", "9.0") == name
    command = [sys.executable, "-m", "pip", "--isolated", "download", "--no-cache-dir", "--no-deps", "demo"]
    command += ["--dest", str(tmp_path), "--index-url", address]
    subprocess.run(command, check=True, capture_output=True)
    assert [path.name for path in tmp_path.glob("*.whl")] == [name]


def test_refuses_two_meanings_of_a_label(variants: tuple[Path, ...], wheels: tuple[Path, ...], tmp_path: Path) -> None:
    strict = make_variants(wheels[:1], tmp_path / "strict", tmp_path, dialects()[1])
    renamed = tmp_path / variants[1].name
    renamed.write_bytes(variants[0].read_bytes())
    for other, why in ((strict[0], "another file of this name"), (renamed, "variant.json says")):
        with pytest.raises(OutputError) as caught:
            extend(tmp_path / "site", [NewWheel(path, NOW) for path in (variants[0], other)], NOW)
        assert why in str(caught.value.details)


def test_refuses_variants_with_one_name_and_variants_of_variants(
    wheels: tuple[Path, ...], variants: tuple[Path, ...], tmp_path: Path
) -> None:
    with pytest.raises(AuditError) as caught:
        make_variants([wheels[0], wheels[0]], tmp_path, tmp_path, "uv")
    assert "both become" in str(caught.value.details)
    with pytest.raises(AuditError) as caught:
        make_variants(variants, tmp_path, tmp_path, "uv")
    assert "is a variant already" in str(caught.value.details)
    assert list(tmp_path.iterdir()) == []


def test_verify_compares_a_variant_with_its_plain_wheel(
    wheels: tuple[Path, ...], variants: tuple[Path, ...], tmp_path: Path
) -> None:
    other = plain(tmp_path, "1cu128", ("sm_80",), 128, (8, 7))
    for given, fault in (
        ([], "its plain wheel is not among the wheels"),
        ([other], "has other files than its plain wheel"),
        ([wheels[0]], ""),
    ):
        with pytest.raises(AuditError) as caught:
            verify((), [*given, variants[0]], tmp_path / "audited")
        # Without a plan, the plain wheel itself is always refused.
        faults = [text for text in caught.value.details if text.startswith(variants[0].name)]
        assert [fault in text for text in faults] == ([True] if fault else [])


def test_uv_reads_levels_of_x86_64(tmp_path: Path) -> None:
    python, abi, platform = TAG.split("-")
    module = EXTENSION.replace("cpython-311", PYTHON.replace("cp", "cpython-"))
    wheels = []
    for tag, sections in (("1v2", {".note.gnu.property": level_note(2)}), ("2v1", {})):
        text = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {python}-{abi}-{platform}\nBuild: {tag}\n"
        code = {module: shared_object(sections=sections)}
        wheels.append(write_wheel(tmp_path, TAG, code, filename=f"demo-1.0-{tag}-{TAG}.whl", wheel=text))
    variants = make_variants(wheels, tmp_path / "variants", tmp_path, "uv")
    assert [path.stem.rpartition("-")[2] for path in variants] == ["x86v2", NULL]
    extend(tmp_path / "site", [NewWheel(path, NOW) for path in (wheels[1], *variants)], NOW)
    with served(tmp_path / "site", Plain) as (url, _):
        found = chosen_by_uv(f"{url}/simple/", tmp_path / "target", "", "", "--preview-features", "wheel-variants")
    # A machine of the first level would take the other one.
    assert found == (variants[0].name if "sse4_2" in Path("/proc/cpuinfo").read_text() else variants[1].name)


@pytest.mark.parametrize("own", ["", f'"{RECORD}",,\n', f"{RECORD},,"])
def test_a_record_need_not_name_itself(wheels: tuple[Path, ...], tmp_path: Path, own: str) -> None:
    """Installers and the audit take these; there was an internal error, and all wheels of the call were lost."""
    odd = tmp_path / wheels[0].name
    with zipfile.ZipFile(wheels[0]) as source, zipfile.ZipFile(odd, "w") as result:
        for info in source.infolist():
            data = source.read(info)
            if info.filename == RECORD:
                data = data.replace(f"{RECORD},,\n".encode(), own.encode())
                assert own != "" or data.endswith(b"\n")
                data = data if own else data[:-1]
            result.writestr(info, data)
    (made,) = make_variants([odd], tmp_path / "out", tmp_path, "uv")
    assert audit_wheel(made).findings == audit_wheel(odd).findings
    with zipfile.ZipFile(made) as archive:
        lines = archive.read(RECORD).decode().splitlines()
    assert len([line for line in lines if line.startswith("demo-1.0.dist-info/variant.json,sha256=")]) == 1
    assert all(line.count(",") == 2 for line in lines)
