"""Calls of functions of compiled modules: the user's values, checked against the signature of the function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.recipe.problems import nearest, one_of
from bakery_iree.mlir import Function, Type
from bakery_iree.models.job import Check
from bakery_iree.modules import Compiled
from bakery_iree.npy import ELEMENTS, DataError, Scalar, Value, mismatch, raw, read_data

BYTES = ("bfloat16",)
"""dtypes that iree-run-module reads and writes only as bytes, because its numpy_io.c does not know them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that fits its function.

    Attributes:
        files: its input files, by their name in `words`.
        words: flags of iree-run-module and iree-benchmark-module that pass the arguments.
    """

    function: Function
    arguments: tuple[Value, ...]
    words: tuple[str, ...]
    files: dict[str, Path | bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """A check that fits its module.

    Attributes:
        folder: the folder that its paths are relative to.
        results: names of the files for the module's results.
        expected: the expected results; None if a reference returns them.
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
    """Return the function of a call.

    Raises DataError if no function has that name, or there is no name and several functions.
    """
    functions = {function.name: function for function in module.functions}
    if name is None:
        if len(functions) == 1:
            return next(iter(functions.values()))
        raise DataError(f"it exports {len(functions)} functions; name one: {one_of(functions)}")
    if name not in functions:
        close = nearest(name, functions)
        advice = f"did you mean {close}?" if close else f"it exports {one_of(functions)}"
        raise DataError(f"there is no function {name}; {advice}")
    return functions[name]


def read_values(texts: Sequence[str], types: Sequence[Type], folder: Path, what: str) -> tuple[Value, ...]:
    """Read values and check that they fit types. ``what`` names them in messages: ``input`` or ``expected``.

    Raises DataError if they do not fit; one line for each problem.
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
        mismatches = [mismatch(value, type_) for value, type_ in zip(values, types, strict=True)]
        problems = [f"{what} {index}: {text}" for index, text in enumerate(mismatches) if text]
    if problems:
        raise DataError("\n".join(problems))
    return tuple(values)


def read_call(module: Compiled, name: str | None, inputs: Sequence[str], folder: Path, prefix: str) -> Call:
    """Return a call of a module's function. Raises DataError if it does not fit; one line for each problem.

    ``inputs`` are the arguments, as the user writes them, with paths relative to ``folder``. The names of its files
    begin with ``prefix``, so that several calls can share a folder.
    """
    function = find_function(module, name)
    values = read_values(inputs, function.arguments, folder, "input")
    words: list[str] = []
    files: dict[str, Path | bytes] = {}
    for index, value in enumerate(values):
        if isinstance(value, Scalar):
            words.append(f"--input={value.source}")
        elif value.dtype in BYTES:
            path = f"{prefix}.{index}.bin"
            element = next(name for name, dtype in ELEMENTS.items() if dtype == value.dtype)
            shape = "x".join([*map(str, value.shape), element])
            words.append(f"--input={shape}=@{path}")
            files[path] = raw(value)
        else:
            path = f"{prefix}.{index}.npy"
            words.append(f"--input=@{path}")
            files[path] = value.content
    return Call(function, values, tuple(words), files)


def result_name(type_: Type, prefix: str, index: int) -> str:
    """Return the name of the file for a result; raise DataError if IREE's tools cannot write such a result."""
    if ELEMENTS.get(type_.element) in BYTES:
        if None in (type_.shape or ()):
            raise DataError(f"result {index}: iree-run-module cannot write {type_}: its shape would be lost")
        return f"{prefix}.{index}.bin"
    return f"{prefix}.{index}.npy"


def read_case(module: Compiled, check: Check, folder: Path, index: int) -> Case:
    """Read check number ``index`` of a module, and check that it fits the module.

    Raises DataError if it does not; one line for each problem.
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


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "none"
