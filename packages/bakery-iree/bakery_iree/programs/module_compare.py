"""Compare arrays with expected arrays.

Usage: module_compare.py PAIRS.json RESULT.json

PAIRS is a list of ``{"got": FILE, "expected": FILE or {"number": TEXT}, "dtype": NAME, "shape": [N, …] or null, "rtol": X,
"atol": X}``; ``shape`` is set if ``got`` has only the bytes of the elements. MLIR's integers have no sign: if only one of two
integers of the same size has one, both are compared without. An element is right if ``|got - expected| <=
atol + rtol * |expected|``, if both are NaN, or if both are the same infinity. RESULT is a list of differences, see
`compare`; a number that JSON cannot represent is null.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np


def load(name: str, dtype: str, shape: Optional[List[int]]) -> np.ndarray:
    """Return an array. NumPy has no bfloat16; such arrays become float32."""
    if shape is not None:
        array = np.fromfile(name, dtype=np.uint16).reshape(shape)
    else:
        array = np.load(name, allow_pickle=False)
    if dtype == "bfloat16" and array.dtype.itemsize == 2 and array.dtype.kind in "uV":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def finite(number: Any) -> Optional[float]:
    """Return a number, or None if JSON cannot represent it."""
    return float(number) if math.isfinite(number) else None


def kind(array: np.ndarray) -> str:
    """Return the kind of the elements of an array; signed and unsigned integers are one kind."""
    return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}.get(array.dtype.kind, "other")


def numbers(got: np.ndarray, text: str, dtype: str) -> Tuple[np.ndarray, np.ndarray]:
    """Return a number that is not a tensor, and the expected one. Float64 has no room for all integers of 64 bits."""
    if kind(got) not in ("bool", "int"):
        return got, np.array(float(text)).astype(got.dtype)
    # IREE returns i8 and i16 as 32 bits.
    got = got.astype(dtype or got.dtype)
    number, bits = int(text), 8 * got.itemsize
    signed = kind(got) == "bool" or number < 2 ** (bits - 1)
    return got, np.array(number, dtype=got.dtype if signed else "u%d" % got.itemsize)


def compare(pair: Dict[str, Any]) -> Dict[str, Any]:
    """Return how far an array is from the expected array.

    Keys: ``problem`` (why they cannot be compared, or empty), ``absolute`` and ``relative`` (the largest differences), ``at``
    (the index of the element that exceeds its tolerance by most), ``got`` and ``expected`` (its values), ``beyond`` (the
    number of wrong elements), ``elements`` (of all).
    """
    got = load(pair["got"], pair["dtype"], pair["shape"])
    if isinstance(pair["expected"], dict):
        got, expected = numbers(got, pair["expected"]["number"], pair["dtype"])
    else:
        expected = load(pair["expected"], pair["dtype"], None)
    if {got.dtype.kind, expected.dtype.kind} == {"i", "u"} and got.itemsize == expected.itemsize:
        got, expected = (array.view(array.dtype.str.replace("i", "u")) for array in (got, expected))
    empty = {"absolute": 0.0, "relative": 0.0, "at": [], "got": "", "expected": "", "beyond": 0, "elements": got.size}
    if got.shape != expected.shape:
        return dict(empty, problem="expected the shape %s, got %s" % (expected.shape, got.shape))
    if kind(got) != kind(expected):
        return dict(empty, problem="expected %s, got %s" % (expected.dtype, got.dtype))
    if got.size == 0:
        return dict(empty, problem="")
    wide = np.complex128 if kind(got) == "complex" else np.float64
    if kind(got) in ("bool", "int"):
        # Python's integers: int64 and uint64 have no common type, and differences overflow.
        exact = got != expected
        with np.errstate(all="ignore"):
            difference = np.where(exact, np.abs(got.astype(np.float64) - expected.astype(np.float64)), 0.0)
            difference = np.where(exact & (difference == 0), 1.0, difference)
    else:
        exact = ~((got == expected) | (np.isnan(got) & np.isnan(expected)))
        with np.errstate(all="ignore"):
            difference = np.where(exact, np.abs(got.astype(wide) - expected.astype(wide)), 0.0)
    difference = np.where(np.isnan(difference), np.inf, difference)
    size = np.abs(expected.astype(wide))
    with np.errstate(all="ignore"):
        allowed = pair["atol"] + pair["rtol"] * np.where(np.isfinite(size), size, 0.0)
        wrong = difference > allowed
        relative = np.where(difference == 0, 0.0, difference / size)
        excess = np.where(difference == 0, -1.0, difference - allowed)
    worst = np.unravel_index(int(np.argmax(excess)), got.shape)
    return {
        "problem": "",
        "absolute": finite(difference.max()),
        "relative": finite(relative.max()),
        "at": [int(i) for i in worst],
        "got": str(got[worst]),
        "expected": str(expected[worst]),
        "beyond": int(wrong.sum()),
        "elements": int(got.size),
    }


def main() -> None:
    """Compare all pairs."""
    with open(sys.argv[1]) as file:
        pairs = json.load(file)
    results = []
    for pair in pairs:
        try:
            results.append(compare(pair))
        except (OSError, OverflowError, ValueError) as error:
            results.append({"problem": "the result cannot be read: %s" % error})
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
