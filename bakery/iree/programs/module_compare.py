"""Compare arrays with what was expected of them.

Usage: module_compare.py PAIRS.json RESULT.json

PAIRS is a list of ``{"got": FILE, "expected": FILE or {"number": TEXT}, "dtype": NAME, "shape": [N, …] or null, "rtol": X,
"atol": X}``: ``shape`` is given where ``got`` holds bytes alone. An element is right where ``|got - expected| <= atol + rtol *
|expected|``, both NaN, or both the same infinity. RESULT is a list of differences, see `compare`; a number that JSON
cannot hold is null.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Dict, List, Optional

import numpy as np


def load(name: str, dtype: str, shape: Optional[List[int]]) -> np.ndarray:
    """Return an array; bfloat16, which numpy does not know, as float32."""
    if shape is not None:
        array = np.fromfile(name, dtype=np.uint16).reshape(shape)
    else:
        array = np.load(name, allow_pickle=False)
    if dtype == "bfloat16" and array.dtype.itemsize == 2 and array.dtype.kind in "uV":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def finite(number: Any) -> Optional[float]:
    """Return a number that JSON can hold, or None."""
    return float(number) if math.isfinite(number) else None


def kind(array: np.ndarray) -> str:
    """Return what an array's elements are: numbers with and without a sign are one kind."""
    return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}.get(array.dtype.kind, "other")


def compare(pair: Dict[str, Any]) -> Dict[str, Any]:
    """Return how far an array is from what was expected.

    Keys: ``problem`` (why they cannot be compared; empty), ``absolute`` and ``relative`` (the largest differences),
    ``at`` (the index of the worst element, by what the tolerance allows), ``got`` and ``expected`` (there), ``beyond``
    (elements that are wrong), ``elements`` (all).
    """
    got = load(pair["got"], pair["dtype"], pair["shape"])
    if isinstance(pair["expected"], dict):
        expected = np.full((), pair["expected"]["number"], dtype=object).astype(np.float64).astype(got.dtype)
    else:
        expected = load(pair["expected"], pair["dtype"], None)
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
        except (OSError, ValueError) as error:
            results.append({"problem": "the result cannot be read: %s" % error})
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
