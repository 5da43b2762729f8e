"""Names that all packages share: what variables, recipes, axes, secrets and builders may be called, and derived values."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum

VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z")
"""A recipe variable: also a Dockerfile ARG, a bake variable and a shell variable."""

RECIPE = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?\Z")
"""A recipe name: also a file name and the prefix of Dockerfile stages."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\..*)?\Z", re.IGNORECASE)

AXIS = re.compile(r"[a-z][a-z0-9-]*\Z")
"""A matrix axis."""

PYTHON = re.compile(r"3\.(?:[6-9]|[1-9][0-9])t?\Z")
"""A CPython version as recipes write it; a trailing ``t`` is the free-threaded build."""

SECRET = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}\Z")
"""A secret's name: also the id of its mount and the name of its file under /run/secrets."""

BUILDER = re.compile(r"(?=.{1,24}\Z)[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")
"""A name of a builder or a node: part of names that buildx, containers and pods (DNS labels) have."""

_PLATFORM = "(?:linux|macos|windows)/(?:amd64|arm64)"

SYSTEMS = ("linux", "macos", "windows")
"""Operating systems: wheels for Linux are baked, the others are built by cibuildwheel on a machine of that system."""

PLATFORM = re.compile(rf"{_PLATFORM}\Z")
"""A platform in Docker's spelling; macOS is ``macos``, which Docker has no images for."""

PLATFORMS = f"{_PLATFORM}(?:,{_PLATFORM})*"
"""The value of a variable in ``platforms``: one platform, or several separated by commas."""

PLATFORM_OR_REFERENCE = re.compile(rf"(?:{_PLATFORM}|\$\{{[A-Z][A-Z0-9_]*\}})\Z")
"""A platform as a recipe writes it."""

DOCKER_VARIABLE = re.compile(
    r"(?:DOCKER|BUILDX|BUILDKIT|LD|DYLD|GODEBUG|SSL|PASSWORD_STORE)(?:_.*)?\Z|(?:PATH|HOME|TMPDIR|SSH_AUTH_SOCK)\Z"
    # Programs that docker starts (credential helpers, wrappers) run code that these name.
    r"|(?:BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PERL5LIB|PERL5OPT|PYTHONPATH|PYTHONHOME|RUBYLIB|RUBYOPT|NODE_OPTIONS"
    r"|JAVA_TOOL_OPTIONS|GNUPGHOME)\Z"
)
"""Variables that docker, or a program that it starts, reads: a recipe's variable of that name would change more than
the plan."""

CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
"""Environment variables with the path of a company's CA bundle, in the order of precedence."""


def is_device(name: str) -> bool:
    """Whether a file of that name is a device on Windows, with any suffix: ``NUL``, ``con.txt``."""
    return _DEVICE.match(name) is not None


class Frontend(StrEnum):
    """The program that calls the project's build backend."""

    BUILD = "build"
    UV = "uv"


class CacheBackend(StrEnum):
    """The storage of BuildKit's layer cache between runs."""

    NONE = "none"
    GHA = "gha"
    REGISTRY = "registry"
    LOCAL = "local"
    S3 = "s3"
    INLINE = "inline"


GIT_SECRETS = ("GIT_AUTH_TOKEN", "GIT_AUTH_HEADER")
"""Secrets that BuildKit uses to fetch from a git server; no step receives them."""

BASE_SECRETS = {"ca-bundle": "CA_BUNDLE", "pip-conf": "PIP_CONF", "cargo-config": "CARGO_CONFIG"}
"""Secrets that no recipe declares, and the variable of the bake file that holds the file of each."""


AXIS_VARIABLES = {axis: f"{axis.upper()}_VERSION" for axis in ("python", "cuda", "torch", "jax")}
"""Axis → the variable that holds its value; other axes use their name in capitals."""

BASE_REGISTRY = "BASE_REGISTRY"
"""The variable with the registry and owner of base images that have a short name."""

TARGET_ARCH = "TARGETARCH"
"""BuildKit's own build argument with the architecture that is built for: ``amd64``."""

WHEEL_PYTHON = "WHEEL_PYTHON"
"""The build argument with the Python that builds a cell's wheel, if one wheel serves several Pythons."""

TESTED_TORCH = "TESTED_TORCH"
"""The build argument with the torch of a cell's test, if one wheel serves several torch releases."""

DERIVED = {
    f"{name}_{part}": (f"{name}_VERSION", part)
    for name in ("CUDA", "TORCH", "JAX")
    for part in ("MAJOR", "MINOR", "TAG")
}
"""Names whose value follows from a release: name → (its variable, which part). Of CUDA 12.8.1, CUDA_MAJOR is 12,
CUDA_MINOR is 12.8 and CUDA_TAG is 128, as names of wheels and packages write it."""

SIZE = re.compile(r"(?=[0-9.]*[1-9])([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(MB|GB)\Z", re.ASCII)
"""A size as a person writes it: ``3.5 GB``, ``800 MB``."""


def normal(text: str) -> str:
    """Return ``text`` in Unicode's composed form (NFC), as HCL has every string (go-cty): all files agree to the byte."""
    return unicodedata.normalize("NFC", text)


def axis_variable(axis: str) -> str:
    """Return the name of the variable that carries the value of ``axis``."""
    return AXIS_VARIABLES.get(axis, axis.upper().replace("-", "_"))


def recipe_variables(declared: Iterable[str], axes: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that a recipe's text may refer to: those that it declares, and those that its axes set."""
    return tuple(dict.fromkeys([*declared, *map(axis_variable, axes), "PYTHON_VERSION"]))


def with_derived(values: Mapping[str, str]) -> dict[str, str]:
    """Return ``values`` and every value that follows from one of them."""
    return {
        **values,
        **{name: _part(values[variable], part) for name, (variable, part) in DERIVED.items() if variable in values},
    }


def _part(release: str, part: str) -> str:
    minor = release.rpartition(".")[0]
    return {"MAJOR": release.partition(".")[0], "MINOR": minor, "TAG": minor.replace(".", "")}[part]


def size_mb(text: str) -> int:
    """Return a size that fits `SIZE` in MB (10⁶ bytes), rounded up: ``3.5 GB`` → 3500."""
    match = SIZE.match(text)
    assert match, text
    return math.ceil(float(match[1]) * {"MB": 1, "GB": 1000}[match[2]])


def secret_variable(name: str) -> str:
    """Return the variable of the bake file that holds the file of a secret."""
    return "SECRET_" + name.upper().replace("-", "_")
