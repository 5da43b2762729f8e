"""Reads the exported functions of an MLIR file, or its first problem, with line and column. No compiler is needed.

This is no parser of MLIR. It follows brackets, strings and comments (MLIR language reference, "Notation" and "Common
syntax"), and reads the headers of ``func.func`` operations, in their own and in the generic form. The compiler may refuse
what this accepts, but not the other way round.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bakery_iree.errors import ModuleError
from wheel_audit.plain_files import open_plain

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
"""Element type → its NumPy name. NumPy has no others (bf16, f8E4M3FN, i4, quantised types)."""

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
    """A function that a module exports: its symbol without ``@``, and its types."""

    name: str
    arguments: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        arguments, results = (", ".join(map(str, types)) for types in (self.arguments, self.results))
        return f"@{self.name}({arguments}) -> {results if len(self.results) == 1 else f'({results})'}"


MAGIC = b"ML\xefR"
"""Start of bytecode (MLIR bytecode format, version 6)."""

LARGEST_INPUT = 4 * 1024**3
"""Maximum size of a file, in bytes."""

LARGEST_TEXT = 512 * 1024**2
"""Maximum size of a text: all of it is in memory, twice. As bytecode, weights take a tenth."""

LARGEST_HEADERS = 8 * 1024**2
"""Maximum size of the arguments and results of all functions: enough for 100,000 arguments."""

DEEPEST = 256
"""Maximum depth of brackets. The compiler's own parser is recursive, and crashes at some thousands."""

_TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|["(){}\[\]]|\bfunc\.func\b')
_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}
_HEADER = re.compile(r'\s*(?:(?P<visibility>public|private|nested)\s+)?@(?P<name>[\w$.-]+|"(?:[^"\\]|\\.)*")\s*\(')
_LOCATION = re.compile(r"(?<=[\s>])loc\s*\(")
_RESULTS = re.compile(r"\s*->\s*")
_GENERIC = re.compile(r"\s*\(\)\s*(?:<\s*)?\{")
# A text may have any number of functions: each is read in place, and nothing is copied.
_IN_TYPE = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[<>(){}\[\]]|\battributes\b|\n|\bfunc\.func\b')
_IN_BRACKETS = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|[(){}\[\]]')
_IN_LIST = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[<>(){}\[\],]')


def read_module(path: Path) -> tuple[Function, ...]:
    """Return the exported functions of a file; none for bytecode, whose functions only the compiler knows.

    Raises ModuleError if it cannot be read, is not MLIR, or exports no function.
    """
    try:
        with open_plain(path, follow=True) as file:
            size = file.seek(0, 2)
            file.seek(0)
            is_bytecode = file.read(len(MAGIC)) == MAGIC
            most = LARGEST_INPUT if is_bytecode else LARGEST_TEXT
            if size > most:
                raise ModuleError(f"{path} has {size:,} bytes, more than {most:,}")
            if is_bytecode:
                return ()
            file.seek(0)
            # Python reserves memory for all that is asked for.
            data = file.read(size)
    except OSError as error:
        raise ModuleError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModuleError(
            f"{path} is neither MLIR text nor bytecode: byte {error.start} is not UTF-8",
            hint="expected StableHLO as text (.mlir), or as bytecode (.mlirbc)",
        ) from None
    functions = _Reader(str(path), text).functions()
    if not functions:
        raise ModuleError(
            f"{path} exports no function",
            hint="expected at least one public `func.func @name(…)`; private ones cannot be called",
        )
    return functions


