"""Checks across the fields of a recipe that need no plan: names that are used must exist.

They read the data of the file, not the models, so that they also run on a recipe with other problems.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from bakery.core import names, target_kinds
from bakery.core.addresses import without_credentials
from bakery.core.environment import OWN, PREFIX
from bakery.recipe.models.matrix import OWN_KEYS
from bakery.recipe.models.text import REFERENCE
from bakery.recipe.problems import Problem, nearest, one_of, shorten
from bakery.recipe.type_names import Step

RESERVED = OWN | frozenset(
    (
        *("BASE_IMAGE", "RUNTIME_IMAGE", "CUDA_REPOSITORY", "DEST", "PIP_CONF", "CARGO_CONFIG"),
        *("GIT_CHECKOUT", "GIT_DIRECTORY", "GIT_PREFIX"),
        *("PATH", "HOME", "USER", "SHELL", "PWD", "TMPDIR", "SOURCE_DATE_EPOCH", "WHEEL_PYTHON", "TESTED_TORCH"),
        *("BUILDPLATFORM", "BUILDOS", "BUILDARCH", "BUILDVARIANT"),
        *("TARGETPLATFORM", "TARGETOS", "TARGETARCH", "TARGETVARIANT", "TARGETSTAGE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
    )
)
"""Variable names with a meaning to Docker, bake, the shell, Bakery's Dockerfiles, or to Bakery after ``BAKERY_``."""

RESERVED_PREFIXES = ("BAKE_", PREFIX, "SECRET_", "PIP_", "UV_", "LD_", "OPENSSL_", "GIT_CONFIG", "GIT_SS")
"""Prefixes of such names. pip, uv, git and OpenSSL read them in steps with the password of the index."""

_REQUIREMENTS = (
    *((table, "requirements") for table in ("builder", "native", "test", "image")),
    ("wheel", "requires"),
)
_COMPONENT = re.compile(r"([a-z][a-z0-9]*)(.*)")

_FREE_TEXT = ("name", "description", "pattern")
_IMPLICIT_AXES = ("python", "platform")
_NO_TOOLKIT = (None, "none")
_COMMANDS = (
    ("test", "command"),
    ("native", "command"),
    ("builder", "before-build"),
    ("builder", "before-build", "command"),
)
_MOST = 1000
"""Problems that are reported: each may cost a comparison with all names."""
_DEEPEST = 16
"""The depth of texts in a valid recipe is lower."""

Path = tuple[Step, ...]
Table = Mapping[str, object]


def check(
    data: Table,
    *,
    bases: Mapping[str, bool],
    toolkits: Sequence[str],
    frameworks: Sequence[str],
    components: Mapping[str, bool],
) -> tuple[Problem, ...]:
    """Return the problems between the fields of a recipe in the (partly wrong) data of its file.

    ``bases`` says whether each base has cross compilers, ``components`` whether a recipe may set their version.
    """
    builder = _table(data, "builder")
    base = builder.get("base")
    is_short = isinstance(base, str)
    provider_path: Path = ("builder", "base") if is_short else ("builder", "base", "provider")
    provider = base if is_short else _table(builder, "base").get("provider")
    problems = itertools.chain(
        _check_known(provider, provider_path, tuple(bases), "base"),
        _check_known(builder.get("toolkit"), ("builder", "toolkit"), toolkits, "toolkit"),
        _check_known(builder.get("framework"), ("builder", "framework"), frameworks, "framework"),
        _components(builder, components),
        _direct(data),
        _cross(data, builder, provider, bases),
        _torch_abi(data, builder),
        _axes(data),
        _variable_names(data),
        _override_variables(data),
        _secrets(data),
        _references(data),
        _platforms(data),
        _image(data),
    )
    return tuple(itertools.islice(problems, _MOST))


def _image(data: Table) -> Iterator[Problem]:
    """Yield the tables and platforms of wheels in a recipe that builds an image."""
    if "image" not in data:
        return
    for key in ("source", "native", "wheel", "test", "macos", "windows", "ci", "output"):
        if key in data:
            yield Problem((key,), "a recipe that builds an image has no wheel", f"remove [{key}], or [image]")
    for index, platform in enumerate(_list(data, "platforms")):
        if isinstance(platform, str) and platform.startswith(("macos/", "windows/")):
            yield Problem(("platforms", index), f"there are no images for {platform}", "name Linux platforms")


