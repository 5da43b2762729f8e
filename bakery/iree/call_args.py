"""A call of a function of a compiled module: a person's words, checked against what the function takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.iree.mlir.signature import Function, Type
from bakery.iree.models.job import Check
from bakery.iree.modules import Compiled
from bakery.iree.npy import ELEMENTS, Array, DataError, Scalar, Value, mismatch, raw, read_data, size
from bakery.recipe.problems import nearest, one_of

BYTES = ("bfloat16",)
"""dtypes that iree-run-module takes and gives only as bytes: its numpy_io.c knows no such description."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that fits its function.

    Attributes:
        files: what it reads, by the name that `words` gives it.
        words: flags of iree-run-module and iree-benchmark-module that hand in the arguments.
    """

    function: Function
    arguments: tuple[Value, ...]
    words: tuple[str, ...]
    files: dict[str, Path | bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of its arguments."""
        return sum(size(value) for value in self.arguments if isinstance(value, Array))


@dataclass(frozen=True, slots=True)
class Case:
    """A check that fits its module.

    Attributes:
        check: what a person wrote.
        folder: what its paths are relative to.
        results: names of the files that the module's results are written to.
        expected: its results; None where a reference gives them.
    """

    check: Check
    folder: Path
    call: Call
    results: tuple[str, ...]
    expected: tuple[Value, ...] | None

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the results."""
        return self.call.function.results


def find_function(module: Compiled, name: str | None) -> Function:
    """Return the function that a call means.

    Raises:
        DataError: there is none of that name, or one must be named.
    """
    known = {function.name: function for function in module.functions}
    if name is None:
        if len(known) == 1:
            return next(iter(known.values()))
        raise DataError(f"it exports {len(known)} functions; name one: {one_of(known)}")
    if name not in known:
        near = nearest(name, known)
        meant = f"did you mean {near}?" if near else f"it exports {one_of(known)}"
        raise DataError(f"there is no function {name}; {meant}")
    return known[name]


def read_values(texts: Sequence[str], types: Sequence[Type], folder: Path, what: str) -> tuple[Value, ...]:
    """Return the values that texts stand for, which must fit types.

    Args:
        what: ``input`` or ``expected``, for messages.

    Raises:
        DataError: they do not; all that is wrong, a line each.
    """
    values: list[Value] = []
    problems: list[str] = []
    for text in texts:
        try:
            values += read_data(text, folder)
        except DataError as error:
            problems.append(f"{what}: {error}")
    if not problems and len(values) != len(types):
        problems.append(f"{what}: expected {len(types)} values ({_listed(types)}), got {len(values)}")
    if not problems:
        found = [mismatch(value, type_) for value, type_ in zip(values, types, strict=True)]
        problems = [f"{what} {index}: {text}" for index, text in enumerate(found) if text]
    if problems:
        raise DataError("\n".join(problems))
    return tuple(values)


def read_call(module: Compiled, name: str | None, inputs: Sequence[str], folder: Path, prefix: str) -> Call:
    """Return a call of a module's function.

    Args:
        inputs: the arguments, as a person writes them.
        folder: what paths are relative to.
        prefix: begins the names of its files, so that several calls share a folder.

    Raises:
        DataError: it does not fit; all that is wrong, a line each.
    """
    function = find_function(module, name)
    values = read_values(inputs, function.arguments, folder, "input")
    words: list[str] = []
    files: dict[str, Path | bytes] = {}
    for index, value in enumerate(values):
        if isinstance(value, Scalar):
            words.append(f"--input={value.source}")
        elif value.dtype in BYTES:
            place = f"{prefix}.{index}.bin"
            shape = "x".join([*map(str, value.shape), _element(value.dtype)])
            words.append(f"--input={shape}=@{place}")
            files[place] = raw(value)
        else:
            place = f"{prefix}.{index}.npy"
            words.append(f"--input=@{place}")
            files[place] = value.content
    return Call(function, values, tuple(words), files)


def result_name(type_: Type, prefix: str, index: int) -> str:
    """Return the name of the file that a result is written to.

    Raises:
        DataError: IREE's tools write no such result.
    """
    if ELEMENTS.get(type_.element) in BYTES:
        if None in (type_.shape or ()):
            raise DataError(f"result {index}: {type_} cannot be had from iree-run-module: its shape would be lost")
        return f"{prefix}.{index}.bin"
    return f"{prefix}.{index}.npy"


def read_case(module: Compiled, check: Check, folder: Path, index: int) -> Case:
    """Return a check that fits its module.

    Args:
        index: its number among the module's checks, which names its files.

    Raises:
        DataError: it does not fit; all that is wrong, a line each.
    """
    call = read_call(module, check.function, check.inputs, folder, f"in/{index}")
    types = call.function.results
    expected = None
    if check.expected is not None:
        expected = read_values(check.expected, types, folder, "expected")
    elif check.reference is not None:
        file = folder / check.reference.rpartition(":")[0]
        if not file.is_file():
            raise DataError(f"reference: no such file: {file}")
    results = tuple(result_name(type_, str(index), number) for number, type_ in enumerate(types))
    return Case(check, folder, call, results, expected)


def _element(dtype: str) -> str:
    return next(element for element, name in ELEMENTS.items() if name == dtype)


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "none"
