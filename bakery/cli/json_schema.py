"""The JSON schemas of recipes, lock files, jobs and records of modules. They are generated from the models."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bakery.cli.plugins import plugins
from bakery.core.errors import UsageError
from bakery.recipe.models import Builders, Override, Recipe, Workspace
from bakery.recipe.problems import nearest
from bakery.runs.lock.model import Lock

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _RecordSchema(GenerateJsonSchema):
    """For files that bakery writes."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


class _FileSchema(_RecordSchema):
    """For files that users write: TOML has no null, so ``| None`` and ``= None`` mean that a key is optional."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return inner if default is None or isinstance(default, BaseModel) else {**inner, "default": default}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        table = super().dict_schema(schema)
        # Without this, a key that does not match the pattern may have any value.
        return {**table, "additionalProperties": False} if "patternProperties" in table else table


OWN = ("recipe", "pyproject", "lock")


def names() -> tuple[str, ...]:
    """Return the names of the schemas, with those of plugins."""
    return (*OWN, *_added())


def _added() -> dict[str, Mapping[str, object]]:
    return {name: document for plugin in plugins() for name, document in plugin.schemas().items()}


def schema(name: str) -> Mapping[str, object]:
    """Return the JSON schema (draft 2020-12) of a file: one of `names`.

    ``pyproject`` is that of a pyproject.toml, whose table ``[tool.wheel-bakery]`` is a recipe. Raises UsageError for another name.
    """
    if name == "recipe":
        return _recipe_schema()
    if name == "pyproject":
        return _pyproject_schema()
    if name == "lock":
        return schema_of(Lock)
    if document := _added().get(name):
        return document
    close = nearest(name, names())
    hint = f"did you mean {close!r}?" if close else f"there are {', '.join(names())}"
    raise UsageError(f"unknown kind of file {name[:60]!r}", hint=hint)


def schema_of(model: type[BaseModel], *, by_users: bool = True) -> dict[str, object]:
    """Return the JSON schema of the files of a model, which users write, or bakery."""
    generator = _FileSchema if by_users else _RecordSchema
    document = model.model_json_schema(by_alias=True, schema_generator=generator)
    tables = document.pop("$defs", {})
    return {"$schema": _DIALECT, **document, "$defs": {key: tables[key] for key in sorted(tables)}}


def schema_text(name: str) -> str:
    """Return the text of a schema."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def _recipe_schema() -> dict[str, object]:
    schema = Recipe.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    workspace = Workspace.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    builders = Builders.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    definitions = {**schema.pop("$defs"), **builders.pop("$defs"), "Workspace": workspace}
    properties = {**schema.pop("properties"), "workspace": {"$ref": "#/$defs/Workspace"}, **builders["properties"]}
    # An override has parts of these tables. A native step needs its command in its own table, but not there.
    changes = definitions["Override"]["properties"]
    definitions["Override"]["anyOf"] = [{"required": [name]} for name in ("variables", *Override.TABLES)]
    for name in ("builder", "wheel", "test"):
        about = {key: changes[name][key] for key in ("description", "examples")}
        changes[name] = {"$ref": f"#/$defs/{name.capitalize()}"} | about
    # A file may have a recipe, a workspace, builders, or several of them.
    either = [{"required": schema.pop("required")}, {"required": ["workspace"]}, {"required": ["builders"]}]
    about = {key: schema.pop(key) for key in ("title", "description")}
    tables = {key: definitions[key] for key in sorted(definitions)}
    return {"$schema": _DIALECT, **about, **schema, "properties": properties, "anyOf": either, "$defs": tables}


def _pyproject_schema() -> dict[str, object]:
    recipe = _recipe_schema()
    tables = recipe.pop("$defs")
    recipe.pop("$schema")
    # The rest of the file belongs to other tools.
    tool = {"type": "object", "properties": {"wheel-bakery": recipe}}
    return {"$schema": _DIALECT, "type": "object", "properties": {"tool": tool}, "$defs": tables}
