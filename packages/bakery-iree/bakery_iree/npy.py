"""Values of the user: ``.npy`` and ``.npz`` files, constants in IREE's syntax, and numbers.

Only the headers of files are read (NEP 1, "A Simple File Format for NumPy Arrays"), within limits, and nothing in them is
executed. Containers get ``.npy`` files that IREE accepts: little-endian, in C order. NumPy is not used: programs in
containers do all work with elements, and NumPy has no bfloat16.
"""

from __future__ import annotations

import ast
import re
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

from bakery_iree.mlir import ELEMENT_TYPES, Type
from wheel_audit.plain_files import open_plain
from wheel_audit.zips import ZIP_ERRORS

LARGEST = 1024**3
"""Maximum size of a constant, or of all arrays of a ``.npz`` file, in bytes."""

MOST = 256
"""Maximum number of arrays in a ``.npz`` file."""

ELEMENTS = {**ELEMENT_TYPES, "bf16": "bfloat16"}
"""Element type of MLIR → name of the dtype."""

DESCRIPTIONS = {
    "bool": "|b1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "float16": "<f2",
    "bfloat16": "<V2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
}
"""dtype → its description in a ``.npy`` file. NumPy has no bfloat16; this is what ml_dtypes writes."""

_MAGIC = b"\x93NUMPY"
_HEADER = 64 * 1024
"""Maximum size of a header in bytes."""

_LITERAL = re.compile(r"(?P<shape>(?:[0-9]{1,10}x)*)(?P<type>[a-z]{1,2}[0-9]{1,2})(?:=(?P<values>.*))?\Z", re.DOTALL)
_SCALAR = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)\Z")

_NUMBER = re.compile(r"(?P<sign>[su]?)i(?P<bits>[1-9][0-9]{0,3})|index|(?P<float>b?f[0-9]+)")
_FLOATS = {2: "e", 4: "f", 8: "d"}


