"""Build a stub of the CUDA driver library from the headers that declare its functions.

Extensions that call the driver link against ``libcuda.so``, which is part of the driver and on no build machine. No
wheel of NVIDIA's contains the stub of the full toolkit, and some images have it where no build system looks. The stub
must define every function of the headers: with an empty one, the linker drops ``libcuda.so.1`` from the needed
libraries, and the module fails when it is loaded.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SONAME = "libcuda.so.1"

ALWAYS = ("cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop")
"""Functions of ``cudaProfiler.h``, which a component brings after the stub was made, or the project itself. A
function that no header declares is never called."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARATION = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
_RENAME = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(cu[A-Z]\w*)[ \t]+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\b", re.M)


def symbols(header: str) -> list[str]:
    """Return the names of all functions that a program with ``header`` can refer to, sorted.

    Macros of the header rename ``cuMemcpyHtoD`` to ``cuMemcpyHtoD_v2``, or, for the per-thread default stream, to
    ``cuMemcpyHtoD_v2_ptds``. The choice depends on macros of the program, so the stub has all names.
    """
    text = _COMMENT.sub(" ", header)
    names = set(_DECLARATION.findall(text))
    for name, variant, target in _RENAME.findall(text):
        # Types and constants are renamed in the same way; only functions are declared.
        if name in names or target in names:
            names.add(target)
            if variant:
                names.add(f"{target}_{variant.lower()}")
    return sorted(names)


def source(names: list[str]) -> str:
    """Return the C source that defines ``names``; none of them is ever called."""
    return "".join(f"void {name}(void) {{}}\n" for name in names)


def build(include: Path, folder: Path, compiler: str) -> int:
    """Compile the stub for the headers of a folder into ``folder``; return how many functions it defines."""
    # cudaGL.h, cudaEGL.h and others stand beside cuda.h; each also renames functions of its own.
    headers = {path: path.read_text(encoding="utf-8", errors="replace") for path in sorted(include.glob("cuda*.h"))}
    if not symbols(headers.get(include / "cuda.h", "")):
        raise SystemExit(f"libcuda_stub: no function declarations in {include / 'cuda.h'}")
    names = sorted({*ALWAYS, *(name for text in headers.values() for name in symbols(text))})
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libcuda.so"
    for old in (library, folder / SONAME):
        # What an image has there may be a link to somewhere else.
        if old.is_symlink() or old.exists():
            old.unlink()
    options = ["-shared", "-fPIC", "-nostdlib", "-s", f"-Wl,-soname,{SONAME}", "-x", "c", "-", "-o", str(library)]
    subprocess.run([compiler, *options], input=source(names).encode(), check=True)
    (folder / SONAME).symlink_to(library.name)
    return len(names)


def main(arguments: list[str]) -> None:
    """Run as ``libcuda_stub.py TREE COMPILER``."""
    if len(arguments) != 2:
        raise SystemExit("usage: libcuda_stub.py TREE COMPILER")
    tree = Path(arguments[0])
    count = build(tree / "include", tree / "lib64/stubs", arguments[1])
    print(f"{SONAME}: a stub with {count} functions")


if __name__ == "__main__":
    main(sys.argv[1:])
