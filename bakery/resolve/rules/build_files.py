"""What the files that describe a project's build say about C++ and CUDA, as input of rules; no code runs.

Only statements that every build reaches count: none in a condition or a comment. Where a file leaves a doubt, nothing is
said of it.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery.recipe.toml_file import table
from bakery.resolve.rules.setup_py import GpuFlags, called, read_gpu_flags, read_sources, rocm_lines
from wheel_audit.requirements import parse_requirement

_MOST_FILES = 100
_STANDARDS = {"0x": 11, "1y": 14, "1z": 17, "2a": 20, "2b": 23, "2c": 26}
_STANDARD = re.compile(r"(?:-std=|--std[= ]|cpp_std=)(?:c|gnu)\+\+(\d[0-9a-z])")
_SEPARABLE = re.compile(r"(?<![\w-])--?(?:rdc|relocatable-device-code)[= ]true\b")
_CMAKE_STANDARD = re.compile(r"(?:^|_)(?:CXX|CUDA)_STANDARD$")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_BRACKETS = re.compile(r"(?s)#?\[(=*)\[.*?\]\1\]")
_CMAKE_CALL = re.compile(r"(?m)^[ \t]*([A-Za-z_]\w*)[ \t]*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_MESON_LINE = re.compile(r"(?m)^[ \t]*(if|foreach|endif|endforeach|(?:project|add_languages|subdir)[ \t]*\([^()]*\))")
_TRUE = ("ON", "TRUE", "YES", "1")


class Pin(NamedTuple):
    """A requirement in pyproject.toml and its place; ``of_project``: the project's own, and not one of its build."""

    requirement: Requirement
    place: str
    of_project: bool


@dataclass
class BuildFiles:
    """What the files say; places are ``CMakeLists.txt:3``.

    Attributes:
        cuda: where CUDA code or its toolkit is asked for; empty for nowhere.
        separable: where device code is asked to be linked (``CUDA_SEPARABLE_COMPILATION``, ``-rdc=true``).
        standards: place → the C++ standard that a flag for the compiler states there.
        torch_standards: those of setup.py that torch.utils.cpp_extension gets in every build.
        gpu_flags: what setup.py tells nvcc about GPUs.
        sources: the source files that setup.py names → their places.
        pins: distribution → its requirements in pyproject.toml.
        version: the one that pyproject.toml states, and its place; empty texts for none.
    """

    cuda: str = ""
    separable: str = ""
    standards: dict[str, int] = field(default_factory=dict)
    torch_standards: dict[str, int] = field(default_factory=dict)
    gpu_flags: GpuFlags = field(default_factory=GpuFlags)
    sources: dict[str, str] = field(default_factory=dict)
    pins: dict[str, list[Pin]] = field(default_factory=dict)
    version: tuple[str, str] = ("", "")


def read_build_files(read: Callable[[str], str]) -> BuildFiles:
    """Return what a project's build files say; ``read`` returns the text of a file, empty for none."""
    found = BuildFiles()
    for name in ("setup.py", "setup.cfg", "pyproject.toml"):
        _flags(found, name, read(name))
    _setup_py(found, read("setup.py"))
    _project(found, read("pyproject.toml"))
    # torch compiles what setup.py gives it; CMake files beside it are for users of C++.
    others = () if "cpp_extension" in read("setup.py") else (("CMakeLists.txt", _cmake), ("meson.build", _meson))
    for main, visit in others:
        names = [main]
        # The list grows while it is read.
        for name in names:
            text = _COMMENT.sub("", _BRACKETS.sub(_lines_of, read(name)))
            _flags(found, name, text)
            folder = name.removesuffix(main)
            names += [f"{folder}{inner}/{main}" for inner in visit(found, name, text)][: _MOST_FILES - len(names)]
    return found


def standard(text: str) -> int:
    """Return the highest C++ standard that a text with compiler flags states; 0 for none."""
    return max((_number(match[1]) for match in _STANDARD.finditer(text)), default=0)


def is_separable(flags: str) -> bool:
    """Whether flags for a compiler of CUDA code ask for code that must be linked: ``-rdc=true``."""
    return bool(_SEPARABLE.search(flags))


def _number(text: str) -> int:
    return _STANDARDS.get(text) or (int(text) if text.isdecimal() and text != "98" else 3)


