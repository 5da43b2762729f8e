"""Make CUDA's headers compatible with a newer C library.

glibc 2.41 declares ``sinpi`` and ``cospi``, and glibc 2.42 ``rsqrt``, all with ``noexcept``. Headers of CUDA before
13.0, or before the release that supports glibc 2.42, declare the same names without it, so every ``.cu`` file fails.
This program makes the same changes as NVIDIA's own headers from these releases on.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HEADER = "include/crt/math_functions.h"

MACROS = """\
#if defined(__GNUC__) && !defined(__CUDACC_RTC__)
#include <features.h>
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 41)
#define BAKERY_SINCE_GLIBC_2_41 __THROW
#endif
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 42)
#define BAKERY_SINCE_GLIBC_2_42 __THROW
#endif
#endif
#ifndef BAKERY_SINCE_GLIBC_2_41
#define BAKERY_SINCE_GLIBC_2_41
#endif
#ifndef BAKERY_SINCE_GLIBC_2_42
#define BAKERY_SINCE_GLIBC_2_42
#endif
"""

_DECLARATION = re.compile(r"^(extern\b[^;{}()]*\b(sinpi|cospi|rsqrt)f?\((?:double|float) x\));", re.MULTILINE)


def patched(text: str) -> str:
    """Return the header with its declarations as glibc has them; the same text where they are already."""
    changed, count = _DECLARATION.subn(
        lambda match: f"{match[1]} BAKERY_SINCE_GLIBC_{'2_42' if match[2] == 'rsqrt' else '2_41'};", text
    )
    return MACROS + changed if count else text


def main(arguments: list[str]) -> None:
    """Run as ``glibc_headers.py TREE``."""
    if len(arguments) != 1:
        raise SystemExit("usage: glibc_headers.py TREE")
    path = Path(arguments[0]) / HEADER
    if not path.exists():
        return  # nothing there that could clash
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    path.write_text(patched(text), encoding="utf-8", errors="surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1:])
