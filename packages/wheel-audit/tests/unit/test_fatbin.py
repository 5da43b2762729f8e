"""The reader of device code against cuobjdump's listings of real files, and against hostile bytes."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from elfs import shared_object
from fatbins import ELF, LTO, LZ4, NAMES, PTX, ZSTD, cubin, entry, fatbin, for_archs, listed, real
from hypothesis import given, settings
from hypothesis import strategies as st

from wheel_audit.binary import UnreadableBinary
from wheel_audit.elf import read_elf
from wheel_audit.fatbin import CubinFacts, DeviceCode, DeviceImage, read_cubin, sorted_archs, unpack_lz4
from wheel_audit.limits import Budget
from wheel_audit.report import device_bytes

TOOLKITS = {
    "plain": {"13.0.88"},
    "default": {"13.0.88"},
    "lz4": {"13.0.88"},
    "zstd": {""},
    "variants": {"13.0.88"},
    "relocatable": {""},
    "ptxas-11.8": {"11.8"},
    "ptxas-12.4": {"12.4"},
    "ptxas-12.8": {"12.8", "12.8.93"},
    "ptxas-12.9": {"12.9", "12.9.86"},
    "two": {"13.0.88"},
    "headerless": {"13.0.88"},
}


def device_code(data: bytes) -> DeviceCode:
    found = read_elf("demo/_core.so", io.BytesIO(data), Budget.of(len(data)))
    assert found is not None
    return found.device_code


def of_section(section: bytes) -> DeviceCode:
    return device_code(shared_object(sections={".nv_fatbin": section}))


def rows(code: DeviceCode) -> list[tuple[str, str, bool]]:
    return [(image.arch, image.ptx_isa, bool(image.compressed)) for image in code.images]


@pytest.mark.parametrize("name", NAMES)
def test_it_lists_what_cuobjdump_lists(name: str) -> None:
    code = device_code(real(name))
    assert rows(code) == listed(name)
    assert rows(code)
    assert code.defect == ""


@pytest.mark.parametrize("name", NAMES)
def test_machine_code_tells_its_toolkit_unless_it_is_in_zstd(name: str) -> None:
    code = device_code(real(name))
    assert {image.toolkit for image in code.images if image.kind == "elf"} == TOOLKITS[name]
    assert {image.toolkit for image in code.images if image.kind != "elf"} <= {""}


def test_sizes_and_compression() -> None:
    by_name = {name: device_code(real(name)).images for name in ("plain", "lz4", "zstd")}
    assert {image.compressed for image in by_name["plain"]} == {""}
    assert {image.compressed for image in by_name["lz4"]} == {"lz4"}
    assert {image.compressed for image in by_name["zstd"]} == {"zstd"}
    for plain, lz4, zstd in zip(*by_name.values(), strict=True):
        assert plain.size == plain.unpacked_size
        # Payloads are padded to eight bytes, PTX by a zero at least.
        assert plain.size - 8 <= lz4.unpacked_size == zstd.unpacked_size <= plain.size
        assert zstd.size < lz4.size < plain.size


def test_relocatable_code_is_told_apart() -> None:
    code = device_code(real("relocatable"))
    assert [(image.kind, image.relocatable) for image in code.images] == [("elf", True), ("lto", True)]
    assert not any(image.relocatable for image in device_code(real("plain")).images)


def test_architectures_are_in_order_and_once() -> None:
    code = of_section(for_archs("compute_90", "sm_100", "sm_90a", "sm_90") + for_archs("sm_90", "sm_75", "compute_80"))
    assert code.archs == ("sm_75", "sm_90", "sm_90a", "sm_100", "compute_80", "compute_90")
    assert sorted_archs(["lto_90", "kind99_80", "sm_9"]) == ("sm_9", "kind99_80", "lto_90")


def test_equal_images_are_one_row_of_the_machine_report() -> None:
    said = of_section(for_archs("sm_80", "compute_80") * 3).to_json()
    assert json.loads(json.dumps(said)) == {
        "images": [
            {
                "kind": "elf",
                "arch": "sm_80",
                "ptx_isa": "",
                "compressed": "",
                "toolkit": "12.8",
                "relocatable": False,
                "count": 3,
                "size": 192,
                "unpacked_size": 192,
            },
            {
                "kind": "ptx",
                "arch": "compute_80",
                "ptx_isa": "8.7",
                "compressed": "",
                "toolkit": "",
                "relocatable": False,
                "count": 3,
                "size": 48,
                "unpacked_size": 48,
            },
        ],
        "defect": "",
        "section_size": 672,
    }


def test_kinds_that_nobody_documents_are_shown_as_such() -> None:
    code = of_section(fatbin(entry(99, 90), entry(LTO, 90, flags=ZSTD)))
    assert [(image.kind, image.arch) for image in code.images] == [("other", "kind99_90"), ("lto", "lto_90")]
    assert not {image.kind for image in code.images} & {"elf", "ptx"}


def test_the_bytes_of_all_architectures_are_those_of_the_section() -> None:
    section = fatbin(entry(2, 80), entry(2, 90), entry(1, 90)) + bytes(40)
    parts = device_bytes(of_section(section))
    assert list(parts) == ["sm_80", "sm_90", "compute_90", "headers of device code"]
    assert sum(parts.values()) == len(section)
    assert device_bytes(device_code(shared_object())) == {}


def test_an_object_without_device_code() -> None:
    assert device_code(shared_object()) == DeviceCode()
    assert of_section(bytes(100)) == DeviceCode()
    assert of_section(fatbin()) == DeviceCode()


DAMAGE: dict[str, tuple[bytes, str, int]] = {
    "no magic": (b"PTX" * 9, "no fat binary at offset", 0),
    "cut off": (for_archs("sm_80")[:-9], "no fat binary at offset", 0),
    "second one cut off": (for_archs("sm_80") + for_archs("sm_90")[:20], "no fat binary at offset", 1),
    "entry longer than its fat binary": (
        for_archs("sm_80").replace((64).to_bytes(8, "little"), (65).to_bytes(8, "little"), 1),
        "contradicts itself",
        0,
    ),
    "entry header of zero bytes": (
        for_archs("sm_80")[:20] + bytes(4) + for_archs("sm_80")[24:],
        "contradicts itself",
        0,
    ),
    "no architecture": (fatbin(entry(ELF, 0)), "contradicts itself", 0),
    "less than an entry": (fatbin(bytes(40)), "is cut off", 0),
    "endless fat binaries": (fatbin() * 100_001, "more than 100,000", 0),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_and_what_was_read_before_is_kept(name: str) -> None:
    section, reason, images = DAMAGE[name]
    code = of_section(section)
    assert reason in code.defect
    assert len(code.images) == images


def test_a_section_beyond_the_end_of_the_file() -> None:
    data = bytearray(shared_object(sections={".nv_fatbin": for_archs("sm_80")}))
    data[-64 + 24 : -64 + 32] = (1 << 40).to_bytes(8, "little")
    assert device_code(bytes(data)).defect == "the file ends inside its device code"


def test_a_segment_beyond_the_end_of_the_file() -> None:
    """Nothing may count through the eight exabytes that it claims."""
    data = bytearray(real("headerless"))
    data[64 + 32 : 64 + 40] = (1 << 62).to_bytes(8, "little")
    _within_a_second(lambda: _read_anyway(bytes(data)))


def test_what_a_cubin_says() -> None:
    assert read_cubin(cubin(90, toolkit=124, accelerated=True)) == CubinFacts("12.4", accelerated=True)
    assert read_cubin(cubin(90, toolkit=7)) == CubinFacts("")
    assert read_cubin(b"\x7fELF" + bytes(60)) is None
    assert read_cubin(cubin(90)[:63]) is None
    unknown = bytearray(cubin(90))
    unknown[8] = 9
    assert read_cubin(bytes(unknown)) is None


def test_machine_code_that_says_a_itself() -> None:
    """The fat binary's entry need not: ptxas' own word counts as well."""
    assert of_section(fatbin(entry(ELF, 90, cubin(90, accelerated=True)))).archs == ("sm_90a",)


def test_machine_code_that_cannot_be_unpacked_still_has_its_architecture() -> None:
    code = of_section(fatbin(entry(ELF, 90, b"\xff" * 40, flags=LZ4), entry(PTX, 90, version=(9, 0))))
    assert code.images[0] == DeviceImage("elf", "sm_90", "", 40, 0, "lz4", "", relocatable=False)
    assert code.archs == ("sm_90", "compute_90")


@pytest.mark.parametrize(
    ("block", "limit", "content"),
    [
        (b"\x30abc", 99, b"abc"),
        (b"\x30abc", 2, b"ab"),
        (b"\x32ab.\x03\x00\x10!", 99, b"ab.ab.ab.!"),
        (b"\x1fa\x01\x00\xff\x00\x00", 500, b"a" * (1 + 15 + 255 + 4)),
        (b"\xf0\x01" + b"x" * 16, 99, b"x" * 16),
        (b"", 99, b""),
    ],
)
def test_lz4_blocks(block: bytes, limit: int, content: bytes) -> None:
    assert unpack_lz4(block, limit) == content


@pytest.mark.parametrize(
    "block", [b"\x30ab", b"\xf0", b"\xf0\xff", b"\x10a\x02\x00", b"\x10a\x00\x00", b"\x00\x01\x00"]
)
def test_damaged_lz4_blocks(block: bytes) -> None:
    with pytest.raises(ValueError, match="LZ4 block"):
        unpack_lz4(block, 99)


@given(block=st.binary(max_size=2000), limit=st.integers(0, 5000))
def test_no_lz4_block_makes_more_than_it_may(block: bytes, limit: int) -> None:
    with suppress(ValueError):
        assert len(unpack_lz4(block, limit)) <= limit


def _within_a_second(read: Callable[[], object]) -> None:
    start = time.process_time()
    read()
    assert time.process_time() - start < 1


def _read_anyway(data: bytes) -> None:
    with suppress(UnreadableBinary):  # the bytes hit the ELF headers; what reads those refuses
        json.dumps(device_code(data).to_json())


@settings(max_examples=4 * settings.default.max_examples)
@given(
    name=st.sampled_from(NAMES),
    patches=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=16)), min_size=1, max_size=8),
)
def test_no_damage_to_a_real_file_raises_or_takes_long(name: str, patches: list[tuple[int, bytes]]) -> None:
    data = bytearray(real(name))
    for anywhere, patch in patches:
        at = anywhere % len(data)
        data[at : at + len(patch)] = patch[: len(data) - at]
    _within_a_second(lambda: _read_anyway(bytes(data)))


@settings(max_examples=4 * settings.default.max_examples)
@given(
    entries=st.lists(
        st.builds(
            entry,
            st.sampled_from([1, 2, 4, 8, 16, 64]),
            st.integers(0, 2000),
            st.binary(max_size=300),
            flags=st.integers(0, (1 << 26) - 1),
        ),
        max_size=5,
    ),
    cut=st.integers(0, 400),
    noise=st.binary(max_size=40),
)
def test_no_fat_binary_raises_or_takes_long(entries: list[bytes], cut: int, noise: bytes) -> None:
    section = fatbin(*entries) + noise
    _within_a_second(
        lambda: _read_anyway(shared_object(sections={".nv_fatbin": section[: max(0, len(section) - cut)]}))
    )


def test_the_largest_hostile_section_takes_seconds_at_most() -> None:
    """Every image asks for the most unpacking there is; the budget ends it."""
    run = b"\x1fa\x01\x00" + b"\xff" * 60_000 + b"\x00"
    section = fatbin(*(entry(ELF, 90, run, flags=LZ4) for _ in range(200)))
    _within_a_second(lambda: of_section(section))
