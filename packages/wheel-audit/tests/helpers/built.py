"""Shared objects made by this machine's compiler: what real wheels hold, and real ones with one thing wrong."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory

MODULE = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core"};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""
"""An extension module that can be imported and does nothing."""

COMPILED = Path(__file__).resolve().parents[4] / ".pytest_cache" / "compiled"
"""What earlier runs compiled, named by the hash of all that went into it."""

Object = Callable[[], bytes]
"""Something to compile when a test wants it, and only once."""

Stub = tuple[str, tuple[str, ...]]
"""A library to link with: its soname, and the functions it defines."""


def _kept(compile_object: Callable[..., bytes]) -> Callable[..., bytes]:
    """Keep what a function compiles, also for other processes and later runs."""

    @cache
    @wraps(compile_object)
    def cached(*arguments: object) -> bytes:
        path = COMPILED / hashlib.sha256(repr((_tools(), compile_object.__name__, arguments)).encode()).hexdigest()
        if not path.exists():
            COMPILED.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{os.getpid()}")
            beside.write_bytes(compile_object(*arguments))
            beside.replace(path)
        return path.read_bytes()

    return cached


@cache
def _tools() -> tuple[object, ...]:
    """Return what tells one compiler and one version of this file from another."""
    files = [path for name in ("gcc", "g++", "ld") if (path := shutil.which(name))] + [__file__]
    return (sysconfig.get_paths()["include"], *((str(path), Path(path).stat().st_mtime_ns) for path in files))


def build(
    source: str = MODULE,
    *flags: str,
    language: str = "c",
    link: tuple[Stub, ...] = (),
    soname: str = "",
    runpath: str = "",
    device: bytes = b"",
    strip: bool = True,
) -> Object:
    """Compile and link ``source`` into a shared object.

    Every library of ``link`` is needed, whether something of it is called or not. ``device`` becomes ``.nv_fatbin``.
    """
    return partial(_built, source, flags, language, link, soname, runpath, device, strip)


@_kept
def _built(
    source: str,
    flags: tuple[str, ...],
    language: str,
    link: tuple[Stub, ...],
    soname: str,
    runpath: str,
    device: bytes,
    strip: bool,
) -> bytes:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source").write_text(source)
        inputs = ["-x", language, str(folder / "source")]
        if device:
            (folder / "device").write_bytes(device)
            (folder / "device.s").write_text(
                f'.section .nv_fatbin,"a"\n.balign 8\n.incbin "{folder / "device"}"\n.section .note.GNU-stack\n'
            )
            inputs += ["-x", "assembler", str(folder / "device.s")]
        stubs = [str(_stub(folder, *stub)) for stub in link]
        more = [f"-Wl,-soname,{soname}"] * bool(soname) + [f"-Wl,--enable-new-dtags,-rpath,{runpath}"] * bool(runpath)
        include = sysconfig.get_paths()["include"]
        command = ["-shared", "-fPIC", "-O1", "-s" if strip else "-g", f"-I{include}", *inputs, "-x", "none"]
        out = folder / "out"
        _run(language, [*command, "-Wl,--no-as-needed", *stubs, *more, *flags, "-o", str(out)])
        return out.read_bytes()


def program(source: str, *flags: str) -> Object:
    """Compile ``source`` into a stripped program."""
    return partial(_program, source, flags)


@_kept
def _program(source: str, flags: tuple[str, ...]) -> bytes:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source.c").write_text(source)
        _run("c", ["-O1", "-s", "-fPIE", "-pie", str(folder / "source.c"), *flags, "-o", str(folder / "out")])
        return (folder / "out").read_bytes()


def calls(*functions: str, defines: Sequence[str] = ()) -> str:
    """Return a module's source that also calls ``functions`` and defines others; names are C's, mangled ones too."""
    declared = "".join(f"int {name}(void);\n" for name in functions)
    body = " + ".join(f"{name}()" for name in functions) or "0"
    defined = "".join(f"int {name}(void) {{ return 7; }}\n" for name in defines)
    return f"{MODULE}{declared}{defined}int demo_use(void) {{ return {body}; }}\n"


def library(*functions: str, wants: Sequence[str] = ()) -> str:
    """Return the source of a library that defines ``functions``, each of which calls all of ``wants``."""
    declared = "".join(f"int {name}(void);\n" for name in wants)
    body = " + ".join(f"{name}()" for name in wants) or "7"
    return declared + "".join(f"int {name}(void) {{ return {body}; }}\n" for name in functions)


def _stub(folder: Path, soname: str, functions: tuple[str, ...]) -> Path:
    path = folder / soname
    source = folder / f"{soname}.c"
    source.write_text(library(*functions))
    _run("c", ["-shared", "-fPIC", str(source), f"-Wl,-soname,{soname}", "-o", str(path)])
    return path


def _run(language: str, arguments: list[str]) -> None:
    compiler = "g++" if language == "c++" else "gcc"
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
