"""The signatures of the functions of a module: types as MLIR writes them, and the NumPy types that they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass

ELEMENT_TYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
"""Element type → numpy's name of it; others (bf16, f8E4M3FN, i4, quantised ones) have none there."""

_DIMENSIONS = re.compile(r"(?:(?:\?|[0-9]{1,19})x)*")


@dataclass(frozen=True, slots=True)
class Type:
    """A type as MLIR writes it, in one line."""

    text: str

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The dimensions of a ranked tensor, None for one that is known only at run time; None for another type."""
        parts = self._tensor()
        if parts is None:
            return None
        return tuple(None if size == "?" else int(size) for size in parts[0].split("x")[:-1])

    @property
    def element(self) -> str:
        """The element type of a ranked tensor as MLIR writes it; the whole text of another type."""
        parts = self._tensor()
        return parts[1] if parts else self.text

    def _tensor(self) -> tuple[str, str] | None:
        """Return the dimensions and the element type of a ranked tensor; None for another type."""
        if not (self.text.startswith("tensor<") and self.text.endswith(">")):
            return None
        inside = self.text[len("tensor<") : -1].partition(",")[0]
        dimensions = _DIMENSIONS.match(inside)
        end = dimensions.end() if dimensions else 0
        element = inside[end:].strip()
        return (inside[:end], element) if element and not element.startswith("*") else None

    @property
    def dtype(self) -> str:
        """The NumPy name of the element type; empty if NumPy has none."""
        return ELEMENT_TYPES.get(self.element.removeprefix("s"), "") if self.shape is not None else ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a module exports: its symbol without ``@``, its types, and its line, from 1; 0 if that is unknown."""

    name: str
    arguments: tuple[Type, ...]
    results: tuple[Type, ...]
    line: int = 0

    def __str__(self) -> str:
        arguments, results = (", ".join(map(str, types)) for types in (self.arguments, self.results))
        return f"@{self.name}({arguments}) -> {results if len(self.results) == 1 else f'({results})'}"


@dataclass(frozen=True, slots=True)
class Module:
    """A module. For bytecode, only the compiler knows the functions."""

    bytecode: bool
    functions: tuple[Function, ...] = ()
