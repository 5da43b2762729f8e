"""What expressions of a setup.py stand for, as far as constants and variables of the environment decide."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN = object()
"""What an expression stands for that something else decides."""

_DEEPEST = 20
_MOST_ASKED = 20
# What images, compilers, package managers and CI set, and what a recipe for CUDA is given.
_ANY_VALUE = re.compile(
    r"[A-Z]{0,9}FLAGS|PATH|HOME|USER|LANG|CC|CXX|LD|AR|PWD|SHELL|TMPDIR|TEMP|PREFIX|.*(?:CUDA|GPU|TORCH|NVCC|ROCM|FORCE).*"
    r"|(?:PIP|PYTHON|CMAKE|AUDITWHEEL|SETUPTOOLS|CONDA|PKG_CONFIG|LD|LC|XDG|UV|SOURCE_DATE|MAX|MAKE)_.*"
    r"|PYTHON[A-Z]*|(?:LIBRARY_|C_INCLUDE_|CPLUS_INCLUDE_|C)PATH"
)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: bool(left == right),
    ast.NotEq: lambda left, right: bool(left != right),
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_METHODS: dict[str, Callable[[str], object]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_TYPES: dict[str, Callable[[Any], object]] = {"bool": bool, "int": int, "str": str}


class StaticValues:
    """The values of names, in the order of the file.

    Attributes:
        asked: the variables of the environment that the last call of `truth` looked at and that are not set.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._named: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._assigned: set[int] = set()
        self._set: set[object] = set()
        self.asked: tuple[str, ...] = ()

    def note(self, node: ast.AST) -> None:
        """Note what a node does to a name, or to the environment; a name with two different values has none."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in self._assigned:
            self._named[node.id] = UNKNOWN, ()
        elif isinstance(node, ast.arg | ast.alias):
            name = node.arg if isinstance(node, ast.arg) else node.asname or node.name
            self._named[name] = UNKNOWN, ()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
            self._set |= {getattr(item, "value", None) for item in node.args[:1] if _is_environ(node.func.value)}

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assigned.add(id(target))
            self.asked = ()
            # A list grows.
            found = UNKNOWN if isinstance(value, ast.List | ast.Set) else self._value(value, 0)
            known = self._named.get(target.id, (found, ()))[0]
            self._named[target.id] = (found if _same(known, found) else UNKNOWN, self.asked)
        elif isinstance(target, ast.Subscript) and _is_environ(target.value):
            self._set.add(getattr(target.slice, "value", None))

    def skip(self, part: ast.AST) -> None:
        """Note that the last condition leaves a part out: the names that it would set depend on the same variables."""
        for node in ast.walk(part) if self.asked else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self._named:
                value, asked = self._named[node.id]
                self._named[node.id] = value, tuple(dict.fromkeys((*asked, *self.asked)))[:_MOST_ASKED]

    def truth(self, test: ast.expr) -> bool | None:
        """Return whether a condition holds; None if something else decides."""
        self.asked = ()
        value = self._value(test, 0)
        return None if value is UNKNOWN else bool(value)

    def _value(self, node: ast.expr, depth: int) -> object:
        found: object = UNKNOWN
        match node:
            case _ if depth > _DEEPEST:
                pass
            case ast.Constant():
                found = node.value
            case ast.Name():
                found, asked = self._named.get(node.id, (UNKNOWN, ()))
                self.asked = tuple(dict.fromkeys((*self.asked, *asked)))[:_MOST_ASKED]
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                values = [self._value(item, depth + 1) for item in items[:100]]
                # Tuples in tuples would make comparisons long.
                is_plain = len(items) <= 100 and all(isinstance(value, str | int | None) for value in values)
                found = tuple(values) if is_plain else UNKNOWN
            case ast.UnaryOp(op=ast.Not()):
                value = self._value(node.operand, depth + 1)
                found = value if value is UNKNOWN else not value
            case ast.BoolOp():
                found = self._joined(node, depth)
            case ast.Compare(ops=[operator], comparators=[right]):
                found = self._compared(node.left, operator, right, depth)
            case ast.Call():
                found = self._called(node, depth)
        return found

    def _joined(self, node: ast.BoolOp, depth: int) -> object:
        decides = isinstance(node.op, ast.Or)
        values = [self._value(item, depth + 1) for item in node.values[:100]]
        for value in values:
            if value is not UNKNOWN and bool(value) is decides:
                return value
        return UNKNOWN if UNKNOWN in values or len(node.values) > 100 else values[-1]

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, depth: int) -> object:
        if isinstance(operator, ast.In | ast.NotIn) and isinstance(left, ast.Constant) and _is_environ(right):
            value = self._variable(left.value, None)
            return value if value is UNKNOWN else (value is not None) is isinstance(operator, ast.In)
        values = self._value(left, depth + 1), self._value(right, depth + 1)
        compare = _COMPARE.get(type(operator))
        if compare is None or UNKNOWN in values:
            return UNKNOWN
        try:
            return compare(*values)
        except TypeError:
            return UNKNOWN

    def _called(self, node: ast.Call, depth: int) -> object:
        function, arguments = node.func, node.args
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "getenv" or (name == "get" and isinstance(function, ast.Attribute) and _is_environ(function.value)):
            default = self._value(arguments[1], depth + 1) if len(arguments) == 2 else None
            is_read = len(arguments) in (1, 2) and not node.keywords and isinstance(arguments[0], ast.Constant)
            return self._variable(arguments[0].value, default) if is_read else UNKNOWN  # type: ignore[attr-defined]
        if isinstance(function, ast.Attribute) and name in _METHODS and not arguments:
            value = self._value(function.value, depth + 1)
            return _METHODS[name](value) if isinstance(value, str) else UNKNOWN
        if isinstance(function, ast.Name) and name in _TYPES and len(arguments) == 1:
            value = self._value(arguments[0], depth + 1)
            try:
                return value if value is UNKNOWN else _TYPES[name](value)
            except (TypeError, ValueError):
                return UNKNOWN
        return UNKNOWN

    def _variable(self, name: object, default: object) -> object:
        if not isinstance(name, str) or name in self._set:
            return UNKNOWN
        if name not in self._environment and _ANY_VALUE.fullmatch(name):
            return UNKNOWN
        if name in self._environment:
            return self._environment[name]
        self.asked += (name,)
        return default


def _is_environ(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )


def _same(one: object, other: object) -> bool:
    """Whether two values are the same, ``True`` and ``1`` not."""
    return one is other or (type(one) is type(other) and one == other)
