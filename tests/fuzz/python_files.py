"""What `init` reads of a Python project, one file each: setup.cfg, setup.py and cibuildwheel's settings."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

from bakery.init.bases import DEFAULT, base_choice
from bakery.init.findings import read_toml
from bakery.init.modules import find_modules
from bakery.init.read_cibuildwheel import image_of, read_cibuildwheel
from bakery.init.read_python import read_metadata
from bakery.init.read_tests import read_tests
from bakery.init.tree import Tree, scan
from fuzz import project_trees
from fuzz.mutate import LARGEST, any_text, text
from fuzz.mutate import count as any_count
from fuzz.recipes import any_toml

_KEYS = (
    *("name", "classifiers", "setup_requires", "python_requires", "py_limited_api", "py-limited-api", "testpaths"),
    *("version", "packages", "ext_modules", "libraries", "package_dir", "options", "cmdclass", "py_modules", "NAME"),
)
_VALUES = (
    *("wavy", ">=3.9", "setuptools>=77", "cp39", "py3", "abi3", "tests", "Programming Language :: Python :: 3.11"),
    *(
        "numpy; python_version < '3.12'",
        "torch==2.9",
        "src",
        "tests/test_wavy.py",
        "a" * 5000,
        "a.b.c",
        "$(id)",
        "${A}",
    ),
)
_SECTIONS = ("metadata", "options", "bdist_wheel", "tool:pytest", "options.extras_require", "DEFAULT", "pytest")


_WHOLE = 20
"""For one input in so many the recipe is made, too: it takes ten times as long as reading."""


def count(rng: random.Random) -> int:
    """Return how often something is repeated: very often for one input in thirty, as these take long."""
    return any_count(rng) if rng.random() < 0.25 else rng.choice((1, 1, 2, 3, 10))


def _value(rng: random.Random) -> str:
    return rng.choice((*_VALUES, text(rng)))


def _many(rng: random.Random, one: Callable[[random.Random], str], joint: str, other: str = "{}{}") -> str:
    """Return one of something, or many: the same one, or others that ``other`` makes of it and a number."""
    item = one(rng)
    number = min(count(rng), (LARGEST >> 4) // (len(item) + len(joint) + 1) + 1)
    return joint.join([item] * number if rng.random() < 0.5 else [other.format(item, at) for at in range(number)])


# --- setup.cfg


def cfg_seeds() -> list[bytes]:
    """Return files of setuptools."""
    return [
        b"""\
[metadata]
name = wavy
classifiers =
    Programming Language :: Python :: 3.10
    Programming Language :: Python :: 3.12

[options]
# A comment.
python_requires = >=3.9
setup_requires = setuptools>=77; cython

[bdist_wheel]
py_limited_api: cp39

[tool:pytest]
testpaths = tests
""",
        b"[DEFAULT]\nname: a\n[metadata]\nversion = 1\n[options]\npackages = find:\n",
    ]


def any_cfg(rng: random.Random, data: bytes) -> bytes:
    """Change a text with sections and options: its lines, their indents and joints, or any of its words."""
    if rng.random() < 0.2:
        return any_text(rng, data)
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines) + 1)
        blank = rng.choice((" ", "\t", "\n", "\r", "\x0c", "\u2028", "\n ")) * count(rng)
        key, value = rng.choice((*_KEYS, text(rng))), _many(rng, _value, rng.choice(("\n  ", ";", " ", "\n")))
        section = f"[{rng.choice((*_SECTIONS, text(rng)))}]"
        new = rng.choice(
            (
                f"{key} = {value}", f"{key}{blank}{value}", f"{blank}{value}", section, f"{key}:\n{blank}{value}",
                f"{key}{blank}= a", key,
            )
        )  # fmt: skip
        lines[at : at + rng.randrange(2)] = [new[: LARGEST // 2]] * min(count(rng), LARGEST // (len(new) + 1) + 1)
    return "\n".join(lines).encode("utf-8", "replace")[:LARGEST]


def read_cfg(folder: Path, data: bytes) -> str:
    """Make a recipe for a project with this setup.cfg."""
    tree = _tree(folder, {"setup.cfg": data, "wavy/__init__.py": b"", "tests/test_a.py": b"import pytest\n"})
    metadata = read_metadata(tree)
    read_tests(tree, metadata, "wavy")
    return "unread" if any("setup.cfg" in note for note in metadata.notes) else "right"


def _tree(folder: Path, files: dict[str, bytes]) -> Tree:
    data = b"".join(b"=== %b\n%b\n" % (name.encode(), data) for name, data in files.items())
    root = project_trees.unpacked(folder, data)
    if hashlib.sha256(data).digest()[0] < 256 // _WHOLE:
        project_trees.make(root)
    return scan(root)


# --- setup.py


def setup_seeds() -> list[bytes]:
    """Return scripts of setuptools."""
    return [
        b"""\
