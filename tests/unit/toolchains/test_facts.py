"""The fact tables: every row has its source and date, and the numbers are those that were read."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.version import Version
from pydantic import TypeAdapter, ValidationError

from bakery.core.cell_ids import MACHINES
from bakery.core.image_names import parse as parse_image
from bakery.core.names import PYTHON
from bakery.toolchains import facts
from bakery.toolchains.bases.debian import SUITES
from bakery.toolchains.facts import pin_images, rows
from bakery.toolchains.facts.archs import Arch, known, parse
from bakery.toolchains.toolkits import clang

ROWS = [
    (f"{file}.{name}[{index}]", row)
    for file, tables in facts.TABLES.items()
    for name, kind in tables.items()
    for index, row in enumerate(facts.table(file, name, kind))
]

BASE = "50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a"
NEW = "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"
NEWER = NEW.replace(" 110 ", " 107 107a 107f 110 ")

# cuda_compat.json, copied by hand: max GCC, max clang, targets, bundled driver, run floor.
CUDA = {
    "11.8": (11, 14, "35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90", "520.61.05", "450.80.02"),
    "12.0": (12, 14, BASE, "525.85.12", "525.60.13"),
    "12.1": (12, 15, BASE, "530.30.02", "525.60.13"),
    "12.2": (12, 15, BASE, "535.104.05", "525.60.13"),
    "12.3": (12, 15, BASE, "545.23.08", "525.60.13"),
    "12.4": (13, 17, BASE, "550.54.15", "525.60.13"),
    "12.5": (13, 17, BASE, "555.42.06", "525.60.13"),
    "12.6": (13, 18, BASE, "560.35.05", "525.60.13"),
    "12.8": (14, 19, BASE + " 100 100a 101 101a 120 120a", "570.124.06", "525.60.13"),
    "12.9": (
        14,
        19,
        BASE + " 100 100a 100f 101 101a 101f 103 103a 103f 120 120a 120f 121 121a 121f",
        "575.57.08",
        "525.60.13",
    ),
    "13.0": (15, 20, NEW, "580.95.05", "580"),
    "13.1": (15, 21, NEW, "590.48.01", "580"),
    "13.2": (15, 21, NEW, "595.71.05", "580"),
    "13.3": (15, 21, NEW, "610.43.02", "580"),
    "13.4": (16, 22, NEWER, "", "580"),
    "13.5": (16, 22, NEWER, "", "580"),
}


@pytest.mark.parametrize(("where", "row"), ROWS, ids=[where for where, _ in ROWS])
def test_every_row_has_its_source_and_date(where: str, row: rows.Row) -> None:
    assert len(row.source) > 8, where
    assert re.fullmatch(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]", row.read)


def test_every_file_and_table_is_known() -> None:
    found = {path.name.removesuffix(".toml"): path for path in files(facts).iterdir() if path.name.endswith(".toml")}
    assert set(found) == set(facts.TABLES)
    for name, path in found.items():
        assert set(tomllib.loads(path.read_text(encoding="utf-8"))) == set(facts.TABLES[name])


def test_the_numbers_of_cuda() -> None:
    found = {
        row.version: (row.max_gcc, row.max_clang, " ".join(row.sm), row.driver, row.floor)
        for row in facts.cuda_releases()
    }
    assert found == CUDA
    assert all((row.min_gcc, row.min_clang) == (6, 7) for row in facts.cuda_releases())


def test_what_is_not_verified_is_marked() -> None:
    marked = {where for where, row in ROWS if not row.verified}
    assert {"gpus.gpus[9]", "gpus.gpus[14]"} <= marked
    assert [row.version for row in facts.cuda_releases() if row.verified_min] == ["12.6", "12.8", "12.9", "13.2"]
    assert [row.version for row in facts.torch_releases() if not row.verified] == ["2.11.0", "2.15.0"]


def test_rows_are_in_order() -> None:
    for numbers in (
        [facts.number(row.version) for row in facts.cuda_releases()],
        [facts.number(row.version) for row in facts.torch_releases()],
        [facts.number(row.version) for row in facts.jax_releases()],
        [facts.number(row.capability) for row in facts.gpus()],
        [facts.number(row.glibc) for row in facts.manylinux_images()],
        [facts.number(row.glibc) for row in facts.suites()],
    ):
        assert numbers == sorted(set(numbers))


def test_every_architecture_can_be_read() -> None:
    for arch in known():
        (found,) = parse("sm_" + arch)
        assert found.number == arch
    for gpu in facts.gpus():
        assert parse(gpu.capability)[0].number in known()


def test_every_python_is_one() -> None:
    lists = [row.pythons for row in (*facts.torch_releases(), *facts.jax_releases(), *facts.manylinux_images())]
    lists += [row.pythons for images in facts.pinned_images().values() for row in images]
    lists += [row.pythons for row in facts.removed_pythons()]
    assert all(PYTHON.match(python) for pythons in lists for python in pythons)


def test_the_facts_agree_with_the_providers() -> None:
    assert {row.python: row.name for row in facts.suites()} == SUITES
    assert facts.clangs()[-1].version == int(clang.CLANG)


def test_pinned_images() -> None:
    page = Path(__file__).parents[3].joinpath("docs/bases.md").read_text(encoding="utf-8")
    for name, rows_of_name in facts.pinned_images().items():
        pythons = {row.pythons for row in rows_of_name}
        assert len(pythons) == 1
        library, release = facts.libc_floor(parse_image(rows_of_name[0].image).family)
        platforms = ", ".join(row.platform for row in rows_of_name)
        listed = ", ".join(pythons.pop())
        line = f"| `{name}` | {rows_of_name[0].tag} | {platforms} | {library} {release} | {listed} |"
        assert f"{line}\n" in page, line
        for row in rows_of_name:
            machine = MACHINES[row.platform]
            cuda = name.replace("_cuda", f"_{machine}_cuda")
            assert row.image.rpartition("/")[2] == (cuda if "cuda" in name else f"{name}_{machine}")
            assert re.fullmatch(r"sha256:[0-9a-f]{64}" if "cuda" not in name else "", row.digest)


PINS = """\
[x86_64]
manylinux_2_28 = host.example/a/manylinux_2_28_x86_64@sha256:DIGEST  # 2026.01.02-1
musllinux_1_2 = host.example/a/musllinux_1_2_x86_64@sha256:DIGEST  # 2026.01.02-1
[aarch64]
[i686]
manylinux_2_28 = host.example/a/manylinux_2_28_i686@sha256:DIGEST  # 2026.01.02-1
""".replace("DIGEST", "1" * 64)

PLATFORMS = """\
[linux]
python_configurations = [
  { identifier = "cp39-manylinux_x86_64" }, { identifier = "cp314t-manylinux_x86_64" },
  { identifier = "cp310-musllinux_x86_64" }, { identifier = "cp312-manylinux_i686" },
  { identifier = "pp311-manylinux_x86_64" }, { identifier = "gp312_250-manylinux_x86_64" },
]
"""


def test_images_are_pinned_from_cibuildwheels_own_lists() -> None:
    written = tomllib.loads(pin_images.text(PINS, PLATFORMS, "cibuildwheel 1.2", "2026-01-03"))["images"]
    found = [rows.PinnedImage.model_validate(row) for row in written]
    assert [(row.name, row.platform, row.pythons) for row in found] == [
        ("manylinux_2_28", "linux/amd64", ("3.9", "3.14t")),
        ("musllinux_1_2", "linux/amd64", ("3.10",)),
    ]
    assert (found[0].image, found[0].tag) == ("host.example/a/manylinux_2_28_x86_64", "2026.01.02-1")
    assert found[0].digest == "sha256:" + "1" * 64
    with pytest.raises(ValueError, match="musllinux_1_2 is no image with a digest"):
        pin_images.text(PINS.replace("musllinux_1_2_x86_64@sha256:", "musllinux_1_2_x86_64:"), PLATFORMS, "x", "y")


def test_torch() -> None:
    assert facts.torch_release("2.12.0") != facts.torch_release("2.12.1")
    assert facts.torch_release("2.9.0") == facts.torch_release("2.9.1")
    assert facts.torch_release("3.0.0") is None
    for row in facts.torch_releases():
        # PyPI's own is one of the variants, or was until the index moved on.
        assert Version(row.cuda) >= Version("12.1")
        assert all(re.fullmatch(r"cu1[1-3][0-9]", variant) for variant in row.variants)
        assert (row.abi, row.cxx, row.tag) in {
            (0, 17, "manylinux1"),
            (1, 17, "manylinux_2_28"),
            (1, 20, "manylinux_2_28"),
        }
        assert set(row.new_abi) <= (set() if row.abi else set(row.variants))


def test_torch_accepts_no_8_8_no_10_7_and_no_f() -> None:
    for row in facts.torch_arch_lists():
        assert {"8.0", "9.0a", "12.1"} <= set(row.accepted)
        assert not {"8.8", "10.7"} & set(row.accepted)
        assert not [arch for arch in row.accepted if arch.endswith("f")]


def test_a_wrong_claim_is_wrong() -> None:
    for claim in facts.wrong_claims():
        assert claim.claimed != claim.capability
        assert claim.capability in {gpu.capability for gpu in facts.gpus()}


def test_releases_are_found_by_their_minor() -> None:
    release = facts.cuda_release("12.8.1")
    assert release is facts.cuda_release("12.8")
    assert facts.cuda_release("12.7") is None
    assert release is not None
    assert Arch(9, 0, "a").number in release.sm


GOOD: dict[str, object] = {"claimed": "8.0", "gpu": "X", "capability": "8.6", "source": "s", "read": "2026-11-20"}


@pytest.mark.parametrize(
    "row",
    [
        {**GOOD, "gpus": "X"},
        {key: value for key, value in GOOD.items() if key != "source"},
        {**GOOD, "claimed": ["8.0"]},
    ],
)
def test_a_row_is_strict(row: dict[str, object]) -> None:
    adapter: TypeAdapter[rows.WrongClaim] = TypeAdapter(rows.WrongClaim)
    assert adapter.validate_python(GOOD).gpu == "X"
    with pytest.raises(ValidationError):
        adapter.validate_python(row)


def test_facts_are_in_the_package() -> None:
    assert Path(str(files(facts) / "cuda.toml")).is_file()


def test_what_provides_programs_libraries_and_headers() -> None:
    names = [name for row in facts.packages() for name in row.names]
    headers = [header for row in facts.packages() for header in row.headers]
    assert len(set(names)) == len(names) == len([name for name in names if name == name.lower()])
    assert len(set(headers)) == len(headers) > 40
    assert all(row.requirement or (row.apt and row.dnf) for row in facts.packages())
    fftw, openssl = facts.package_with("fftw3.h"), facts.package_of("OpenSSL")
    assert fftw is facts.package_of("fftw3f")
    assert fftw is not None
    assert (fftw.apt, fftw.dnf) == ("libfftw3-dev", "fftw-devel")
    assert openssl is facts.package_with("openssl/ssl.h")
    assert facts.package_of("frobnicate") is facts.package_with("frobnicate.h") is None


def test_policies_are_those_of_auditwheel() -> None:
    data = [
        json.loads(path.read_text())
        for path in (files("auditwheel") / "policy").iterdir()
        if "policy.json" in path.name
    ]
    known = {name for rows in data for row in rows for name in (row["name"], *row["aliases"])}
    (row,) = facts.policies()
    assert set(row.names) == {name for name in known if name.startswith(("manylinux", "musllinux"))}
