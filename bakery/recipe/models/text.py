"""Constrained string types that several models use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement
from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from bakery.core import names
from bakery.recipe.models.base import invalid

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""``${NAME}`` in a string of a recipe: replaced by the value of variable NAME."""

_LONGEST = 4096
"""The maximum length of a requirement, in characters."""

_AS_PIP = "write it as pip install takes it"


def _is_control(char: str) -> bool:
    # C0 and C1 controls, and the two separators that some programs treat as line breaks.
    return char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029"


def _printable(value: str) -> str:
    if any(_is_control(char) and char not in "\n\t" for char in value):
        raise invalid("expected text without control characters", "remove the control characters")
    return names.normal(value)


def _one_line(value: str) -> str:
    if "\n" in value or "\t" in value:
        raise invalid("expected a single line", "remove the line breaks and tabs")
    return _printable(value)


def unevaluated(value: str) -> str:
    """Return ``value`` unchanged; raise an error if GitHub would evaluate a part of it in a workflow."""
    if "${{" in value:
        raise invalid("expected no '${{': GitHub would evaluate what follows in the workflow")
    return value


def _requirement(value: str) -> str:
    value = _one_line(value)
    if len(value) > _LONGEST:
        raise invalid(f"expected a requirement of at most {_LONGEST} characters", _AS_PIP)
    try:
        # The value of a reference is not known yet; any version is good enough for this check.
        _Requirement(REFERENCE.sub("0", value))
    except (InvalidRequirement, RecursionError):
        raise invalid("expected a requirement, such as 'cmake>=3.26'", _AS_PIP) from None
    return value


