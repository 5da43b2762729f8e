"""Small modules as StableHLO, each with the same in numpy, drawn at random: what is compiled must agree with what is known."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from bakery_iree.npy import npy

Shape = tuple[int, ...]

SIZES = st.integers(1, 17)
"""Also sizes that no vector width divides."""

UNARY = {
    "abs": "np.abs({})",
    "negate": "-{}",
    "tanh": "np.tanh({})",
    "exponential": "np.exp({})",
    "logistic": "1 / (1 + np.exp(-{}))",
    "floor": "np.floor({})",
}
BINARY = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "maximum": "np.maximum({}, {})",
    "minimum": "np.minimum({}, {})",
}
REDUCTIONS = {"add": ("0.0", "np.sum"), "maximum": ("0xFF800000", "np.max")}


@dataclass(frozen=True)
class Small:
    """A module.

    Attributes:
        text: StableHLO; its function is ``main``.
        reference: Python: the body of a function of ``a``, ``b``, … over numpy arrays.
        shapes: of the arguments, all float32.
        seed: of the arguments' values.
    """

    text: str
    reference: str
    shapes: tuple[Shape, ...]
    seed: int

    def inputs(self) -> list[bytes]:
        """Return the arguments as ``.npy`` files: values from -1 to 1."""
        numbers = random.Random(self.seed)
        return [_file(shape, numbers) for shape in self.shapes]

    def function(self, name: str) -> str:
        """Return the reference as a Python function."""
        arguments = ", ".join("abc"[: len(self.shapes)])
        return f"def {name}({arguments}):\n    {self.reference}\n"


def _file(shape: Shape, numbers: random.Random) -> bytes:
    count = 1
    for size in shape:
        count *= size
    return npy("float32", shape, struct.pack(f"<{count}f", *(numbers.uniform(-1, 1) for _ in range(count))))


def tensor(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def _module(shapes: Sequence[Shape], lines: Sequence[str], result: str, shape: Sequence[int]) -> str:
    arguments = ", ".join(f"%{name}: {tensor(item)}" for name, item in zip("abc", shapes, strict=False))
    body = "\n".join(f"  {line}" for line in lines)
    kind = tensor(shape)
    return f"func.func @main({arguments}) -> {kind} {{\n{body}\n  return %{result} : {kind}\n}}\n"


def _made(
    lines: list[str], result: str, shape: Sequence[int], shapes: tuple[Shape, ...], reference: str, seed: int
) -> Small:
    return Small(_module(shapes, lines, result, shape), reference, shapes, seed)


SEEDS = st.integers(0, 2**32)


@st.composite
def elementwise(draw: st.DrawFn) -> Small:
    """Draw a chain of operations over two arrays of one shape."""
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    lines, words = [], ["a", "b"]
    python: dict[str, str] = {}
    for index in range(draw(st.integers(1, 5))):
        name = f"v{index}"
        if draw(st.booleans()):
            operation, form = draw(st.sampled_from(sorted(BINARY.items())))
            of = [draw(st.sampled_from(words)) for _ in range(2)]
        else:
            operation, form = draw(st.sampled_from(sorted(UNARY.items())))
            # Two exponentials in a row leave what float32 holds; floor makes a jump of a rounding.
            of = [draw(st.sampled_from(["a", "b"] if operation in ("exponential", "floor") else words))]
        lines.append(f"%{name} = stablehlo.{operation} {', '.join(f'%{item}' for item in of)} : {tensor(shape)}")
        python[name] = form.format(*of)
        words.append(name)
    steps = "; ".join(f"{name} = {text}" for name, text in python.items())
    return _made(lines, words[-1], shape, (shape, shape), f"{steps}; return {words[-1]}", draw(SEEDS))


@st.composite
def matmul(draw: st.DrawFn) -> Small:
    """Draw a matrix product and a sum."""
    m, k, n = (draw(SIZES) for _ in range(3))
    kinds = f"({tensor((m, k))}, {tensor((k, n))}) -> {tensor((m, n))}"
    lines = [
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : {kinds}",
        f"%1 = stablehlo.add %0, %c : {tensor((m, n))}",
    ]
    return _made(lines, "1", (m, n), ((m, k), (k, n), (m, n)), "return a @ b + c", draw(SEEDS))


@st.composite
def reduction(draw: st.DrawFn) -> Small:
    """Draw a sum or a maximum over some dimensions."""
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    axes = sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    operation, (first, python) = draw(st.sampled_from(sorted(REDUCTIONS.items())))
    return _made(
        [f"%i = stablehlo.constant dense<{first}> : tensor<f32>", _reduced("0", "a", operation, shape, axes, left)],
        *("0", left, (shape,), f"return {python}(a, axis={tuple(axes)})", draw(SEEDS)),
    )


def _reduced(
    name: str, of: str, operation: str, shape: Shape, axes: Sequence[int], left: Shape, init: str = "i"
) -> str:
    return (
        f"%{name} = stablehlo.reduce(%{of} init: %{init}) applies stablehlo.{operation} across dimensions = "
        f"{list(axes)} : ({tensor(shape)}, tensor<f32>) -> {tensor(left)}"
    )


@st.composite
def softmax(draw: st.DrawFn) -> Small:
    """Draw a softmax over the last dimension."""
    rows, columns = draw(SIZES), draw(SIZES)
    shape, left = (rows, columns), (rows,)
    full, kinds = tensor(shape), f"({tensor(left)}) -> {tensor(shape)}"
    lines = [
        "%i = stablehlo.constant dense<0xFF800000> : tensor<f32>",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        _reduced("m", "a", "maximum", shape, [1], left),
        f"%mb = stablehlo.broadcast_in_dim %m, dims = [0] : {kinds}",
        f"%s = stablehlo.subtract %a, %mb : {full}",
        f"%e = stablehlo.exponential %s : {full}",
        _reduced("t", "e", "add", shape, [1], left, "z"),
        f"%tb = stablehlo.broadcast_in_dim %t, dims = [0] : {kinds}",
        f"%r = stablehlo.divide %e, %tb : {full}",
    ]
    python = "e = np.exp(a - a.max(1, keepdims=True)); return e / e.sum(1, keepdims=True)"
    return _made(lines, "r", shape, (shape,), python, draw(SEEDS))


@st.composite
def convolution(draw: st.DrawFn) -> Small:
    """Draw a convolution of an image of several channels, without padding."""
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    # The windows reach to the last row and column: iree-compile 3.13.0 refuses 3×7 with a kernel of 2 and a stride of 2
    # (the output has one row, which is folded away with the row that no window covers).
    out = tuple(draw(st.integers(1, 9)) for _ in range(2))
    height, width = ((size - 1) * stride + kernel for size in out)
    channels, filters = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    image, weights = (1, height, width, channels), (kernel, kernel, channels, filters)
    shape = (1, *out, filters)
    lines = [
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = [{stride}, {stride}], pad = [[0, 0], [0, 0]]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        f"({tensor(image)}, {tensor(weights)}) -> {tensor(shape)}"
    ]
    python = (
        f"w = np.lib.stride_tricks.sliding_window_view(a, ({kernel}, {kernel}), (1, 2))[:, ::{stride}, ::{stride}]; "
        "return np.einsum('nhwcij,ijco->nhwo', w, b)"
    )
    return _made(lines, "0", shape, (image, weights), python, draw(SEEDS))


KINDS = {
    "elementwise": elementwise,
    "matmul": matmul,
    "reduction": reduction,
    "softmax": softmax,
    "convolution": convolution,
}


@st.composite
def batches(draw: st.DrawFn, *, each: int) -> dict[str, Small]:
    """Draw some modules of every kind: one job compiles and checks them all, for the time that each call costs."""
    return {f"{kind}{index}": draw(make()) for kind, make in KINDS.items() for index in range(each)}
