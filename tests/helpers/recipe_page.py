"""docs/recipe.md, the recipe reference. It is generated from the models."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import get_origin

from pydantic.fields import FieldInfo

from bakery.recipe import type_names
from bakery.recipe.models import Builders, Recipe, Workspace
from bakery.recipe.models.base import Model

PATH = "docs/recipe.md"
"""The path of the reference in the repository."""

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
"""A recipe with the most common sections. A test loads it."""

_INTRO = """\
<!-- Generated from bakery/recipe/models by `pytest tests/unit/recipe/test_schema.py --update-golden`; do not edit. -->

# Recipe reference

A recipe describes how to build, test and name the wheels of one project. It is one of:

- the file `bakery.toml`,
- the table `[tool.wheel-bakery]` of `pyproject.toml`. There, the name of each table starts with `tool.wheel-bakery.`: `[builder]`
  becomes `[tool.wheel-bakery.builder]`.

Only `name` is required.

**Variables.** `${NAME}` in a value is replaced by the value of variable `NAME`. These variables exist:

| Variable | Value |
|---|---|
| any name in `[variables]` | its default, unless the environment (`BAKERY_NAME`) or `--set NAME=VALUE` sets it |
| `PYTHON_VERSION` | the axis `python`; always available |
| `CUDA_VERSION`, `TORCH_VERSION`, `JAX_VERSION` | the axis `cuda`, `torch` or `jax` |
| the name of any other axis, in capitals | the value of the axis |
| `CUDA_MAJOR`, `CUDA_MINOR`, `CUDA_TAG` | parts of `CUDA_VERSION`: 12, 12.8 and 128 for 12.8.1; likewise `TORCH_…` and `JAX_…` |

A CUDA toolkit needs `CUDA_VERSION`, and a framework needs its variable: declare it in `[variables]`, or add the axis.
Toolkit `image` can also read the CUDA release from the name of the image.

**Editor support.** Editors with support for TOML schemas (Taplo, Even Better TOML) complete and check a recipe if its
first line is `#:schema PATH/schema/recipe.schema.json`. `PATH` is the path to a checkout of this repository.

**Example:**

"""

_TITLES = {"variables": "variables.NAME", "secrets": "secrets.NAME"}
"""Tables whose keys the user chooses."""


def reference_text() -> str:
    """Return docs/recipe.md."""
    (farm,) = type_names.keys(Builders).values()
    sections = (
        *_section(Recipe, "", "Top-level keys"),
        *_section(Workspace, "workspace", "`[workspace]`"),
        *_section(type_names.model_of(farm.annotation) or Builders, "builders.NAME", "`[builders.NAME]`"),
    )
    return "".join([_INTRO, f"```toml\n{EXAMPLE}```\n", *sections])


def _title(path: str, field: FieldInfo) -> str:
    is_list = get_origin(type_names.bare(field.annotation)) is tuple
    name = _TITLES.get(path, path)
    return f"`[[{name}]]`" if is_list else f"`[{name}]`"


def _section(model: type[Model], path: str, title: str) -> Iterator[str]:
    """Yield the section of ``model``, then the sections of its tables."""
    yield f"\n## {title}\n\n{_markdown(inspect.getdoc(model) or '')}\n\n"
    yield "| Key | Type | Default | Description |\n|---|---|---|---|\n"
    fields = type_names.keys(model)
    for key, field in fields.items():
        yield _row(_join(path, key), field, model.descriptions().get(key, ""))
    for key, field in fields.items():
        inner = type_names.model_of(field.annotation)
        if inner is not None:
            yield from _section(inner, _join(path, key), _title(_join(path, key), field))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _row(path: str, field: FieldInfo, text: str) -> str:
    meaning = _markdown(" ".join(text.split()))
    examples = ", ".join(_code(_toml(example)) for example in field.examples or ())
    if examples:
        meaning += f" Example{'s' if len(field.examples or ()) > 1 else ''}: {examples}"
    # Links lead to a key: recipe.md#builder.toolkit.
    cells = (
        f'<a id="{path}"></a>{_code(path.rpartition(".")[2])}',
        type_names.describe(field),
        _default(field),
        meaning,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, Model):
        # Its short form; empty for a table whose keys have defaults of their own.
        value = next((getattr(value, name) for name in value.model_fields_set), None)
    return "" if value is None else _code(_toml(value))


def _toml(value: object) -> str:
    """Return ``value`` as TOML on one line."""
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
    """Return a docstring as Markdown: code is in single backquotes instead of double ones."""
    return text.replace("``", "`")
