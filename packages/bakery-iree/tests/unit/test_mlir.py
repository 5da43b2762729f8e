"""What modules export, read without a compiler; and what is no module."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery_iree.errors import ModuleError
from bakery_iree.mlir import DEEPEST, Function, Type, read_module
from bakery_iree.vmfb import _declarations

MATMUL = """\
// A comment with a brace { and a quote "
#map = affine_map<(d0) -> (d0)>
module @matmul attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<64x64xf32> {mhlo.sharding = "{x, y}"}, // the left side
                         %arg1: tensor<64x?xf32>) -> (tensor<64x?xf32> {jax.result_info = "a"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x?xf32>)
      -> tensor<64x?xf32>
    return %0 : tensor<64x?xf32>
  }
  func.func private @helper(%arg0: tensor<i1>) -> tensor<i1> {
    return %arg0 : tensor<i1>
  }
  func.func @pair(%arg0: tensor<complex<f32>>, %f: !stablehlo.token)
      -> (tensor<4x!quant.uniform<i8:f32, 1.0>>, (i32, i32) -> i32) attributes {x = "func.func @no("} {
  }
  func.func @nothing() {
    return
  }
}
"""

GENERIC = """\
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2xf32>, %arg1: tensor<f32>):
    "func.return"(%arg0) : (tensor<2xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "inner", sym_visibility = "private"}> ({
  }) : () -> ()
}) : () -> ()
"""


def functions(folder: Path, text: str) -> tuple[Function, ...]:
    path = folder / "m.mlir"
    path.write_text(text)
    return read_module(path)


def test_exported_functions_with_their_types(tmp_path: Path) -> None:
    assert [str(item) for item in functions(tmp_path, MATMUL)] == [
        "@main(tensor<64x64xf32>, tensor<64x?xf32>) -> tensor<64x?xf32>",
        "@pair(tensor<complex<f32>>, !stablehlo.token) -> (tensor<4x!quant.uniform<i8:f32, 1.0>>, (i32, i32) -> i32)",
        "@nothing() -> ()",
    ]


def test_the_generic_form(tmp_path: Path) -> None:
    assert list(map(str, functions(tmp_path, GENERIC))) == ["@main(tensor<2xf32>, tensor<f32>) -> tensor<2xf32>"]


def test_a_file_without_module_around_it(tmp_path: Path) -> None:
    (found,) = functions(tmp_path, "func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> { return %x : tensor<4xi32> }")
    assert (found.name, found.arguments, found.results) == ("f", (Type("tensor<4xi32>"),), (Type("tensor<4xi32>"),))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ('tensor<4xf32> loc("x")', "tensor<4xf32>"),
        ("tensor<4xf32>loc(unknown)", "tensor<4xf32>"),
        ('tensor<4xf32> {a = "loc("} loc(fused["a", "b"])', "tensor<4xf32>"),
        ('tensor<4xf32, #enc<{a = 1}>> {jax.result_info = "}"}', "tensor<4xf32, #enc<{a = 1}>>"),
        ("tensor<4xi8> {a = [1, 2], iree.abi.encoding = tensor<4xui8>, b}", "tensor<4xui8>"),
    ],
)
def test_what_comes_after_a_type_is_no_part_of_it(tmp_path: Path, text: str, type_: str) -> None:
    """In MLIR, and in compiled modules, which iree-compile 3.13.0 writes like this."""
    (found,) = functions(tmp_path, f"func.func @f(%x: {text}, %y: i32 {{b}}) -> (tensor<2xf32> {{c}}) {{ }}")
    assert str(found) == f"@f({type_}, i32) -> tensor<2xf32>"
    text = text.partition(" loc(")[0]
    declared = f"sync func @f(%input0: {text}, %input1: i32) -> (%output0: {text}, %output1: tensor<?xbf16>)\0"
    (function,) = _declarations(declared.encode())
    assert str(function) == f"@f({type_}, i32) -> ({type_}, tensor<?xbf16>)"


def test_bytecode(tmp_path: Path) -> None:
    (tmp_path / "m.mlirbc").write_bytes(b"ML\xefR\x0dStableHLO_v1.0.0\0")
    assert read_module(tmp_path / "m.mlirbc") == ()


@pytest.mark.parametrize(
    ("text", "shape", "element", "dtype"),
    [
        ("tensor<f32>", (), "f32", "float32"),
        ("tensor<1x2x?xbf16>", (1, 2, None), "bf16", ""),
        ("tensor<4xcomplex<f64>>", (4,), "complex<f64>", "complex128"),
        ("tensor<4xsi8>", (4,), "si8", "int8"),
        ("tensor<4xui8>", (4,), "ui8", "uint8"),
        ("tensor<4xf32, #enc<{a = 1}>>", (4,), "f32", "float32"),
        ("tensor<*xf32>", None, "tensor<*xf32>", ""),
        ("!stablehlo.token", None, "!stablehlo.token", ""),
    ],
)
def test_types(text: str, shape: tuple[int | None, ...] | None, element: str, dtype: str) -> None:
    found = Type(text)
    assert (found.shape, found.element, found.dtype) == (shape, element, dtype)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "exports no function"),
        ("module {}", "exports no function"),
        ("module { func.func private @f() { return } }", "exports no function"),
        ("module {\n  func.func @f( {\n}", ":2:15: '(' is not closed"),
        ("module {\n}}", ":2:2: '}' without an opening bracket"),
        ('module {\n  x = "open\n}', ":2:7: a string without end"),
        ("func.func f()", ":1:1: expected a function"),
        ("func.func @f(tensor<f32>) { }", ":1:1: expected `%name: type`"),
        ("func.func @f(%a: ) { }", ":1:1: a type is missing"),
        ("func.func @f() { }\nfunc.func @f() { }", "two functions have the name @f"),
        ("(" * (DEEPEST + 1), f"brackets are nested more than {DEEPEST} levels"),
        ('"func.func"() <{sym_name = "f"}> ({})', "expected a function with sym_name and function_type"),
    ],
)
def test_what_is_no_module(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModuleError) as caught:
        functions(tmp_path, text)
    assert said in caught.value.message
    assert caught.value.hint or "two functions" in said


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "binary.mlir").write_bytes(b"\x7fELF\xff\xfe")
    for name, said in (
        ("gone.mlir", "cannot be read"),
        (".", "not a regular file"),
        ("binary.mlir", "byte 4 is not UTF-8"),
    ):
        with pytest.raises(ModuleError) as caught:
            read_module(tmp_path / name)
        assert said in caught.value.message


WORDS = [
    "func.func ", "@f", "(", ")", "{", "}", "<", ">", "->", "%a: ", "tensor<2xf32>", ",", '"', "//", "\n", "module ",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_garbage_is_told_and_never_a_traceback(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.mlir"
    path.write_text("".join(words))
    with suppress(ModuleError):
        assert read_module(path)
