"""docs/recipe.md, the recipe reference; the models are its only source."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import get_origin

from pydantic.fields import FieldInfo

from bakery.recipe import type_names
from bakery.recipe.models import Builders, Recipe, Workspace
from bakery.recipe.models.base import Model
from bakery.resolve.defaults import DEFAULTS

PATH = "docs/recipe.md"
"""Where the repository keeps the reference."""

EXAMPLE = """\
name = "my-kernels"
description = "CUDA kernels with a Python interface"
platforms = ["linux/amd64"]

[variables]
CUDA_ARCHS = { default = "80;90", description = "GPU architectures", pattern = "[0-9]+(;[0-9]+)*" }

[matrix]
python = ["3.11", "3.13"]
cuda = ["12.8.0", "13.0.2"]
exclude = [{ python = "3.11", cuda = "13.*" }]

[[matrix.overrides]]
where = { cuda = "13.*" }
variables = { CUDA_ARCHS = "90;100" }

[builder]
base = "debian"
toolkit = "cuda"
requirements = ["cmake>=3.26", "ninja"]
environment = { CMAKE_CUDA_ARCHITECTURES = "${CUDA_ARCHS}" }

[wheel]
config-settings = { "cmake.build-type" = "Release" }
repair = { exclude = ["libcudart.so.*", "libcuda.so.*"] }

[test]
requirements = ["pytest"]
imports = ["my_kernels"]
files = ["tests"]
command = "pytest tests"
"""
"""A recipe that uses every section that most need; a test loads it."""

_INTRO = """\
<!-- Generated from bakery/models by `bakery generate`; do not edit. -->

# Recipe reference

A recipe says how the wheels of one project are built, tested and named. It is a file `bakery.toml`, or the
table `[tool.bakery]` of `pyproject.toml`, where each table's name begins with `tool.bakery.`. Only `name` is
required. `${NAME}` in a text stands for the value of the variable NAME: one of `[variables]`, or one that
is always there (`PYTHON_VERSION`), comes with a toolkit (`CUDA_VERSION`) or belongs to an axis of the matrix.

An editor that knows TOML schemas (taplo, Even Better TOML) completes and checks a recipe whose first line is
`#:schema PATH/schema/recipe.schema.json`, with the path to this repository's file.

"""

_TITLES = {"variables": "variables.NAME", "secrets": "secrets.NAME"}
"""Tables whose keys a person chooses."""


def reference_text() -> str:
    """Return docs/recipe.md."""
    (farm,) = type_names.keys(Builders).values()
    sections = (
        *_section(Recipe, "", "Top of the file"),
        *_section(Workspace, "workspace", "`[workspace]`"),
        *_section(type_names.model_of(farm.annotation) or Builders, "builders.NAME", "`[builders.NAME]`"),
    )
    return "".join([_INTRO, f"```toml\n{EXAMPLE}```\n", *sections])


def _title(path: str, field: FieldInfo) -> str:
    is_list = get_origin(type_names.bare(field.annotation)) is tuple
    name = _TITLES.get(path, path)
    return f"`[[{name}]]`" if is_list else f"`[{name}]`"


def _section(model: type[Model], path: str, title: str) -> Iterator[str]:
    """Yield the section of ``model``, then those of the tables inside it."""
    yield f"\n## {title}\n\n{_markdown(inspect.getdoc(model) or '')}\n\n"
    yield "| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
    fields = type_names.keys(model)
    for key, field in fields.items():
        yield _row(key, field, _join(path, key))
    for key, field in fields.items():
        inner = type_names.model_of(field.annotation)
        if inner is not None:
            yield from _section(inner, _join(path, key), _title(_join(path, key), field))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _row(key: str, field: FieldInfo, path: str) -> str:
    meaning = _markdown(" ".join((field.description or "").split()))
    examples = ", ".join(_code(_toml(example)) for example in field.examples or ())
    if examples:
        meaning += f" Example{'s' if len(field.examples or ()) > 1 else ''}: {examples}"
    cells = (_code(key), type_names.describe(field.annotation), _default(field, path), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(field: FieldInfo, path: str) -> str:
    if field.is_required():
        return "required"
    value = DEFAULTS.get(path)
    return "" if value is None else _code(_toml(value))


def _toml(value: object) -> str:
    """Return ``value`` as TOML writes it on one line."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_toml_key(str(key))} = {_toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() else json.dumps(key)


def _code(text: str) -> str:
    return f"`{text}`"


def _markdown(text: str) -> str:
    """Return a docstring, whose code stands in double backquotes, as Markdown."""
    return text.replace("``", "`")
