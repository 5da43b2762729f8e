"""Arrays without numpy: headers of .npy and .npz files, literals, and what fits which type."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery_iree.mlir import Type
from bakery_iree.npy import DESCRIPTIONS, Array, DataError, Scalar, mismatch, npy, raw, read_data

NUMPY = b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" + b" " * 60 + b"\n"
"""What numpy.save writes for three int32."""


def one(text: str, folder: Path = Path()) -> Array:
    (value,) = read_data(text, folder)
    assert isinstance(value, Array)
    return value


def test_file_is_spelled_as_numpy_spells_it() -> None:
    assert npy("int32", (3,), bytes(12)) == NUMPY + bytes(12)


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "data"),
    [
        ("2x2xf32=1", "float32", (2, 2), struct.pack("<4f", 1, 1, 1, 1)),
        ("2x2xi32=[[1 2][3 -4]]", "int32", (2, 2), struct.pack("<4i", 1, 2, 3, -4)),
        ("3xui8=1, 2,3", "uint8", (3,), bytes([1, 2, 3])),
        ("2xi1=1 0", "bool", (2,), b"\x01\x00"),
        ("f64=2.5", "float64", (), struct.pack("<d", 2.5)),
        ("2xf16", "float16", (2,), bytes(4)),
        ("2xbf16=1.5 -2", "bfloat16", (2,), bytes.fromhex("c03f00c0")),
        ("0x4xf32=7", "float32", (0, 4), b""),
        ("1xf32=inf", "float32", (1,), struct.pack("<f", float("inf"))),
    ],
)
def test_literal(text: str, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
    value = one(text)
    assert (value.dtype, value.shape, raw(value)) == (dtype, shape, data)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a .npy"),
        ("64x64", "expected a .npy"),
        ("4xf32x=1", "expected a .npy"),
        ("4xf99=1", "expected a .npy"),
        ("4xf32=1 2 3", "3 values for 4 elements"),
        ("2xi8=300", "not all values are int8"),
        ("2xi32=1.5", "not all values are int32"),
        ("2xi1=2", "not all values are bool"),
        ("99999x99999xf32=1", "more than"),
        ("none.npy", "no such file"),
        ("none.npz", "no such file"),
    ],
)
def test_what_is_no_value(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_data(text, tmp_path)


@pytest.mark.parametrize("text", ["3", "-1.5e3", "+0.25", "nan", "inf"])
def test_number(text: str) -> None:
    assert read_data(text, Path()) == [Scalar(text)]


def header(descr: object = "<f4", order: object = False, shape: object = (2,)) -> bytes:
    text = repr({"descr": descr, "fortran_order": order, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a .npy file"),
        (b"\x93NUMPY\x09\x00", "not a .npy file"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "a header of"),
        (b"\x93NUMPY\x01\x00\x04\x00oops" + bytes(8), "cannot be read"),
        (b"\x93NUMPY\x01\x00\xff\x0f" + b"(" * 4095, "cannot be read"),
        (header() + bytes(4), "incomplete"),
        (header(descr="|O") + bytes(16), "IREE does not accept an array of '|O'"),
        (header(descr=">f4") + bytes(8), "little-endian"),
        (header(descr=[("a", "<f4")]) + bytes(8), "IREE does not accept an array"),
        (header(order=True, shape=(2, 2)) + bytes(16), "Fortran order"),
        (header(shape=(-1,)) + bytes(16), "no shape"),
        (header(shape=(True,)) + bytes(16), "no shape"),
        (header(shape="x") + bytes(16), "no shape"),
    ],
)
def test_bad_file(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DataError, match=said.replace("|", r"\|")):
        read_data("a.npy", tmp_path)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_an_array_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.npy"
    for content in (data, b"\x93NUMPY\x01\x00" + data, header() + data):
        path.write_bytes(content)
        try:
            read_data(str(path), Path("/"))
        except DataError:
            continue


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    try:
        read_data(text, Path("/nowhere"))
    except DataError:
        return


def test_archive_gives_all_its_arrays(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", npy("float32", (2,), bytes(8)))
        archive.writestr("y.npy", npy("int64", (), bytes(8)))
    found = read_data("a.npz", tmp_path)
    assert [(value.source, value.dtype, value.shape) for value in found if isinstance(value, Array)] == [
        ("a.npz[x]", "float32", (2,)),
        ("a.npz[y]", "int64", ()),
    ]
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"not a \.npz file"):
        read_data("b.npz", tmp_path)


@pytest.mark.parametrize(
    ("value", "type_", "said"),
    [
        ("2x3xf32=1", "tensor<2x3xf32>", ""),
        ("2x3xf32=1", "tensor<?x3xf32>", ""),
        ("2xui8=1", "tensor<2xi8>", ""),
        ("2xi1=1", "tensor<2xi1>", ""),
        ("2xbf16=1", "tensor<?xbf16>", ""),
        ("3", "i32", ""),
        ("3", "index", ""),
        ("2x4xf32=1", "tensor<2x3xf32>", "expected the shape 2x3"),
        ("2xf32=1", "tensor<2x1xf32>", "expected the shape 2x1"),
        ("2xf64=1", "tensor<2xf32>", "expected float32"),
        ("2xf32=1", "tensor<2xbf16>", "expected bfloat16"),
        ("3", "tensor<2xf32>", "write it as 2xf32=3"),
        ("2xf32=1", "f32", "expected a number"),
        ("3.9", "f32", ""),
        ("3.9", "i32", "expected an integer (i32), -2147483648 to 4294967295, got 3.9"),
        ("1e3", "index", "expected an integer (index)"),
        ("nan", "i64", "expected an integer"),
        ("18446744073709551615", "i64", ""),
        ("18446744073709551616", "i64", "to 18446744073709551615, got"),
        ("200", "i8", ""),
        ("200", "si8", "-128 to 127, got 200"),
        ("-1", "ui8", "0 to 255, got -1"),
        ("2xi8=1", "tensor<2xui8>", "expected uint8"),
    ],
)
def test_what_fits_a_type(value: str, type_: str, said: str) -> None:
    (found,) = read_data(value, Path())
    assert said in mismatch(found, Type(type_))
    assert bool(said) == bool(mismatch(found, Type(type_)))


@pytest.mark.parametrize("dtype", DESCRIPTIONS)
def test_what_is_written_is_read(dtype: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy(dtype, (3, 0, 2), b""))
    assert (one("a.npy", tmp_path).dtype, one("@a.npy", tmp_path).shape) == (dtype, (3, 0, 2))