@dataclass(frozen=True)
class Matching:
    """A string that must match a pattern, both in the validator and in the JSON schema.

    Attributes:
        pattern: an expression that ends in ``\\Z``, or its text without ``\\Z``.
        references: the value may refer to variables; the schema then has no pattern.
    """

    pattern: re.Pattern[str] | str
    expected: str
    hint: str | Callable[[str], str] = ""
    references: bool = False

    @property
    def _text(self) -> str:
        return self.pattern if isinstance(self.pattern, str) else self.pattern.pattern.replace(r"\Z", "")

    def takes(self, value: str) -> bool:
        """Whether a text matches."""
        text = REFERENCE.sub("0", value) if self.references else value
        matched = re.fullmatch(self.pattern, text) if isinstance(self.pattern, str) else self.pattern.match(text)
        return bool(matched)

    def advice(self, value: str) -> str:
        """Return what to do about a text that does not match; empty for general advice."""
        return self.hint if isinstance(self.hint, str) else self.hint(value)

    def _check(self, value: str) -> str:
        if not self.takes(value):
            raise invalid(f"expected {self.expected}", self.advice(value))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # A pattern of JSON schema may match anywhere, so it needs anchors. ECMAScript has no \Z.
        # Neither it nor Rust's regex has all lookaheads, so without one the schema takes a little more than the validator.
        text = re.sub(r"\(\?=[^()]*\)", "", self._text)
        return {**handler(schema), **({} if self.references else {"pattern": f"^(?:{text})$"})}


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``values`` unchanged; raise an error if there are none, or if one occurs twice."""
    if not values:
        raise invalid("expected at least one value", "add a value, or remove the key")
    twice = sorted(item for item, times in Counter(values).items() if times > 1)
    if twice:
        raise invalid(
            "expected distinct values",
            "keep each value once",
            got=f"{', '.join(map(repr, twice))} twice",
            quotes_value=True,
        )
    return values


def no_device(value: str) -> str:
    """Return ``value`` unchanged; raise an error if it cannot be the name of a file on Windows."""
    if names.is_device(value):
        raise invalid("expected a name that is no device on Windows, as CON, NUL and COM1 are", "choose another name")
    return value


Text = Annotated[str, AfterValidator(_printable)]
Line = Annotated[str, AfterValidator(_one_line)]
WorkflowLine = Annotated[Line, AfterValidator(unevaluated)]
"""A line that is safe in a workflow."""
RequirementText = Annotated[str, AfterValidator(_requirement)]
Fingerprint = Annotated[
    str,
    Matching(
        "[0-9A-F]{40}",
        "a key's fingerprint: 40 hexadecimal digits in capitals, without spaces",
        "copy it from: gpg --show-keys --with-fingerprint FILE",
    ),
]
ProjectName = Annotated[
    str, Matching("[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", "the name of a Python package")
]
SystemPackage = Annotated[
    str,
    Matching(
        "[A-Za-z0-9][A-Za-z0-9.+_-]*",
        "a package name of the base's package manager",
        "write one package name for each entry, as apt install or dnf install takes it",
    ),
]
ModuleName = Annotated[
    str,
    Matching(
        r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*",
        "a dotted module name, such as 'pkg.module'",
        "write the name that follows import, with underscores",
    ),
]
ComponentText = Annotated[
    str,
    AfterValidator(_requirement),
    Matching(
        "[a-z][a-z0-9]*(?:[=<>!~]=?[0-9][0-9A-Za-z.*]*(?:,[=<>!~]=?[0-9][0-9A-Za-z.*]*)*)?",
        "a component such as 'cublas', or 'cudnn==9.*'",
    ),
]
SizeText = Annotated[str, Matching(names.SIZE, "a size such as '3.5 GB' or '800 MB'")]
DurationText = Annotated[
    str,
    Matching(
        re.compile(r"(?=\d)(?:\d{1,5}h)?(?:\d{1,6}m)?(?:\d{1,8}s)?\Z", re.ASCII),
        "a span of time, such as '90m' or '1h30m'",
    ),
]
RustVersion = Annotated[
    str,
    Matching(
        r"auto|(?:stable|beta|nightly|[1-9][0-9]*\.[0-9]{1,4}(?:\.[0-9]{1,4})?)(?:-[0-9]{4}-[0-9]{2}-[0-9]{2})?",
        "'auto', a Rust release such as '1.85', or a channel such as 'stable'",
        "auto is the Rust that the project asks for",
    ),
]
SonameGlob = Annotated[
    str,
    Matching(
        r"[A-Za-z0-9._+*?\[\]-]+",
        "a shared object's name or glob, such as 'libcudart.so.*'",
        "write the file's name without its folder; * stands for any characters",
    ),
]
VariableName = Annotated[str, Matching(names.VARIABLE, "a name in capitals, such as CUDA_VERSION")]


def _python_hint(value: str) -> str:
    # As wheels and cibuildwheel name it.
    tag = re.match(r"cp3(\d{1,2})(t?)(?![0-9a-z])", value)
    return f'write "3.{tag[1]}{tag[2]}"' if tag else "Bakery builds for CPython 3.6 and later: name such versions only"


PythonVersion = Annotated[str, Matching(names.PYTHON, "a Python version such as '3.12' or '3.13t'", _python_hint)]
PlatformName = Annotated[
    str,
    Matching(
        names.PLATFORM_OR_REFERENCE,
        "a platform such as 'linux/amd64', 'macos/arm64' or 'windows/amd64'",
        "there are linux, macos and windows, each with amd64 and arm64",
    ),
]
AxisName = Annotated[str, Matching(names.AXIS, "an axis name in lower case, such as 'cuda'")]
BuilderName = Annotated[
    str,
    Matching(
        names.BUILDER,
        "a name in lower case, such as 'release' or 'amd-1'",
        "use lower-case letters, digits and single dashes, 24 characters at most",
    ),
    AfterValidator(no_device),
]
SecretName = Annotated[
    str,
    Matching(
        names.SECRET,
        "a secret's name, such as 'hf-token'",
        "start with a letter; then letters, digits, dashes and underscores",
    ),
]
ProgramName = Annotated[str, Matching("[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", "a program's name, such as 'ptxas'")]
EnvironmentName = Annotated[str, Matching("[A-Za-z_][A-Za-z0-9_]*", "an environment variable's name")]