class _Reader:
    """Reads one text."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._last_position = (0, 1, 0)
        self._left = LARGEST_HEADERS

    def functions(self) -> tuple[Function, ...]:
        """Return the exported functions of the module.

        Raises ModuleError if brackets or strings do not end, or the header of a function cannot be read.
        """
        functions = [function for start, end in self._operations() for function in self._function(start, end)]
        duplicates = [name for name, times in Counter(item.name for item in functions).items() if times > 1]
        if duplicates:
            raise ModuleError(f"{self._name}: two functions have the name @{min(duplicates)}")
        return tuple(functions)

    def _operations(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of the word ``func.func`` of each function of the outermost module."""
        stack: list[tuple[str, int]] = []
        for match in _TOKEN.finditer(self._text):
            word = match[0]
            if word == '"':
                raise self._error(match.start(), "a string without end")
            if word in _CLOSING:
                stack.append((word, match.start()))
                if len(stack) > DEEPEST:
                    raise self._error(match.start(), f"brackets are nested more than {DEEPEST} levels deep")
            elif word in ")}]":
                if not stack or _CLOSING[stack[-1][0]] != word:
                    raise self._error(match.start(), f"{word!r} without an opening bracket")
                stack.pop()
            # Inside the braces of the module, or in none if the file has no explicit module. The generic form of a
            # module is an operation with a region: "builtin.module"() ({ … }).
            elif word in ("func.func", '"func.func"') and _is_outermost(stack):
                yield match.start(), match.end()
        if stack:
            opened, where = stack[-1]
            raise self._error(where, f"{opened!r} is not closed")

    def _function(self, start: int, end: int) -> Iterator[Function]:
        if self._text[start] == '"':
            yield from self._generic(start, end)
            return
        match = _HEADER.match(self._text, end)
        if match is None:
            raise self._error(start, "expected a function: `func.func @name(%arg0: type) -> type`")
        if (match["visibility"] or "public") != "public":
            return
        inside, after = self._enclosed(match.end() - 1)
        arguments = [self._argument(text, start) for text in _split(inside)]
        results: list[str] = []
        arrow = _RESULTS.match(self._text, after)
        if arrow:
            if self._text.startswith("(", arrow.end()):
                listed, _ = self._enclosed(arrow.end())
                results = [plain_type(text) for text in _split(listed)]
            else:
                results = [self._single(arrow.end())]
        yield self._new_function(match["name"], arguments, results, start)

    def _generic(self, start: int, end: int) -> Iterator[Function]:
        opened = _GENERIC.match(self._text, end)
        if opened is None:
            raise self._error(start, 'expected a function: `"func.func"() <{function_type = …, sym_name = "…"}>`')
        inside, _ = self._enclosed(opened.end() - 1)
        fields = dict(_pair(text) for text in _split(inside))
        if fields.get("sym_visibility", '"public"') != '"public"':
            return
        type_, name = fields.get("function_type", ""), fields.get("sym_name", "")
        arrow = next(_outside_brackets(type_, "->"), None)
        if not name or not arrow:
            raise self._error(start, "expected a function with sym_name and function_type")
        before, after = type_[: arrow.start()].strip(), type_[arrow.end() :].strip()
        arguments = _split(before[1:-1])
        results = _split(after[1:-1]) if after.startswith("(") else [after]
        yield self._new_function(name, arguments, results, start)

    def _new_function(self, name: str, arguments: list[str], results: list[str], start: int) -> Function:
        types = [[Type(" ".join(text.split())) for text in texts] for texts in (arguments, results)]
        if not all(item.text for side in types for item in side):
            raise self._error(start, "a type is missing in the function's header")
        return Function(name.strip('"'), tuple(types[0]), tuple(types[1]))

    def _argument(self, text: str, start: int) -> str:
        """Return the type of ``%name: type {attributes} loc(…)``."""
        name, colon, type_ = text.partition(":")
        if not colon or not name.strip().startswith("%"):
            raise self._error(start, f"expected `%name: type`, got {text.strip()[:60]!r}")
        return plain_type(type_)

    def _single(self, start: int) -> str:
        """Return a result type without parentheses."""
        depth = 0
        for match in _IN_TYPE.finditer(self._text, start):
            word = match[0]
            if word == "func.func":
                break
            if depth == 0 and word in ("{", "attributes", "\n", ")", "}"):
                return self._text[start : match.start()]
            depth += word in _CLOSING
            depth -= word in (">", ")", "}", "]")
        else:
            if depth == 0:
                return self._text[start:]
        raise self._error(start, "a type without end")

    def _enclosed(self, start: int) -> tuple[str, int]:
        """Return the text between the bracket at ``start`` and its closing bracket, and the offset after that."""
        depth = 0
        for match in _IN_BRACKETS.finditer(self._text, start):
            depth += match[0] in _CLOSING
            depth -= match[0] in (")", "}", "]")
            if depth == 0 and match[0] in (")", "}", "]"):
                self._left -= match.end() - start
                if self._left < 0:
                    raise self._error(start, f"function headers of more than {LARGEST_HEADERS:,} bytes")
                return _uncommented(self._text[start + 1 : match.start()]), match.end()
        raise self._error(start, f"{self._text[start]!r} is not closed")

    def _position(self, offset: int) -> tuple[int, int]:
        """Return line and column. Lines are counted from the last position."""
        at, line, begin = self._last_position if self._last_position[0] <= offset else (0, 1, 0)
        line += self._text.count("\n", at, offset)
        begin = max(begin, self._text.rfind("\n", at, offset) + 1)
        self._last_position = (offset, line, begin)
        return line, offset - begin + 1

    def _error(self, offset: int, what: str) -> ModuleError:
        line, column = self._position(offset)
        return ModuleError(f"{self._name}:{line}:{column}: {what}", hint="the compiler would refuse this MLIR, too")


def _is_outermost(stack: list[tuple[str, int]]) -> bool:
    return len(stack) <= 2 and [opened for opened, _ in stack] in ([], ["{"], ["(", "{"])


def _uncommented(text: str) -> str:
    return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', lambda match: match[1] or "", text)


def _outside_brackets(text: str, word: str) -> Iterator[re.Match[str]]:
    """Yield where ``word`` occurs outside of strings and brackets."""
    depth = 0
    for match in _IN_LIST.finditer(text):
        if match[0] == word and depth == 0:
            yield match
        depth += match[0] in _CLOSING
        depth -= match[0] in (">", ")", "}", "]")


def _split(text: str) -> list[str]:
    """Return the items of a list, split at commas outside of brackets."""
    items, begin = [], 0
    for match in _outside_brackets(text, ","):
        items.append(text[begin : match.start()])
        begin = match.end()
    last = text[begin:]
    return [*items, last] if items or last.strip() else []


def plain_type(text: str) -> str:
    """Return a type without the attributes and the location after it.

    IREE's own types have no sign. Its compiler keeps the type of the source in an attribute: ``tensor<4xi8>
    {iree.abi.encoding = tensor<4xui8>}`` (iree-compile 3.13.0, 2026-11-28).
    """
    braces = next(_outside_brackets(text, "{"), None)
    if braces is None:
        return _LOCATION.split(text, maxsplit=1)[0]
    attributes = text[braces.end() :].rpartition("}")[0]
    fields = dict(map(_pair, _split(attributes)))
    return fields.get("iree.abi.encoding") or text[: braces.start()]


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()
