"""Programs of containers and bundles that work with elements of arrays. They need NumPy, which Bakery does not."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bakery_iree import programs

FOLDER = Path(programs.__file__).parent
LARGE = 9007199254740993
"""The first integer that float64 does not have."""


@pytest.mark.parametrize(
    ("got", "dtype", "expected", "wrong"),
    [
        (("i8", LARGE - 1), "int64", str(LARGE), (f"{LARGE - 1}", f"{LARGE}")),
        (("i8", LARGE), "int64", str(LARGE), ()),
        (("i8", -1), "int64", str(2**64 - 1), ()),
        (("i8", 5), "", "6", ("5", "6")),
        # IREE returns these as 32 bits.
        (("i4", -56), "int8", "200", ()),
        (("i4", 200), "int8", "-56", ()),
        (("i4", 1), "bool", "1", ()),
        (("f4", 1.5), "float32", "1.5", ()),
        (("i1", [-56, 1]), "int8", ("u1", [200, 1]), ()),
        (("i1", [-56, 1]), "int8", ("u1", [201, 1]), ("200", "201")),
        (("<u4", [1, 2]), "int32", (">i4", [1, 2]), ()),
        (("i4", [-1]), "int32", ("i8", [-1]), ()),
    ],
)
def test_integers_are_compared_exactly(
    got: tuple[str, object], dtype: str, expected: object, wrong: tuple[str, ...], tmp_path: Path
) -> None:
    pair: dict[str, Any] = {"dtype": dtype, "shape": None, "rtol": 0.0, "atol": 0.0, "got": str(tmp_path / "got.npy")}
    np.save(pair["got"], np.array(got[1], dtype=got[0]))
    if isinstance(expected, tuple):
        pair["expected"] = str(tmp_path / "expected.npy")
        np.save(pair["expected"], np.array(expected[1], dtype=expected[0]))
    else:
        pair["expected"] = {"number": expected}
    found = runpy.run_path(str(FOLDER / "module_compare.py"))["compare"](pair)
    assert (found["problem"], found["beyond"]) == ("", 1 if wrong else 0)
    assert not wrong or (found["got"], found["expected"]) == wrong


@pytest.mark.parametrize(
    ("text", "type_", "dtype", "value"),
    [
        (f"2xi64={LARGE}", "tensor<2xi64>", "int64", [LARGE, LARGE]),
        ("4xui8=200,1 2 [3]", "tensor<4xui8>", "uint8", [200, 1, 2, 3]),
        ("2xsi8=-3", "tensor<2xsi8>", "int8", [-3, -3]),
        ("2xi1=1 0", "tensor<2xi1>", "bool", [True, False]),
        ("2xbf16=1.5", "tensor<2xbf16>", "bfloat16", [1.5, 1.5]),
        (str(LARGE), "i64", "", LARGE),
        # As an integer, IREE takes it for 0.0.
        ("1", "f32", "", 1.0),
    ],
)
def test_the_loader_reads_values_exactly(text: str, type_: str, dtype: str, value: object) -> None:
    found = runpy.run_path(str(FOLDER / "load_module.py"))["value"](text, type_)
    assert (str(getattr(found, "dtype", "")), found.tolist() if dtype else found) == (dtype, value)
    assert dtype or type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4xi8=300", "out of bounds for int8"),
        ("4xi8=1.5", "invalid literal"),
        ("4xi8=1,2", "cannot reshape"),
        ("4xi8=", "out of bounds"),
        ("4xq8=1", "unknown element type 'q8'"),
        ("none.npy", "No such file"),
        ("abc", "invalid literal"),
    ],
)
def test_the_loader_says_what_is_no_value(text: str, said: str) -> None:
    with pytest.raises(SystemExit, match=f"run: --input {text}: .*{said}"):
        runpy.run_path(str(FOLDER / "load_module.py"))["value"](text, "i32")