def _lines_of(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _place(name: str, text: str, at: int) -> str:
    return f"{name}:{text.count(chr(10), 0, at) + 1}"


def _flags(found: BuildFiles, name: str, text: str) -> None:
    text = _COMMENT.sub("", text)
    stated = [(_place(name, text, match.start()), _number(match[1])) for match in _STANDARD.finditer(text)]
    # A file with several standards chooses one.
    if len({number for _, number in stated}) == 1:
        found.standards |= stated


def _cmake(found: BuildFiles, name: str, text: str) -> Iterator[str]:
    """Note what a CMakeLists.txt says, and yield the folders that it adds."""
    depth = 0
    for match in _CMAKE_CALL.finditer(text):
        command, words, place = match[1].lower(), match[2].replace('"', " ").split(), _place(name, text, match.start())
        depth += command in ("if", "function", "macro", "foreach", "while", "block")
        depth -= command in ("endif", "endfunction", "endmacro", "endforeach", "endwhile", "endblock")
        if depth:
            continue
        if command == "return":
            return
        if command == "add_subdirectory" and words and "EXCLUDE_FROM_ALL" not in words and ".." not in words[0]:
            yield words[0].rstrip("/")
        languages = words[1:] if command == "project" else words if command == "enable_language" else []
        is_toolkit = command == "find_package" and words[:1] in (["CUDAToolkit"], ["CUDA"]) and "REQUIRED" in words
        if ("CUDA" in languages and "OPTIONAL" not in languages) or is_toolkit:
            found.cuda = found.cuda or place
        pairs = [*itertools.pairwise(words)]
        numbers = [_number(value) for key, value in pairs if _CMAKE_STANDARD.search(key) and value.isdecimal()]
        found.standards |= {place: max(numbers)} if numbers else {}
        is_set = any(key.endswith("CUDA_SEPARABLE_COMPILATION") and value.upper() in _TRUE for key, value in pairs)
        if is_set or is_separable(match[2]):
            found.separable = found.separable or place


def _meson(found: BuildFiles, name: str, text: str) -> Iterator[str]:
    """Note what a meson.build says, and yield the folders that it adds."""
    depth = 0
    for match in _MESON_LINE.finditer(text):
        depth += (match[1] in ("if", "foreach")) - match[1].startswith("end")
        words = re.findall(r"'([^'\n]*)'", match[1])
        if depth or not words:
            continue
        if match[1].startswith("subdir"):
            yield words[0]
        elif "cuda" in words[match[1].startswith("project") :] and not re.search(r"required\s*:\s*(?!true)", match[1]):
            found.cuda = found.cuda or _place(name, text, match.start(1))


def _project(found: BuildFiles, text: str) -> None:
    try:
        data, lines = table(text), text.splitlines()
    except ValueError:
        return
    project = data.get("project")
    if isinstance(project, dict) and isinstance(stated := project.get("version"), str):
        line = next((number for number, row in enumerate(lines, 1) if row.startswith("version")), 1)
        found.version = stated, f"pyproject.toml:{line}"
    for key, items in (("build-system", "requires"), ("project", "dependencies")):
        inner = data.get(key)
        listed = inner.get(items) if isinstance(inner, dict) else None
        for item in listed if isinstance(listed, list) else ():
            if requirement := parse_requirement(str(item)):
                line = next((number for number, row in enumerate(lines, 1) if str(item) in row), 1)
                pins = found.pins.setdefault(canonicalize_name(requirement.name), [])
                pins.append(Pin(requirement, f"pyproject.toml:{line}", key == "project"))


def _setup_py(found: BuildFiles, text: str) -> None:
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the project's affair.
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    found.gpu_flags, found.sources = read_gpu_flags(module), read_sources(module)
    for line in rocm_lines(module):
        found.standards.pop(f"setup.py:{line}", None)
    stack: list[ast.AST] = [module]
    cuda, separable, standards = [], [], set[str]()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If | ast.IfExp | ast.Try) and not _is_main(node):
            continue
        if isinstance(node, ast.Call):
            name = called(node)
            if name == "CUDAExtension" or (name.endswith("Extension") and _names_cuda(node)):
                cuda.append(node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            separable += [node.lineno] if is_separable(node.value) else []
            standards |= {f"setup.py:{node.lineno}"} if standard(node.value) else set()
        stack += ast.iter_child_nodes(node)
    found.cuda = f"setup.py:{min(cuda)}" if cuda else ""
    found.separable = f"setup.py:{min(separable)}" if separable else ""
    if "cpp_extension" in text:
        found.torch_standards |= {
            place: found.standards.pop(place) for place in sorted(standards & found.standards.keys())
        }


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _names_cuda(call: ast.Call) -> bool:
    texts = (item.value for item in ast.walk(call) if isinstance(item, ast.Constant) and isinstance(item.value, str))
    return any(text.endswith(".cu") for text in texts)