def _platforms(data: Table) -> Iterator[Problem]:
    """Yield the platforms that are those of a cell's own variable: cells are made of them."""
    declared = _table(data, "variables")
    for index, text in enumerate(_list(data, "platforms")):
        match = REFERENCE.fullmatch(text) if isinstance(text, str) else None
        # Of a name that is declared nowhere, `_references` tells.
        if match and match[1] not in declared and match[1] in _referable(data):
            what = f"{match[0]} is set by an axis, and the axes of cells follow from the platforms"
            fix = (
                'write the platforms, or declare a variable for them: BUILD_PLATFORM = "linux/amd64" under [variables]'
            )
            yield Problem(("platforms", index), what, fix)


def _direct(data: Table) -> Iterator[Problem]:
    """Yield the requirements with a URL that the recipe does not allow by name."""
    allowed = {canonicalize_name(str(name)) for name in _list(_table(data, "builder"), "allow-direct")}
    for table, key in _REQUIREMENTS:
        for index, word in enumerate(_list(_table(data, table), key)):
            name, at, address = REFERENCE.sub("0", str(word)).partition("@")
            name = name.partition("[")[0].strip()
            if at and address.strip() and ";" not in name and canonicalize_name(name) not in allowed:
                what = f"{shorten(without_credentials(str(word)))!r} is a URL, not a package of the index"
                fix = f'require a release of the index, or allow it by name: builder.allow-direct = ["{name}"]'
                yield Problem((table, key, index), what, fix)


def _torch_abi(data: Table, builder: Table) -> Iterator[Problem]:
    """Yield the promise about torch of a recipe that does not build for it."""
    if "torch-abi" in _table(data, "wheel") and builder.get("framework") != "torch":
        fix = 'set builder.framework = "torch", or remove wheel.torch-abi'
        yield Problem(("wheel", "torch-abi"), "the recipe does not build for torch", fix)


def _cross(data: Table, builder: Table, provider: object, bases: Mapping[str, bool]) -> Iterator[Problem]:
    """Yield the parts of a recipe that have no cross compiler."""
    if builder.get("cross") is not True:
        return
    base = "image" if "image" in _table(builder, "base") else provider
    if isinstance(base, str) and not bases.get(base):
        crossing = ", ".join(name for name, crosses in bases.items() if crosses)
        what = f"base {base!r} has no cross compiler (expected one of: {crossing})"
        yield _uncrossed(("builder", "base"), what, "the base")
    others = (("toolkit", "CUDA's compilers"), ("framework", "a framework's libraries"), ("rust", "Rust's libraries"))
    for key, what in others:
        if isinstance(builder.get(key), str) and builder[key] != "none":
            yield _uncrossed(("builder", key), f"{what} are for the machine that they run on", key)
    if "native" in data:
        yield _uncrossed(("native",), "the native step has no cross compiler", "[native]")


def _uncrossed(path: Path, why: str, thing: str) -> Problem:
    fix = f"remove builder.cross: a platform that no node has is emulated then; or remove {thing}"
    return Problem(path, f"cannot be crossed: {why}", fix)


def _table(data: Table, key: str) -> Table:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _list(data: Table, key: str) -> Sequence[object]:
    value = data.get(key)
    return value if isinstance(value, list | tuple) else ()


def _items(data: Table, key: str) -> Iterator[tuple[int, Table]]:
    """Yield index and table of each item of a list of tables; the models report other items."""
    yield from ((index, item) for index, item in enumerate(_list(data, key)) if isinstance(item, dict))


def _suggestion(word: str, candidates: Iterable[str]) -> str:
    close = nearest(word, candidates)
    return f"; did you mean {close!r}?" if close else ""


def _check_known(value: object, path: Path, allowed: Sequence[str], noun: str) -> Iterator[Problem]:
    # Each cell of a base with variables is checked when its name is known.
    if isinstance(value, str) and value not in allowed and not (noun == "base" and REFERENCE.search(value)):
        close = nearest(value, allowed)
        what = f"unknown {noun} '{shorten(value)}'{_suggestion(value, allowed)} (expected one of: {one_of(allowed)})"
        yield Problem(path, what, f'write "{close}"' if close else "choose one of these")


def _components(builder: Table, versions: Mapping[str, bool]) -> Iterator[Problem]:
    listed = _list(builder, "components")
    if listed and builder.get("toolkit") in _NO_TOOLKIT:
        yield Problem(("builder", "components"), "components belong to a toolkit, and there is none", "name a toolkit")
    for index, text in enumerate(listed):
        match = _COMPONENT.match(text) if isinstance(text, str) else None
        path: Path = ("builder", "components", index)
        if match is None:
            continue
        yield from _check_known(match[1], path, tuple(versions), "component")
        if match[2] and not versions.get(match[1], True):
            what = f"the version of {match[1]} is that of the CUDA release"
            yield Problem(path, what, f'write "{match[1]}"; CUDA_VERSION chooses its version')


