"""Constrained string types that several models use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement
from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from bakery.core import names

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""``${NAME}`` in a string of a recipe: replaced by the value of variable NAME."""

_LONGEST = 4096
"""The maximum length of a requirement, in characters."""

_SYSTEM_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*\Z")
_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?\Z")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_COMPONENT = re.compile(r"[a-z][a-z0-9]*(?:[=<>!~]=?[0-9][0-9A-Za-z.*]*(?:,[=<>!~]=?[0-9][0-9A-Za-z.*]*)*)?\Z")
_SONAME_GLOB = re.compile(r"[A-Za-z0-9._+*?\[\]-]+\Z")


def _is_control(char: str) -> bool:
    # C0 and C1 controls, and the two separators that some programs treat as line breaks.
    return char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029"


def _printable(value: str) -> str:
    if any(_is_control(char) and char not in "\n\t" for char in value):
        raise ValueError("expected text without control characters")
    return names.normal(value)


def _one_line(value: str) -> str:
    if "\n" in value or "\t" in value:
        raise ValueError("expected a single line")
    return _printable(value)


def unevaluated(value: str) -> str:
    """Return ``value`` unchanged; raise ValueError if GitHub would evaluate a part of it in a workflow."""
    if "${{" in value:
        raise ValueError("expected no '${{': GitHub would evaluate what follows in the workflow")
    return value


def _requirement(value: str) -> str:
    value = _one_line(value)
    if len(value) > _LONGEST:
        raise ValueError(f"expected a requirement of at most {_LONGEST} characters")
    try:
        # The value of a reference is not known yet; any version is good enough for this check.
        _Requirement(REFERENCE.sub("0", value))
    except (InvalidRequirement, RecursionError):
        raise ValueError("expected a requirement, such as 'cmake>=3.26'") from None
    return value


@dataclass(frozen=True)
class Matching:
    """A string that must match a pattern, both in the validator and in the JSON schema."""

    pattern: re.Pattern[str]
    expected: str

    def _check(self, value: str) -> str:
        if not self.pattern.match(value):
            raise ValueError(f"expected {self.expected}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # A pattern of JSON schema may match anywhere, so it needs anchors. ECMAScript has no \Z.
        return {**handler(schema), "pattern": "^(?:" + self.pattern.pattern.replace(r"\Z", "") + ")$"}


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``values`` unchanged; raise ValueError if there are none, or if one occurs twice."""
    if not values:
        raise ValueError("expected at least one value")
    twice = sorted(item for item, times in Counter(values).items() if times > 1)
    if twice:
        raise ValueError(f"expected distinct values, got {', '.join(map(repr, twice))} twice")
    return values


def no_device(value: str) -> str:
    """Return ``value`` unchanged; raise ValueError if it cannot be the name of a file on Windows."""
    if names.is_device(value):
        raise ValueError("expected a name that is no device on Windows, as CON, NUL and COM1 are")
    return value


Text = Annotated[str, AfterValidator(_printable)]
Line = Annotated[str, AfterValidator(_one_line)]
WorkflowLine = Annotated[Line, AfterValidator(unevaluated)]
"""A line that is safe in a workflow."""
RequirementText = Annotated[str, AfterValidator(_requirement)]
Fingerprint = Annotated[
    str,
    Matching(re.compile(r"[0-9A-F]{40}\Z"), "a key's fingerprint: 40 hexadecimal digits in capitals, without spaces"),
]
ProjectName = Annotated[str, Matching(_PROJECT, "the name of a Python package")]
SystemPackage = Annotated[str, Matching(_SYSTEM_PACKAGE, "a package name of the base's package manager")]
ModuleName = Annotated[str, Matching(_MODULE, "a dotted module name, such as 'pkg.module'")]
ComponentText = Annotated[
    str, AfterValidator(_requirement), Matching(_COMPONENT, "a component such as 'cublas', or 'cudnn==9.*'")
]
SizeText = Annotated[str, Matching(names.SIZE, "a size such as '3.5 GB' or '800 MB'")]
DurationText = Annotated[
    str,
    Matching(
        re.compile(r"(?=\d)(?:\d{1,5}h)?(?:\d{1,6}m)?(?:\d{1,8}s)?\Z", re.ASCII),
        "a span of time, such as '90m' or '1h30m'",
    ),
]
SonameGlob = Annotated[str, Matching(_SONAME_GLOB, "a shared object's name or glob, such as 'libcudart.so.*'")]
VariableName = Annotated[str, Matching(names.VARIABLE, "a name in capitals, such as CUDA_VERSION")]
PythonVersion = Annotated[str, Matching(names.PYTHON, "a Python version such as '3.12' or '3.13t'")]
PlatformName = Annotated[
    str, Matching(names.PLATFORM_OR_REFERENCE, "a platform such as 'linux/amd64', 'macos/arm64' or 'windows/amd64'")
]
AxisName = Annotated[str, Matching(names.AXIS, "an axis name in lower case, such as 'cuda'")]
BuilderName = Annotated[
    str, Matching(names.BUILDER, "a name in lower case, such as 'release' or 'amd-1'"), AfterValidator(no_device)
]
SecretName = Annotated[str, Matching(names.SECRET, "a secret's name, such as 'hf-token'")]
ProgramName = Annotated[
    str, Matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z"), "a program's name, such as 'ptxas'")
]
EnvironmentName = Annotated[str, Matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z"), "an environment variable's name")]
