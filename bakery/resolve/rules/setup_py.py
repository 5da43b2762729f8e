"""What a setup.py fixes that a recipe would decide: the GPUs that flags for nvcc name, and its source files. No code runs."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_SM = r"(?:sm|compute)_\d+[af]?"
_FLAG = re.compile(rf"arch=compute_\d+[af]?,code=\[?({_SM}(?:,{_SM})*)|(?:-arch|--gpu-architecture)[= ]sm_(\d+[af]?)")
_SOURCE = re.compile(r"[\w./ +-]+\.(?:c|cc|cpp|cxx|cu)\Z")
_RELEASES = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq}
_CUDA_NAME = re.compile(r"cuda|nvcc|bare_?metal", re.IGNORECASE)
_ROCM_NAME = re.compile(r"(?:^|[\W_])(?:hip|rocm)", re.IGNORECASE)
_MOST_NODES = 200_000


@dataclass(frozen=True)
class _Test:
    """What holds where a flag stands: a comparison of CUDA's release, or (no release) a condition that nobody knows."""

    place: int
    is_true: bool
    compare: type[ast.cmpop] = ast.Eq
    release: tuple[int, ...] = ()

    def holds(self, cuda: tuple[int, ...]) -> bool:
        """Whether it does with a release of CUDA."""
        return not self.release or _RELEASES[self.compare](cuda, self.release) is self.is_true


@dataclass(frozen=True)
class GpuFlags:
    """The flags for nvcc of a setup.py that name GPUs: with one, torch ignores TORCH_CUDA_ARCH_LIST.

    Attributes:
        place: the first one, as ``setup.py:12``; empty for none.
        flags: the code that each asks for, as ``sm_90``, and what holds where it stands; no code if a variable decides.
    """

    place: str = ""
    flags: tuple[tuple[tuple[str, ...], tuple[_Test, ...]], ...] = field(default=(), repr=False)

    def code(self, cuda: str) -> tuple[str, ...]:
        """Return the code for a release of CUDA (``13.0.3``); empty if variables or unknown conditions decide."""
        unknown = [frozenset(test for test in tests if not test.release) for _, tests in self.flags]
        # What is the same for all flags decides whether there is an extension, not for which GPUs.
        if len(set(unknown)) > 1 or not all(code for code, _ in self.flags) or not re.fullmatch(r"\d+\.[\d.]*\d", cuda):
            return ()
        release = tuple(map(int, cuda.split(".")))
        found = (code for code, tests in self.flags if all(test.holds(release[:2]) for test in tests))
        return tuple(dict.fromkeys(item for code in found for item in code))


def read_gpu_flags(module: ast.Module) -> GpuFlags:
    """Return the flags for nvcc of a setup.py that name GPUs."""
    place, flags, is_read = "", [], False
    for node, tests in _reached(module):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        is_read = is_read or text == "TORCH_CUDA_ARCH_LIST"
        if "arch=compute_" not in text and not _FLAG.search(text):
            continue
        place = place or f"setup.py:{getattr(node, 'lineno', 0)}"
        codes = [
            code
            for match in _FLAG.finditer(text)
            for code in (match[1].split(",") if match[1] else (f"sm_{match[2]}", f"compute_{match[2]}"))
        ]
        flags.append((tuple(codes), tests))
    # A project that looks for the list has flags with variables for builds without.
    return GpuFlags() if is_read and not all(codes for codes, _ in flags) else GpuFlags(place, tuple(flags))


def read_sources(module: ast.Module) -> dict[str, str]:
    """Return the source files that a setup.py names for its extensions, with their places."""
    nodes = [node for node, _ in _reached(module)]
    constants = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    named: list[ast.expr] = [value for name, value in constants.items() if "source" in name]
    for node in nodes:
        if isinstance(node, ast.Call) and "Extension" in called(node):
            named += [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "sources")]
    items = [item for value in named for item in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    paths = [(_path(item, constants, 0), item.lineno) for item in items]
    return {path: f"setup.py:{line}" for path, line in paths if path and _SOURCE.match(path)}


def rocm_lines(module: ast.Module) -> frozenset[int]:
    """Return the lines of branches that only a build for AMD's GPUs reaches."""
    lines: set[int] = set()
    for node in (item for item in ast.walk(module) if isinstance(item, ast.If)):
        tests = (
            node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
        )
        named = [test for test in tests if _ROCM_NAME.search(_words(test))]
        is_not = [isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) for test in named]
        body = node.body if not all(is_not) else node.orelse if tests == named else []
        lines |= {line for item in body for line in range(item.lineno, (item.end_lineno or 0) + 1)}
    return frozenset(lines)


def called(call: ast.Call) -> str:
    """Return the name of what is called, without its module; empty for another expression."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _words(test: ast.expr) -> str:
    """Return the names in a condition; nothing for one that compares with None or has several ways to be true."""
    nodes = list(ast.walk(test))
    if any(isinstance(node, ast.Or) or (isinstance(node, ast.Constant) and node.value is None) for node in nodes):
        return ""
    return " ".join(getattr(node, "attr", "") or getattr(node, "id", "") for node in nodes)


def _path(value: ast.expr, constants: dict[str, ast.expr], depth: int) -> str | None:
    """Return the path below the folder of setup.py that an expression stands for; None if that is not certain."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    if depth > 5:
        return None
    if isinstance(value, ast.Name):
        return _path(constants[value.id], constants, depth + 1) if value.id in constants else None
    if not isinstance(value, ast.Call):
        return None
    function = called(value)
    if function == "dirname" and any(isinstance(item, ast.Name) and item.id == "__file__" for item in ast.walk(value)):
        return ""
    parts = [_path(item, constants, depth + 1) for item in value.args] if function == "join" else [None]
    return None if None in parts else posixpath.normpath(posixpath.join(*filter(None, parts), ""))


def _reached(module: ast.Module) -> Iterator[tuple[ast.AST, tuple[_Test, ...]]]:
    """Yield the nodes in the order of the file, each with the conditions that it stands under."""
    stack: list[tuple[ast.AST, tuple[_Test, ...]]] = [(module, ())]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        node, tests = stack.pop()
        yield node, tests
        if isinstance(node, ast.If | ast.IfExp):
            branches = ((node.body, True), (node.orelse, False))
            below: list[tuple[ast.AST, tuple[_Test, ...]]] = [(node.test, tests)]
            for body, is_true in branches:
                inside = (*tests, *_tests(node.test, is_true=is_true))
                below += [(child, inside) for child in (body if isinstance(body, list) else [body])]
        else:
            below = [(child, tests) for child in ast.iter_child_nodes(node)]
        stack.extend(reversed(below))


def _tests(test: ast.expr, *, is_true: bool) -> Sequence[_Test]:
    """Return what holds in a branch of ``if``; ``not (a and b)`` is unknown."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and is_true:
        return [item for value in test.values for item in _tests(value, is_true=True)]
    unknown = [_Test(test.lineno, is_true)]
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _RELEASES:
        return unknown
    (right,) = test.comparators
    text = next((item.value for item in ast.walk(right) if isinstance(item, ast.Constant)), None)
    if not _CUDA_NAME.search(_words(test.left)) or not re.fullmatch(r"\d+\.\d+", str(text)):
        return unknown
    release = tuple(map(int, str(text).split(".")))
    return [_Test(test.lineno, is_true, type(test.ops[0]), release)]