import os
from setuptools import Extension, setup

SOURCES = ["a.c"] + (["b.c"] if os.name == "nt" else [])
try:
    from Cython.Build import cythonize
except ImportError:
    cythonize = None

class build(object):
    def get_tag(self):
        return "cp39", "abi3", "any"

setup(
    name="wavy",
    ext_modules=[Extension("wavy._core", SOURCES, libraries=["z"], py_limited_api=True)],
    package_dir={"": "src"},
    python_requires=">=3.9",
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
""",
        b"import torch\nfrom setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
        b"NAME = 'wavy'\nsetup(name=NAME, ext_modules=[CUDAExtension(NAME, ['a.cu'])], setup_requires=['ninja'])\n",
    ]


def _expression(rng: random.Random, depth: int = 3) -> str:
    kind = rng.randrange(9 if depth else 2)
    if kind < 2:
        return rng.choice((repr(_value(rng)), repr(_value(rng)), rng.choice(_KEYS[-4:]), "NAME", "0", "None", "..."))
    joint = rng.choice((", ", ", ", " + ", " or ", ".", " if a else "))
    inner = _many(rng, lambda rng: _expression(rng, depth - 1), joint, "{} or {}")
    if kind == 2:
        return f"{{{_expression(rng, depth - 1)}: {inner}}}"
    if kind == 3:
        deep, (opened, closed) = (
            count(rng),
            rng.choice((("(", ")"), ("[", "]"), ("-", ""), ("lambda: ", ""), ("a(", ")"))),
        )
        return opened * deep + inner + closed * deep
    name = rng.choice([key for key in _KEYS if key.isidentifier()])
    call = rng.choice(("setup", "dict", "Extension", "CUDAExtension", "RustExtension", "str", "x.Extension", "find"))
    keyword = rng.choice(("", f"{name}=", f"{name}=", "*"))
    return rng.choice((f"[{inner}]", f"({inner},)", f"{call}({keyword}{inner})", f"{call}({inner})", inner))


def _statement(rng: random.Random) -> str:
    value, name = _expression(rng), rng.choice([key for key in _KEYS if key.isidentifier()])
    return rng.choice(
        (
            *(f"NAME = {value}", f"{value}", f"setup({name}={value})", f"self.py_limited_api = {value}"),
            *(f"try: import {rng.choice(('Cython', 'torch', 'a.b'))}\nexcept: {value}", f"def f(): return {value}"),
            f"from {rng.choice(('torch', 'skbuild', '.', 'a' * 999))} import x",
        )
    )


def any_setup(rng: random.Random, data: bytes) -> bytes:
    """Change a script: statements come in between, one of them many times, or any of its words change."""
    if rng.random() < 0.2:
        return any_text(rng, data)
    lines = data.decode("utf-8", "replace").split("\n")
    tops = [at for at, line in enumerate(lines) if line[:1].strip() and not line.startswith((")", "except"))]
    at = rng.choice((*tops, len(lines)))
    new = _statement(rng)
    # Most that is read is smaller than its limit.
    lines[at:at] = [new] * min(count(rng), (100 << 10) // (len(new) + 1) + 1)
    return "\n".join(lines).encode("utf-8", "replace")[:LARGEST]


def read_setup(folder: Path, data: bytes) -> str:
    """Make a recipe for a project with this setup.py."""
    tree = _tree(folder, {"setup.py": data, "src/wavy/__init__.py": b"", "a.c": b"#include <zlib.h>\n"})
    metadata = read_metadata(tree)
    find_modules(tree, metadata, (), None)
    return "unread" if any("setup.py" in note for note in metadata.notes) else "right"


# --- cibuildwheel


_HEAD = '[project]\nname = "wavy"\nversion = "1"\n[build-system]\nrequires = ["setuptools"]\n'


def cibuildwheel_seeds() -> list[bytes]:
    """Return settings of cibuildwheel."""
    more = """\
[project.optional-dependencies]
test = ["pytest", "wavy[io]"]
io = ["h5py"]
[dependency-groups]
tests = [{include-group = "base"}, "hypothesis"]
base = ["attrs"]
[tool.cibuildwheel]
build = "cp3{10,11,12}-*"
skip = ["*-musllinux_*", "pp*"]
archs = ["x86_64", "aarch64"]
test-extras = ["test"]
test-groups = "tests"
test-command = "pytest {project}/tests"
test-sources = ["tests"]
test-requires = "numpy"
before-build = "pip install cython && sh tools/before.sh"
environment = "A=1 B='2 3'"
config-settings = {"cmake.args" = ["-DA=1"]}
[tool.cibuildwheel.linux]
before-all = ["yum install -y zlib-devel", "apt-get update"]
repair-wheel-command = "auditwheel repair --exclude libcuda.so.1 --plat manylinux_2_28_x86_64 -w {dest_dir} {wheel}"
manylinux-x86_64-image = "manylinux_2_28"
"""
    script = more.replace('"auditwheel repair', '"bash tools/before.sh')
    return [(_HEAD + more).encode(), (_HEAD + script).encode()]


_SETTINGS = (
    *("before-all", "before-build", "environment", "config-settings", "test-requires", "test-extras", "test-groups"),
    *("test-sources", "test-command", "repair-wheel-command", "build-frontend", "manylinux-x86_64-image", "build"),
    *("skip", "archs", "before-test", "linux"),
)
_COMMANDS = (
    *(
        "pip install cython", "apt-get install gcc", "dnf install -y zlib-devel", "sh tools/before.sh",
        "auditwheel repair",
    ),
    *("auditwheel -v repair --exclude a.so --plat auto", "/auditwheel -", "-/auditwheel ", "{project}/tests", "A=1"),
    *(
        "tools/before.sh", "x|auditwheel repair", "auditwheel repair-x", "'", '\\"', "&&", ";", "cp3{9,1{0,1}}-*",
        "tests",
    ),
)  # fmt: skip


def any_cibuildwheel(rng: random.Random, data: bytes) -> bytes:
    """Change settings: a key gets a command, words that are there often, or a value of any recipe."""
    if rng.random() < 0.5:
        return any_toml(rng, data)
    value = _many(rng, lambda rng: rng.choice((*_COMMANDS, _value(rng))), rng.choice((" ", " ", "&&", "", ";")))
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if rng.random() < 0.2:
        quoted = f"[{_many(rng, lambda _: quoted, ', ')[: LARGEST // 2]}]"
    key = rng.choice(_SETTINGS)
    lines = data.decode("utf-8", "replace").split("\n")
    places = [at for at, line in enumerate(lines) if line.startswith(f"{key} =")]
    at = places[0] if places else len(lines)
    lines[at : at + 1] = [f"{key} = {quoted}"]
    return "\n".join(lines).encode("utf-8", "replace")[:LARGEST]


def read_settings(folder: Path, data: bytes) -> str:
    """Make a recipe for a project with these settings, and with a script that they name."""
    script = b"#!/bin/sh\nset -e\n" + b"auditwheel -v repair --exclude libcuda.so.1 -w out\n" * (1 + len(data) % 9000)
    files = {"pyproject.toml": data, "tools/before.sh": script, "tests/test_a.py": b"import pytest\n", "a.c": b""}
    tree = _tree(folder, files)
    pyproject = read_toml(tree, "pyproject.toml")
    carried = read_cibuildwheel(pyproject, base_choice(image_of(pyproject) or DEFAULT), tree) if pyproject else None
    return "right" if carried and carried.values else "nothing"
