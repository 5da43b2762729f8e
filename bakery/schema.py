"""The JSON schemas of recipes, locks, jobs and records of modules, for editors; the models are their only source."""

from __future__ import annotations

import json

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bakery.models import Builders, Recipe, Workspace
from bakery.models.job import Job
from bakery.models.lock import Lock
from bakery.models.module import ModuleRecord

PATH = "schema/recipe.schema.json"
"""Where the repository keeps the schema of recipes."""

LOCK_PATH = "schema/lock.schema.json"
JOB_PATH = "schema/job.schema.json"
MODULE_PATH = "schema/module.schema.json"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _RecordSchema(GenerateJsonSchema):
    """What bakery itself writes."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


class _FileSchema(_RecordSchema):
    """What files may hold: TOML has no null, so ``| None`` and ``= None`` only mean that a key may be left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return inner if default is None else {**inner, "default": default}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        table = super().dict_schema(schema)
        # Without this, a key that does not fit the pattern may hold anything.
        return {**table, "additionalProperties": False} if "patternProperties" in table else table


def recipe_schema() -> dict[str, object]:
    """Return the JSON schema (draft 2020-12) of bakery.toml and of ``[tool.bakery]``."""
    schema = Recipe.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    workspace = Workspace.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    builders = Builders.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    definitions = {**schema.pop("$defs"), **builders.pop("$defs"), "Workspace": workspace}
    properties = {**schema.pop("properties"), "workspace": {"$ref": "#/$defs/Workspace"}, **builders["properties"]}
    # A file may hold a recipe, a workspace or both; and builders beside them, or alone.
    either = [{"required": schema.pop("required")}, {"required": ["workspace"]}, {"required": ["builders"]}]
    about = {key: schema.pop(key) for key in ("title", "description")}
    tables = {key: definitions[key] for key in sorted(definitions)}
    return {"$schema": _DIALECT, **about, **schema, "properties": properties, "anyOf": either, "$defs": tables}


def lock_schema() -> dict[str, object]:
    """Return the JSON schema of a lock."""
    return _document(Lock.model_json_schema(by_alias=True, schema_generator=_FileSchema))


def job_schema() -> dict[str, object]:
    """Return the JSON schema of a job file."""
    return _document(Job.model_json_schema(by_alias=True, schema_generator=_FileSchema))


def module_schema() -> dict[str, object]:
    """Return the JSON schema of a compiled module's record, which does have null."""
    return _document(ModuleRecord.model_json_schema(by_alias=True, schema_generator=_RecordSchema))


def schema_texts() -> dict[str, str]:
    """Return path → schema, as the repository keeps it."""
    return {path: _text(make()) for path, make in _SCHEMAS.items()}


def schema_text(name: str = "recipe") -> str:
    """Return one schema as the repository keeps it.

    Args:
        name: ``recipe``, ``lock``, ``job`` or ``module``.
    """
    return schema_texts()[f"schema/{name}.schema.json"]


def _document(schema: JsonSchemaValue) -> dict[str, object]:
    tables = schema.pop("$defs", {})
    return {"$schema": _DIALECT, **schema, "$defs": {key: tables[key] for key in sorted(tables)}}


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


_SCHEMAS = {PATH: recipe_schema, LOCK_PATH: lock_schema, JOB_PATH: job_schema, MODULE_PATH: module_schema}
