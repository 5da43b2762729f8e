"""Constrained strings that several models use."""

from __future__ import annotations

import re
from typing import Annotated

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement
from pydantic import AfterValidator

from bakery import names

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""``${NAME}`` inside a string of a recipe stands for the value of variable NAME."""

_SYSTEM_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*\Z")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_SONAME_GLOB = re.compile(r"[A-Za-z0-9._+*?\[\]-]+\Z")


def _printable(value: str) -> str:
    if any(ord(c) < 32 and c not in "\n\t" for c in value) or "\x7f" in value:
        raise ValueError("expected text without control characters")
    return value


def _one_line(value: str) -> str:
    if "\n" in value or "\t" in value:
        raise ValueError("expected a single line")
    return _printable(value)


def _requirement(value: str) -> str:
    try:
        # The value of a reference is known later; any version stands in for it here.
        _Requirement(REFERENCE.sub("0", _one_line(value)))
    except InvalidRequirement as error:
        raise ValueError(f"expected a requirement such as 'cmake>=3.26': {str(error).splitlines()[0]}") from None
    return value


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.match(value):
            raise ValueError(f"expected {expected}")
        return value

    return AfterValidator(check)


Text = Annotated[str, AfterValidator(_printable)]
Line = Annotated[str, AfterValidator(_one_line)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
SystemPackage = Annotated[str, _matching(_SYSTEM_PACKAGE, "a package name of the base's package manager")]
ModuleName = Annotated[str, _matching(_MODULE, "a dotted module name, such as 'pkg.module'")]
SonameGlob = Annotated[str, _matching(_SONAME_GLOB, "a shared object's name or glob, such as 'libcudart.so.*'")]
VariableName = Annotated[str, _matching(names.VARIABLE, "a name in capitals, such as CUDA_VERSION")]
PythonVersion = Annotated[str, _matching(names.PYTHON, "a Python version such as '3.12' or '3.13t'")]
PlatformName = Annotated[str, _matching(names.PLATFORM, "linux/amd64 or linux/arm64")]
AxisName = Annotated[str, _matching(names.AXIS, "an axis name in lower case, such as 'cuda'")]
EnvironmentName = Annotated[str, _matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z"), "an environment variable's name")]