def free_axes(data: Table) -> dict[str, Path]:
    """Return the axes of the matrix, except ``python``, with their paths."""
    matrix = _table(data, "matrix")
    direct: dict[str, Path] = {key: ("matrix", key) for key in matrix if key not in OWN_KEYS}
    return {key: ("matrix", "axes", key) for key in _table(matrix, "axes")} | direct


def _sound_axes(data: Table) -> tuple[str, ...]:
    return tuple(axis for axis in free_axes(data) if names.AXIS.match(axis) and not _mistaken_key(axis))


def _axes(data: Table) -> Iterator[Problem]:
    owners = {"PYTHON_VERSION": "python"}
    for axis, path in free_axes(data).items():
        close = _mistaken_key(axis)
        if close:
            what = f"unknown key; did you mean {close!r}? (expected one of: {one_of(OWN_KEYS)}, or an axis)"
            yield Problem(path, what, f"rename it to {close}")
        elif names.AXIS.match(axis):
            yield from _axis_variable(axis, path, owners)
    axes = (*_IMPLICIT_AXES, *_sound_axes(data))
    for path, entry in _selections(data):
        for axis in entry:
            if axis not in axes:
                what = f"there is no axis of this name{_suggestion(axis, axes)} (the axes are: {one_of(axes)})"
                close = nearest(axis, axes)
                fix = f"write {close}" if close else f"use one of them, or add {_axis_line(axis)}"
                yield Problem((*path, axis), what, fix)


def _selections(data: Table) -> Iterator[tuple[Path, Table]]:
    """Yield every table whose keys are axes, with its path."""
    matrix = _table(data, "matrix")
    for key in ("exclude", "include"):
        yield from ((("matrix", key, index), entry) for index, entry in _items(matrix, key))
    for index, entry in _items(matrix, "overrides"):
        yield ("matrix", "overrides", index, "where"), _table(entry, "where")


def _axis_line(axis: str) -> str:
    return f'{shorten(axis)} = ["…"] under [matrix]'


def _mistaken_key(axis: str) -> str | None:
    """Return the key of ``[matrix]`` that ``axis`` misspells, or None if it is an axis."""
    close = nearest(axis, OWN_KEYS)
    # Only small differences count: ``include-dirs`` may be an axis.
    return close if close and abs(len(close) - len(axis)) <= 2 and close[0] == axis[0].lower() else None


def _axis_variable(axis: str, path: Path, owners: dict[str, str]) -> Iterator[Problem]:
    """Yield the problems of an axis' variable; ``owners`` collects which axis sets which variable."""
    variable = names.axis_variable(axis)
    if _is_reserved(variable):
        what = f"the axis would set {variable}, which has another meaning to Docker, bake or Bakery"
        yield Problem(path, what, "rename the axis")
    elif variable in names.DERIVED:
        what = f"the axis would set {variable}, which is derived from {names.DERIVED[variable][0]}"
        yield Problem(path, what, "rename the axis")
    if owners.setdefault(variable, axis) != axis:
        yield Problem(path, f"the axes {axis} and {owners[variable]} both set {variable}", "rename one of them")


def _is_reserved(variable: str) -> bool:
    return (
        variable in RESERVED
        or variable.startswith(RESERVED_PREFIXES)
        or names.DOCKER_VARIABLE.match(variable) is not None
    )


def _variable_names(data: Table) -> Iterator[Problem]:
    by_axis = {names.axis_variable(axis): axis for axis in free_axes(data)}
    if "python" in _table(data, "matrix"):
        by_axis["PYTHON_VERSION"] = "python"
    for name in _table(data, "variables"):
        if _is_reserved(name):
            what = "this name is taken: it has another meaning to Docker, bake or Bakery"
            yield Problem(("variables", name), what, f"choose another, such as MY_{name}")
        elif name in names.DERIVED:
            what = f"this name is taken: it is derived from {names.DERIVED[name][0]}"
            yield Problem(("variables", name), what, "remove it, or choose another name")
        elif name in by_axis:
            what = f"the axis matrix.{by_axis[name]} sets this variable already"
            yield Problem(("variables", name), what, "remove the variable or the axis")


