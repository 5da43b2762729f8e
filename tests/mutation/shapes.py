"""Projects of twelve shapes, and what can change in them: each point has some values, and each value some files.

A state is a value for each point. `files` is the whole project in that state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Files = dict[str, str]
"""Path below the project, or absolute: of the system -> content; ``-> TARGET`` is a link."""

MODULE = """\
#include "order.h"
#include "linked.h"
#if __has_include("maybe.h")
#include "maybe.h"
#endif
#if __has_include(<mutation_package.h>)
#include <mutation_package.h>
#endif
#include "trap.h"
#ifndef ORDER
#define ORDER 0
#endif
#ifndef MAYBE
#define MAYBE 0
#endif
#ifndef PACKAGE
#define PACKAGE 0
#endif
#ifndef FLAG
#define FLAG 0
#endif
#ifndef MADE
#define MADE 0
#endif
#ifndef FORCED
#define FORCED 0
#endif
#ifdef __cplusplus
extern "C" {
#endif
int more(void);
#ifdef __cplusplus
}
#endif
#ifdef __cplusplus
extern "C"
#endif
int value(void) {
    int sum = more(), values[] = {ORDER, LINKED, MAYBE, PACKAGE, FLAG, MADE, FORCED, TRAP};
    for (unsigned i = 0; i < sizeof(values) / sizeof(int); i++) sum = sum * 31 + values[i];
    return sum;
}
#ifdef __cplusplus
extern "C"
#endif
int PyInit__core(void) { return value(); }
"""
"""No code of Python: it would take most of the time. The wheel is compared, and never imported."""

MORE = (
    '#include "order.h"\n#include "const.h"\n#ifdef __cplusplus\nextern "C"\n#endif\nint more(void) { return CONST; }\n'
)

_BLOB = 'extern const char blob[] __attribute__((visibility("hidden")));\n#define TRAP blob[0]\n'


def _asm(*words: str) -> str:
    """Return a header whose asm statement reads a file: its words are string literals side by side."""
    text = " ".join(words)
    return f'__asm__(".section .rodata\\nblob:\\n" {text} "\\n.byte 0\\n.text\\n");\n{_BLOB}'


_DATA = "/src/data/blob.bin"
TRAPS = {
    "none": "#define TRAP 0\n",
    "date": "#define TRAP sizeof(__DATE__)\n",
    "file": "#define TRAP sizeof(__FILE__)\n",
    "comment": "/* a comment */\n#define TRAP 0\n",
    "incbin": _asm(f'".incbin \\"{_DATA}\\""'),
    "tab": _asm(f'".incbin\\t\\"{_DATA}\\""'),
    "split": _asm('".inc"', f'"bin \\"{_DATA}\\""'),
    "upper": _asm(f'".INCBIN \\"{_DATA}\\""'),
    "hex": _asm(f'"\\x2eincbin \\"{_DATA}\\""'),
    "include": _asm('".include \\"/src/data/k.inc\\""'),
    "macro": _asm('".macro m a, b\\n.\\\\a\\\\b \\"/src/data/blob.bin\\"\\n.endm\\nm inc, bin\\n.purgem m\\n"'),
    "section": '__attribute__((section(".rodata.x,\\"a\\",@progbits\\n.incbin \\"/src/data/blob.bin\\"\\n#"), used))\n'
    "static const char blob[4] = {1};\n#define TRAP blob[0]\n",
}
"""What only the assembler knows, and other contents of a header. C++ has no relocations against ``blob`` less."""


@dataclass(frozen=True)
class Point:
    """What can change.

    Attributes:
        values: name of a value -> files.
        environment: name of a value -> variables of the build.
    """

    values: Mapping[str, Files]
    environment: Mapping[str, Mapping[str, str]]

    def reads(self, value: str) -> list[str]:
        """Return the points whose files a value names: only while it has that value do they decide something."""
        text = " ".join([*self.values[value].values(), *self.environment.get(value, {}).values()])
        return [name for path, name in NAMED.items() if path in text]


NAMED = {
    "/src/data/blob.bin": "blob",
    "/src/data/k.inc": "blob",
    "/src/b/forced.h": "forced",
    "/src/data/options": "forced",
    "/src/c": "forced",
    "/src/link/": "script",
    "/src/data/link": "links",
}
"""Path -> point that writes it."""


def _files(**values: Files) -> Point:
    return Point(values, {})


def _variables(name: str, *values: str) -> Point:
    return Point({value: {} for value in values}, {value: ({name: value} if value else {}) for value in values})


POINTS: dict[str, Point] = {
    "order": _files(
        first={"a/order.h": "#define ORDER 1\n", "b/order.h": "#define ORDER 2\n"},
        second={"b/order.h": "#define ORDER 2\n"},
        third={"b/order.h": "#define ORDER 3\n"},
        next={"a/order.h": "#include_next <order.h>\n", "b/order.h": "#define ORDER 3\n"},
        moved={"a/order.h": "#include <deep/order.h>\n", "b/deep/order.h": "#define ORDER 4\n", "b/order.h": ""},
        stale={"a/order.h.gch": "no header", "b/order.h": "#define ORDER 2\n"},
    ),
    "linked": _files(
        one={"a/linked.h": "-> ../b/one.h", "b/one.h": "#define LINKED 1\n", "b/two.h": "#define LINKED 2\n"},
        two={"a/linked.h": "-> ../b/two.h", "b/one.h": "#define LINKED 1\n", "b/two.h": "#define LINKED 2\n"},
        file={"a/linked.h": "#define LINKED 1\n"},
    ),
    "maybe": _files(
        no={}, a={"a/maybe.h": "#define MAYBE 1\n"}, b={"b/maybe.h": "#define MAYBE 2\n"}, empty={"a/maybe.h": ""}
    ),
    "package": _files(
        no={},
        one={"/usr/include/mutation_package.h": "#define PACKAGE 1\n"},
        local={"/usr/local/include/mutation_package.h": "#define PACKAGE 2\n"},
    ),
    "trap": _files(**{name: {"a/trap.h": text} for name, text in TRAPS.items()}),
    "blob": _files(
        a={"data/blob.bin": "A", "data/k.inc": ".byte 65\n"},
        b={"data/blob.bin": "B", "data/k.inc": ".byte 66\n"},
        c={"data/blob.bin": "C", "data/k.inc": '.incbin "/src/data/blob.bin"\n'},
    ),
    "const": _files(one={"b/const.h": "#define CONST 1\n"}, two={"b/const.h": "#define CONST 2\n"}),
    "made": _files(no={}, one={"version.txt": "1\n"}, two={"version.txt": "2\n"}),
    "cflags": _variables(
        "CFLAGS",
        "",
        "-DFLAG=1",
        "-DFLAG=2",
        "-O1",
        "-g",
        "-g3",
        "-include /src/b/forced.h",
        "-ffast-math",
        "@/src/data/options",
    ),
    "cpath": _variables("CPATH", "", "/src/c"),
    "forced": _files(
        one={"b/forced.h": "#define FORCED 1\n", "data/options": "-DFLAG=7\n", "c/maybe.h": "#define MAYBE 5\n"},
        two={"b/forced.h": "#define FORCED 2\n", "data/options": "-DFLAG=8\n", "c/maybe.h": "#define MAYBE 6\n"},
    ),
    "script": _files(
        one={"link/x.ld": "SECTIONS { .demo : { BYTE(1) } } INSERT AFTER .data;\n", "link/x.map": "{ global: *; };\n"},
        two={
            "link/x.ld": "SECTIONS { .demo : { BYTE(2) } } INSERT AFTER .data;\n",
            "link/x.map": "{ global: Py*; local: *; };\n",
        },
        cpp={
            "link/x.ld": "SECTIONS { .demo : { BYTE(2) } } INSERT AFTER .data;\n",
            "link/x.map": '{ global: PyInit__core; extern "C++" { "ns::f(int)"; }; local: *; };\n',
        },
    ),
    "ldflags": _variables(
        "LDFLAGS",
        *("", "-Wl,-T/src/link/x.ld", "-Wl,-T,/src/link/x.ld", "-Wl,--version-script=/src/link/x.map"),
        *("-Wl,--version-script,/src/link/x.map", "-Wl,@/src/data/link", "-s", "-Wl,-z,now"),
    ),
    "links": _files(
        none={"data/link": ""}, sort={"data/link": "--defsym=demo_symbol=1\n"}, two={"data/link": "-z now\n"}
    ),
    "file": _files(
        more={"src/more@": MORE},
        renamed={"src/again@": MORE},
        different={"src/more@": MORE.replace("CONST", "CONST + 1")},
    ),
    "python": _files(
        no={}, one={"pkg/extra.py": "x = 1\n"}, two={"pkg/sub/__init__.py": "", "pkg/sub/deep.py": "y = 2\n"}
    ),
}

START = {name: next(iter(point.values)) for name, point in POINTS.items()}
_PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "{0}"\n[project]\nname = "pkg"\nversion = "1.0"\n{1}'
_SETUP = """\
import glob, os
from setuptools import Extension, setup
options = {options!r}.split()
made = open("version.txt").read().strip() if os.path.exists("version.txt") else "0"
if made != "0":
    os.makedirs("made", exist_ok=True)
    open("made/maybe_made.h", "w").write("#define MADE " + made + "\\n")
