"""The layer cache of a bake file: its functions in HCL, and their results for one target."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from bakery.core.names import CacheBackend
from bakery.core.target_kinds import TARGET_KINDS
from bakery.emit.quoting import aligned, comment, hcl_value, indent
from bakery.plan.cells import Target
from bakery.plan.delivery import Cache
from bakery.plan.model import Plan
from bakery.plan.values import Json, Ref, Value, literal, substitute

_SCOPE = Ref("place")
"""The scope of a target; with a branch, a scope of that branch."""

_MODE = Ref("mode")
"""The layers that an export contains: ``min`` or ``max``."""

_DIGITS = 12
"""Digits of a branch's digest. A tag has at most 128 characters and takes no slashes; names of branches are longer."""

_Fields = Mapping[str, Value]


def cache_functions(plan: Plan) -> list[list[str]]:
    """Return the HCL functions that targets call with their scope."""
    scope = f'CACHE_BRANCH == "" ? scope : "${{scope}}-${{substr(sha256(CACHE_BRANCH), 0, {_DIGITS})}}"'
    return [
        [
            *comment("Each target, platform and branch has its own cache."),
            *_function("cache_place", [f"result = {scope}"]),
        ],
        [
            *comment("Read the cache of this branch first, then the cache of the default branch."),
            *_function("cache_from", _selected(plan, "distinct([cache_place(scope), scope])", export=False)),
        ],
        [
            *comment("Write nothing if CACHE_READ_ONLY is true."),
            *_function("cache_to", _selected(plan, "[cache_place(scope)]", export=True), "scope", _MODE.name),
        ],
    ]


def cache_attributes(plan: Plan, values: Mapping[str, str], target: Target) -> dict[str, Json]:
    """Return the cache attributes of a target, as ``bake --print`` prints them; empty without a cache.

    Args:
        values: variable → value.
    """
    backend, branch = CacheBackend(values["CACHE"]), values["CACHE_BRANCH"]
    if backend is CacheBackend.NONE:
        return {}

    def of_branch(scope: str) -> str:
        return f"{scope}-{hashlib.sha256(branch.encode()).hexdigest()[:_DIGITS]}" if branch else scope

    def entry(scope: str, *, export: bool) -> Json:
        fields = _entries(plan.cache, export=export)[backend]
        arguments = {**values, _SCOPE.name: scope, _MODE.name: plan.cache_mode(target.kind)}
        return {key: substitute(value, arguments) for key, value in fields.items()}

    is_written = TARGET_KINDS[target.kind].writes_cache and values["CACHE_READ_ONLY"] != "true"
    return {
        "cache-from": [
            entry(branch_scope, export=False)
            for scope in plan.scopes_read(target)
            for branch_scope in dict.fromkeys((of_branch(scope), scope))
        ],
        **({"cache-to": [entry(of_branch(plan.scope(target)), export=True)]} if is_written else {}),
    }


def _function(name: str, body: list[str], *params: str) -> list[str]:
    return [f'function "{name}" {{', *indent([f"params = [{', '.join(params or ('scope',))}]", *body]), "}"]


def _selected(plan: Plan, scopes: str, *, export: bool) -> list[str]:
    """Return a list with the entry of the selected backend for each scope."""
    entries = _entries(plan.cache, export=export)
    rows = aligned((backend.value, _object(fields)) for backend, fields in entries.items())
    condition = 'CACHE != "none" && CACHE_READ_ONLY != "true"' if export else 'CACHE != "none"'
    table = ["{", *indent(rows), f"}}[CACHE] if {condition}"]
    return ["result = [", *indent([f"for place in {scopes} : {table[0]}", *table[1:]]), "]"]


def _object(fields: _Fields) -> str:
    return "{ " + ", ".join(f"{key} = {hcl_value(value)}" for key, value in fields.items()) + " }"


def _entries(cache: Cache, *, export: bool) -> dict[CacheBackend, _Fields]:
    """Return the entry of each backend that the plan offers, for ``cache-to`` or ``cache-from``."""
    options: dict[str, Value] = {}
    if export:
        options = {"mode": (_MODE,), "ignore-error": literal(str(cache.ignore_error).lower())}
    timeout = {"timeout": literal(cache.timeout)} if cache.timeout else {}
    packed = _compression(cache) if export else {}
    tagged: Value = (Ref("CACHE_REF"), ":", _SCOPE)
    folder: Value = (Ref("CACHE_DIR"), "/", _SCOPE)
    entries: dict[CacheBackend, _Fields] = {
        CacheBackend.GHA: {"type": literal("gha"), "scope": (_SCOPE,), **options, **timeout},
        CacheBackend.REGISTRY: {"type": literal("registry"), "ref": tagged, **options, **packed},
        CacheBackend.LOCAL: {"type": literal("local"), "dest" if export else "src": folder, **options, **packed},
    }
    if CacheBackend.S3 in cache.offered:
        entries[CacheBackend.S3] = {
            "type": literal("s3"),
            "name": (_SCOPE,),
            **{key: literal(value) for key, value in cache.bucket.items()},
            **options,
        }
    if CacheBackend.INLINE in cache.offered:
        entries[CacheBackend.INLINE] = (
            {"type": literal("inline")} if export else {"type": literal("registry"), "ref": tagged}
        )
    return entries


def _compression(cache: Cache) -> dict[str, Value]:
    """Return how layers are compressed; layers with another compression are compressed again."""
    if not cache.compression:
        return {}
    level = {"compression-level": literal(str(cache.compression_level))} if cache.compression_level is not None else {}
    return {"compression": literal(cache.compression), "force-compression": literal("true"), **level}
