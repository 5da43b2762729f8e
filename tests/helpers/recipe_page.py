"""The recipe reference: docs/recipe.md and a page for each group of tables. It is generated from the models."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import get_origin

from pydantic.fields import FieldInfo

from bakery.recipe import type_names
from bakery.recipe.models import Builders, Recipe, Workspace
from bakery.recipe.models.base import Model

PAGES = {
    "recipe.md": ("Recipe reference", ("source", "variables", "matrix")),
    "recipe-builder.md": ("Recipe: builder and native step", ("builder", "native")),
    "recipe-wheel.md": ("Recipe: wheel and test", ("wheel", "test")),
    "recipe-run.md": ("Recipe: secrets, caches, output, workflow", ("secrets", "cache", "output", "ci")),
    "recipe-other.md": ("Recipe: macOS, Windows, images, workspaces, builders", ("macos", "windows", "image")),
}
"""Page in docs/ → its title, and the tables of a recipe that it has."""

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

_GENERATED = "<!-- Generated from bakery/recipe/models by `pytest tests/unit/recipe/test_schema.py --update-golden`; do not edit. -->\n"

_INTRO = """\
A recipe describes how to build, test and name the wheels of one project. It is one of:

- the file `bakery.toml`,
- the table `[tool.wheel-bakery]` of `pyproject.toml`. There, the name of each table starts with `tool.wheel-bakery.`: `[builder]`
  becomes `[tool.wheel-bakery.builder]`.

Only `name` is required. The tables have pages of their own: [`[builder]` and `[native]`](recipe-builder.md),
[`[wheel]` and `[test]`](recipe-wheel.md), [`[secrets]`, `[cache]`, `[output]` and `[ci]`](recipe-run.md),
[`[macos]`, `[windows]`, `[image]`, `[workspace]` and `[builders]`](recipe-other.md).

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


def reference_texts() -> dict[str, str]:
    """Return path → text of the pages."""
    fields = type_names.keys(Recipe)
    assert {table for _, tables in PAGES.values() for table in tables} == {
        key for key, field in fields.items() if type_names.model_of(field.annotation)
    }
    (farm,) = type_names.keys(Builders).values()
    more = {
        "recipe.md": [_INTRO, f"```toml\n{EXAMPLE}```\n", *_rows(Recipe, "", "Top-level keys")],
        "recipe-other.md": [
            *_section(Workspace, "workspace", "`[workspace]`"),
            *_section(type_names.model_of(farm.annotation) or Builders, "builders.NAME", "`[builders.NAME]`"),
        ],
    }
    texts = {}
    for name, (title, tables) in PAGES.items():
        sections = [
            text
            for key in tables
            if (model := type_names.model_of(fields[key].annotation))
            for text in _section(model, key, _title(key, fields[key]))
        ]
        own = more.get(name, [])
        parts = [*own, *sections] if name == "recipe.md" else [*sections, *own]
        texts[f"docs/{name}"] = f"{_GENERATED}\n# {title}\n\n{''.join(parts).lstrip()}"
    return texts


def _title(path: str, field: FieldInfo) -> str:
    is_list = get_origin(type_names.bare(field.annotation)) is tuple
    name = _TITLES.get(path, path)
    return f"`[[{name}]]`" if is_list else f"`[{name}]`"


def _section(model: type[Model], path: str, title: str) -> Iterator[str]:
    """Yield the section of ``model``, then the sections of its tables."""
    yield from _rows(model, path, title)
    for key, field in type_names.keys(model).items():
        inner = type_names.model_of(field.annotation)
        if inner is not None:
            yield from _section(inner, _join(path, key), _title(_join(path, key), field))


def _rows(model: type[Model], path: str, title: str) -> Iterator[str]:
    yield f"\n## {title}\n\n{_markdown(inspect.getdoc(model) or '')}\n\n"
    yield "| Key | Type | Default | Description |\n|---|---|---|---|\n"
    for key, field in type_names.keys(model).items():
        yield _row(_join(path, key), field, model.descriptions().get(key, ""))


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