sources = sorted(glob.glob("src/*{suffix}")) + {more!r}
{before}
setup(packages=["pkg", *(["pkg.sub"] if os.path.isdir("pkg/sub") else [])],
      ext_modules=[Extension("pkg._core", sources, include_dirs=["a", "b", "made"], language={language!r},
                   extra_compile_args=options, extra_link_args=options)])
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
# Its checks take longer than the project.
foreach(language C CXX ASM)
  set(CMAKE_${{language}}_COMPILER_WORKS ON)
endforeach()
project(pkg LANGUAGES {language})
if(EXISTS ${{CMAKE_SOURCE_DIR}}/version.txt)
  file(STRINGS version.txt MADE)
  configure_file(made.h.in made/maybe_made.h @ONLY)
endif()
{options}
file(GLOB sources CONFIGURE_DEPENDS src/*{suffix})
add_library(_core MODULE ${{sources}} {more})
set_target_properties(_core PROPERTIES PREFIX "")
target_include_directories(_core PRIVATE a b ${{CMAKE_BINARY_DIR}}/made)
install(TARGETS _core LIBRARY DESTINATION pkg)
"""
_MESON = """\
project('pkg', {language}, version: '1.0', default_options: [{options}])
py = import('python').find_installation(pure: false)
fs = import('fs')
made = []
if fs.exists('version.txt')
  conf = configuration_data()
  conf.set('MADE', fs.read('version.txt').strip())
  configure_file(input: 'made.h.in', output: 'maybe_made.h', configuration: conf)
endif
name = fs.exists('src/again{suffix}') ? 'again' : 'more'
py.extension_module('_core', 'src/core{suffix}', 'src/' + name + '{suffix}', subdir: 'pkg',
                    include_directories: include_directories('a', 'b', '.'))
py.install_sources('pkg/__init__.py', subdir: 'pkg')
if fs.exists('pkg/extra.py')
  py.install_sources('pkg/extra.py', subdir: 'pkg')
endif
"""
_MADE = '#include "trap.h"\n#if __has_include("maybe_made.h")\n#include "maybe_made.h"\n#endif\n'
_CUDA = """\
#ifdef __CUDA_ARCH__
#include "const.h"
#else
#include "order.h"
#endif
__global__ void kernel(int *data) {
#ifdef __CUDA_ARCH__
    data[0] = CONST;
#if __CUDA_ARCH__ >= 900
    data[0] += 9;
#endif
#endif
}
extern "C" int device(void) {
#ifndef __CUDA_ARCH__
    return ORDER;
#endif
}
"""


@dataclass(frozen=True)
class Shape:
    """How a project is built: by a backend, in a language, with options."""

    backend: str
    language: str = "c"
    lto: bool = False
    extra: str = ""


SHAPES = {
    "setuptools-c": Shape("setuptools"),
    "setuptools-cpp": Shape("setuptools", "c++"),
    "setuptools-lto": Shape("setuptools", lto=True),
    "setuptools-cython": Shape("setuptools", extra="cython"),
    "setuptools-assembler": Shape("setuptools", extra="assembler"),
    "scikit-c": Shape("scikit"),
    "scikit-cpp-lto": Shape("scikit", "c++", lto=True),
    "scikit-assembler": Shape("scikit", extra="assembler"),
    "meson-c": Shape("meson"),
    "meson-cpp": Shape("meson", "c++"),
    "meson-lto": Shape("meson", lto=True),
    "setuptools-cuda": Shape("setuptools", "c++", extra="cuda"),
}
"""The twelve shapes. That of CUDA needs nvcc."""

_ASSEMBLER = '#include "const.h"\n.globl assembled\nassembled:\n.byte CONST\n.incbin\t"/src/data/blob.bin"\n'


def files(shape: Shape, state: Mapping[str, str]) -> Files:
    """Return the files of a project in a state."""
    suffix = ".cpp" if shape.language == "c++" else ".c"
    found = {path: text for name, point in POINTS.items() for path, text in point.values[state[name]].items()}
    found = {path.replace("@", suffix): text for path, text in found.items()}
    module = MODULE.replace('#include "trap.h"\n', _MADE)
    found |= {f"src/core{suffix}": module, "pkg/__init__.py": "from pkg._core import value\n"}
    found["made.h.in"] = "#define MADE @MADE@\n"
    more, before = [], ""
    if shape.extra == "assembler":
        found["asm/extra.S"] = _ASSEMBLER
        found["asm/plain.s"] = '.globl plain\nplain:\n.byte 1\n.include "/src/data/k.inc"\n'
        more = ["asm/extra.S", "asm/plain.s"]
        before = "from distutils.unixccompiler import UnixCCompiler\nUnixCCompiler.src_extensions += ['.S', '.s']"
    if shape.extra == "cython":
        found["pkg/fast.pyx"] = (
            'cdef extern from "const.h":\n    int CONST\ninclude "fast.pxi"\ndef fast():\n    return CONST + HERE\n'
        )
        found["pkg/fast.pxi"] = f"HERE = {len(state['python'])}\n"
        before = "from Cython.Build import cythonize\nfast = cythonize([Extension('pkg.fast', ['pkg/fast.pyx'], include_dirs=['b'])])"
    if shape.extra == "cuda":
        found["cuda/kernel.cu"] = _CUDA
        before = _NVCC
    options = "-flto -O2" if shape.lto else ""
    if shape.backend == "setuptools":
        text = _SETUP.format(options=options, suffix=suffix, more=more, before=before, language=shape.language)
        text = text.replace("ext_modules=[", "ext_modules=fast + [") if shape.extra == "cython" else text
        text = (
            text.replace("extra_link_args=options", "extra_link_args=options, extra_objects=objects")
            if shape.extra == "cuda"
            else text
        )
        found |= {"setup.py": text, "pyproject.toml": _PYPROJECT.format("setuptools.build_meta", "")}
    elif shape.backend == "scikit":
        language = "CXX" if suffix == ".cpp" else "C"
        asm = shape.extra == "assembler"
        text = _CMAKE.format(
            language=f"{language} ASM" if asm else language,
            suffix=suffix,
            more=" ".join(more),
            options="set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)" if shape.lto else "",
        )
        own = '[tool.scikit-build]\nwheel.packages = ["pkg"]\n'
        found |= {"CMakeLists.txt": text, "pyproject.toml": _PYPROJECT.format("scikit_build_core.build", own)}
    else:
        language = "'cpp'" if suffix == ".cpp" else "'c'"
        text = _MESON.format(language=language, suffix=suffix, options="'b_lto=true'" if shape.lto else "")
        found |= {"meson.build": text, "pyproject.toml": _PYPROJECT.format("mesonpy", "")}
    return found


_NVCC = """\
import subprocess
nvcc = os.environ["PYTORCH_NVCC"]
os.makedirs("build", exist_ok=True)
subprocess.run([nvcc, "-O2", "-Xcompiler", "-fPIC", "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90,code=sm_90", "-Ia", "-Ib", "-c", "cuda/kernel.cu", "-o", "build/kernel.o"], check=True)
objects = ["build/kernel.o"]
"""


def environment(state: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the build in a state."""
    found: dict[str, str] = {}
    for name, point in POINTS.items():
        found |= point.environment.get(state[name], {})
    if "CFLAGS" in found:
        found["CXXFLAGS"] = found["CFLAGS"]
    return found
