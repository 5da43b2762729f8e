"""Which of torch's symbols belong to its stable ABI, and since which release: facts in ``torch_abi.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from packaging.version import Version

_C = re.compile(r"(?:aoti_)?torch_\w+|aoti_record_\w+")
_NAMESPACE = r"N[VK]*(?:2at|3c10|6caffe2|5torch(?!6stable|10headeronly))\w+"
# What is in one of torch's namespaces (a function, a type's table), an operator of its types, its Python binding.
# torch::stable and torch::headeronly are headers only: an object has its own copy of what it uses.
_CXX = re.compile(rf"_Z(?:T[A-Z]|GV)?{_NAMESPACE}|_Z[a-z][a-z]\w*?{_NAMESPACE}|(?:_Z\d+)?TH[PC][A-Z]\w+")


@cache
def _since() -> dict[str, Version]:
    table = tomllib.loads(Path(__file__).with_name("torch_abi.toml").read_text(encoding="utf-8"))["functions"]
    return {name: Version(release) for release, names in table.items() for name in names.split()}


def releases() -> list[Version]:
    """Return the releases of torch whose functions are known, the oldest first."""
    return sorted(set(_since().values()))


def needed(names: Iterable[str]) -> dict[str, Version]:
    """Return the functions of the stable ABI among ``names``, with the release that each came with."""
    return {name: _since()[name] for name in names if name in _since()}


def is_cxx(name: str) -> bool:
    """Whether a symbol belongs to torch's C++ interface, which changes with each minor release."""
    return _CXX.fullmatch(name) is not None


def is_unstable(name: str) -> bool:
    """Whether a symbol is torch's, but not in its stable ABI; that includes C functions of no known release."""
    return is_cxx(name) or (_C.fullmatch(name) is not None and name not in _since())
