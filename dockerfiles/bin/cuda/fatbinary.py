"""Convert the arguments of clang 19 to those of the ``fatbinary`` of CUDA 13.

No wheel of CUDA 12 contains a ``fatbinary``. That of CUDA 13 packs the output of CUDA 12's ptxas, but it accepts only
``--image3=kind=elf,sm=80,file=F``, and clang 19 passes ``--image=profile=sm_80,file=F``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

PROGRAM = "fatbinary-13"
"""The real program, beside this one."""

MODE = "--compress-mode=speed"
"""CUDA 13's own default is zstd, which the first drivers of CUDA 12 cannot unpack; this is CUDA 12's."""

_IMAGE = re.compile(r"--?image=profile=(sm|compute)_([0-9]+[a-z]?),file=(.*)\Z", re.DOTALL)
_KINDS = {"sm": "elf", "compute": "ptx"}


def rewrite(arguments: list[str]) -> list[str]:
    """Return clang's ``arguments`` as CUDA 13's fatbinary takes them."""
    rewritten = [_IMAGE.sub(_image3, argument) for argument in arguments]
    return [MODE, *rewritten] if any(argument.startswith("--create") for argument in rewritten) else rewritten


def _image3(match: re.Match[str]) -> str:
    profile, number, file = match.groups()
    return f"--image3=kind={_KINDS[profile]},sm={number},file={file}"


if __name__ == "__main__":
    real = Path(__file__).resolve().with_name(PROGRAM)
    os.execv(real, [str(real), *rewrite(sys.argv[1:])])