def known_variables(data: Table) -> tuple[str, ...]:
    """Return the variables that ``${NAME}`` and overrides may name, in the order of the file."""
    declared = [name for name in _table(data, "variables") if names.VARIABLE.match(name)]
    return names.recipe_variables(declared, _sound_axes(data))


def _referable(data: Table) -> set[str]:
    """Return the variables that ``${NAME}`` may name, with those that follow from others."""
    variables = known_variables(data)
    return {*variables, *(name for name, (variable, _) in names.DERIVED.items() if variable in variables)}


def _override_variables(data: Table) -> Iterator[Problem]:
    variables = known_variables(data)
    for index, entry in _items(_table(data, "matrix"), "overrides"):
        for name in _table(entry, "variables"):
            if name not in variables:
                path = ("matrix", "overrides", index, "variables", name)
                yield Problem(
                    path, _undeclared("there is no variable of this name", name, variables), _declare(name, variables)
                )


def _undeclared(what: str, name: str, variables: Sequence[str]) -> str:
    return f"{what}{_suggestion(name, variables)} (declared: {one_of(variables)})"


def _secrets(data: Table) -> Iterator[Problem]:
    """Yield the conflicts between secrets, and between secrets and steps."""
    holders: dict[str, str] = {}
    for name, secret in _table(data, "secrets").items():
        path: Path = ("secrets", name)
        if name.lower() in names.BASE_SECRETS:
            yield Problem(path, "this name is taken: Bakery uses it", f"choose another, such as my-{name.lower()}")
        holder = names.secret_variable(name)
        if holder in holders:
            yield Problem(path, f"{holder} would name the file of {holders[holder]}, too", "rename one of them")
        holders.setdefault(holder, name)
        if isinstance(secret, dict):
            yield from _secret(data, name, secret, path)


def _secret(data: Table, name: str, secret: Table, path: Path) -> Iterator[Problem]:
    env = secret.get("env")
    if isinstance(env, str) and env in _table(data, "variables"):
        what = "the recipe's own variable of this name hides the one of the environment"
        yield Problem((*path, "env"), what, "rename the recipe's variable")
    for step in _list(secret, "steps"):
        if problem := _step_problem(data, name, step):
            yield Problem((*path, "steps"), *problem)


def _step_problem(data: Table, name: str, step: object) -> tuple[str, str] | None:
    """Return why a recipe does not have the step, and what to do; None if it does."""
    source = data.get("source")
    table = source if isinstance(source, dict) else {}
    text = source if isinstance(source, str) else ""
    if step == target_kinds.Phase.FETCH and not ("sdist" in table or text.startswith("sdist:")):
        if not ("git" in table or text.startswith("git+")):
            return "nothing is fetched: the source is a folder of the project", "remove fetch"
        if name not in names.GIT_SECRETS:
            secrets = " or ".join(names.GIT_SECRETS)
            return f"BuildKit fetches a git source with {secrets}", f"name the secret {secrets}"
    # Some cells may have what the recipe itself has not.
    tables = (data, *(entry for _, entry in _items(_table(data, "matrix"), "overrides")))
    if step == target_kinds.Phase.NATIVE and not any(_table(item, "native") for item in tables):
        return "there is no native step", "remove native, or add [native]"
    if step == target_kinds.Phase.TEST and not any(_table(item, "test").get("command") for item in tables):
        return "the test has no command", "remove test, or add test.command"
    return None


def _declare(name: str, variables: Sequence[str]) -> str:
    usable = name if names.VARIABLE.match(name) else "NAME"
    close = nearest(name, variables)
    return (f"write {close}, or " if close else "") + f'declare it: {usable} = "…" under [variables]'


def _references(data: Table) -> Iterator[Problem]:
    variables, referable = known_variables(data), _referable(data)
    for path, text in texts(data, ()):
        for name in dict.fromkeys(REFERENCE.findall(text)):
            if name not in referable:
                what = _undeclared(f"${{{shorten(name)}}} is declared nowhere", name, variables)
                shell = "; a variable of the shell is written $NAME" if path in _COMMANDS else ""
                yield Problem(path, what, _declare(name, variables) + shell)


def texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text that may refer to variables. Iterative, because the data may be nested deeply."""
    stack = [(path, value)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif len(path) >= _DEEPEST:
            continue
        elif isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items() if key not in _FREE_TEXT)
        elif isinstance(value, list | tuple):
            stack.extend(((*path, index), item) for index, item in enumerate(value))