class DataError(ValueError):
    """A value that cannot be used; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array.

    Attributes:
        source: as the user wrote it, for messages.
        dtype: one of `DESCRIPTIONS`.
        content: a whole ``.npy`` file.
    """

    source: str
    dtype: str
    shape: tuple[int, ...]
    content: Path | bytes


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that is not a tensor, as the user wrote it."""

    source: str


Value = Array | Scalar


def read_data(text: str, folder: Path) -> list[Value]:
    """Read values: several from a ``.npz`` file, else one.

    ``text`` is a path (``.npy``, ``.npz``; may start with ``@``) relative to ``folder``, ``64x64xf32=1``, or a number.
    Raises DataError if it is none of these, or an array that IREE does not accept.
    """
    path = Path(text.removeprefix("@"))
    if path.suffix not in (".npy", ".npz"):
        return [_literal(text)]
    path = folder / path
    try:
        if not path.is_file():
            raise DataError(f"{text}: no such file")
        if path.suffix == ".npz":
            return list(_archive(path, text))
        with open_plain(path, follow=True) as file:
            dtype, shape = _header(file, text, path.stat().st_size)
    except OSError as error:
        raise DataError(f"{text}: {error.strerror or error}") from error
    return [Array(text, dtype, shape, path)]


def mismatch(value: Value, type_: Type) -> str:
    """Return why a value does not fit a type; empty if it fits, or if that is unknown."""
    shape = type_.shape
    if shape is None:
        number = _NUMBER.fullmatch(type_.text)
        if isinstance(value, Array) and number:
            return f"expected a number ({type_}), got {described(value)}"
        return _no_integer(value, number) if isinstance(value, Scalar) and number else ""
    if isinstance(value, Scalar):
        return f"expected {type_}, got the number {value.source}; write it as {_words(type_)}={value.source}"
    dtype = ELEMENTS.get(type_.element.removeprefix("s"), "")
    # MLIR's integers have no sign: int8 also stands for uint8.
    if dtype and value.dtype not in (dtype, f"u{dtype}" if dtype.startswith("int") else dtype):
        return f"expected {dtype} ({type_}), got {described(value)}"
    fits = len(shape) == len(value.shape) and all(
        expected in (None, size) for expected, size in zip(shape, value.shape, strict=True)
    )
    return "" if fits else f"expected the shape {_shown(shape)} ({type_}), got {described(value)}"


def _no_integer(value: Scalar, type_: re.Match[str]) -> str:
    """Return why a number is not of an integer type; empty if it is, or for another type."""
    if type_["float"]:
        return ""
    bits = int(type_["bits"] or 64)
    # MLIR's integers have no sign: i8 is from -128 to 255.
    lowest, highest = (0 if type_["sign"] == "u" else -(2 ** (bits - 1))), 2 ** (bits - (type_["sign"] == "s")) - 1
    fits = re.fullmatch(r"[+-]?[0-9]{1,99}", value.source) and lowest <= int(value.source) <= highest
    return "" if fits else f"expected an integer ({type_[0]}), {lowest} to {highest}, got {value.source}"


def described(value: Value) -> str:
    """Describe a value in messages."""
    if isinstance(value, Scalar):
        return f"the number {value.source}"
    return f"{value.dtype} of shape {_shown(value.shape)}"


def npy(dtype: str, shape: Sequence[int], data: bytes) -> bytes:
    """Return a ``.npy`` file, version 1.0, with NumPy's exact spelling: IREE's reader accepts no other dictionary."""
    fields = {"descr": DESCRIPTIONS[dtype], "fortran_order": False, "shape": tuple(shape)}
    description = ("{" + "".join(f"{name!r}: {value!r}, " for name, value in fields.items()) + "}").encode()
    padding = b" " * (-(len(_MAGIC) + 4 + len(description) + 1) % 64)
    header = description + padding + b"\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header + data


def raw(array: Array) -> bytes:
    """Return the elements of an array as bytes; raise OSError if its file cannot be read."""
    data = array.content if isinstance(array.content, bytes) else array.content.read_bytes()
    width = 2 if data[6] == 1 else 4
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    return data[start : start + prod(array.shape) * _item(array.dtype)]


def _words(type_: Type) -> str:
    return "x".join([*(str(size or "N") for size in type_.shape or ()), type_.element])


def _shown(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "()"


def _archive(path: Path, source: str) -> list[Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if not 0 < len(members) <= MOST:
                raise DataError(f"{source}: expected 1 to {MOST} arrays, got {len(members)}")
            if sum(member.compress_size for member in members) > path.stat().st_size:
                raise DataError(f"{source}: the file is incomplete")
            if sum(member.file_size for member in members) > LARGEST:
                raise DataError(f"{source}: more than {LARGEST} bytes; save the arrays as .npy files")
            arrays = []
            for member in members:
                name = f"{source}[{member.filename.removesuffix('.npy')}]"
                with archive.open(member) as file:
                    dtype, shape = _header(file, name, member.file_size)
                arrays.append(Array(name, dtype, shape, archive.read(member)))
            return arrays
    except (DataError, OSError):
        raise
    except ZIP_ERRORS as error:
        raise DataError(f"{source}: not a .npz file: {str(error)[:200]}") from error


def _header(file: IO[bytes], source: str, size: int) -> tuple[str, tuple[int, ...]]:
    """Read the header of a ``.npy`` file, and check that the file is complete."""
    start = file.read(8)
    if len(start) < 8 or not start.startswith(_MAGIC) or start[6] not in (1, 2, 3):
        raise DataError(f"{source}: not a .npy file; write it with numpy.save")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _HEADER:
        raise DataError(f"{source}: a header of {length} bytes; the limit is {_HEADER}")
    try:
        header = ast.literal_eval(file.read(length).decode("utf-8" if start[6] == 3 else "latin-1").strip())
        description, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise DataError(f"{source}: the header of the .npy file cannot be read") from error
    names = {text: name for name, text in DESCRIPTIONS.items()} | {"|V2": "bfloat16"}
    if not isinstance(description, str) or description not in names:
        hint = "; save it little-endian: array.astype(array.dtype.newbyteorder('<'))" if ">" in str(description) else ""
        raise DataError(f"{source}: IREE does not accept an array of {str(description)[:60]!r}{hint}")
    if not isinstance(shape, tuple) or not all(type(item) is int and item >= 0 for item in shape) or len(shape) > 64:
        raise DataError(f"{source}: the header of the .npy file has no shape")
    if fortran and sum(item > 1 for item in shape) > 1:
        raise DataError(f"{source}: it is in Fortran order; save numpy.ascontiguousarray(array)")
    dtype = names[description]
    needed = len(start) + width + length + prod(shape) * _item(dtype)
    if size < needed:
        raise DataError(f"{source}: the file is incomplete: {size} bytes of {needed}")
    return dtype, shape


def _item(dtype: str) -> int:
    return int(DESCRIPTIONS[dtype][2:])


def _literal(text: str) -> Value:
    if _SCALAR.match(text):
        return Scalar(text)
    match = _LITERAL.match(text)
    dtype = ELEMENTS.get(match["type"].removeprefix("s"), "") if match else ""
    if match is None or not dtype:
        raise DataError(f"{text[:100]!r}: expected a .npy or .npz file, a constant such as 64x64xf32=1, or a number")
    shape = tuple(int(size) for size in match["shape"].split("x")[:-1])
    count = prod(shape)
    if count * _item(dtype) > LARGEST:
        raise DataError(f"{text[:100]}: more than {LARGEST} bytes")
    words = re.sub(r"[\[\],]", " ", match["values"] or "0").split()
    if len(words) not in (1, count):
        raise DataError(f"{text[:100]}: {len(words)} values for {count} elements; give one or all")
    try:
        data = b"".join(_packed(dtype, word) for word in words)
    except (KeyError, ValueError, struct.error, OverflowError) as error:
        raise DataError(f"{text[:100]}: not all values are {dtype}") from error
    return Array(text[:100], dtype, shape, npy(dtype, shape, data if len(words) == count else data * count))


def _packed(dtype: str, word: str) -> bytes:
    if dtype == "bfloat16":
        # Rounded to even, as hardware does; the upper half of a float32.
        bits = int.from_bytes(struct.pack("<f", float(word)), "little")
        return struct.pack("<H", ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF)
    if dtype == "bool":
        return struct.pack("?", {"0": False, "1": True, "false": False, "true": True}[word.lower()])
    if dtype.startswith("float"):
        return struct.pack(f"<{_FLOATS[_item(dtype)]}", float(word))
    return int(word).to_bytes(_item(dtype), "little", signed=dtype.startswith("int"))
