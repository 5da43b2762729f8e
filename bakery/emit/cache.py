"""The layer cache of a bake file: its functions in HCL, and what they come to for one target."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from bakery.core.names import TARGET_KINDS, CacheBackend
from bakery.emit.quoting import aligned, comment, hcl_value, indent
from bakery.plan.cells import Target
from bakery.plan.model import Plan
from bakery.plan.options import Cache
from bakery.plan.values import Json, Ref, Value, literal, substitute

_PLACE = Ref("place")
"""A scope, where it is one of a branch or of the default branch."""

_MODE = Ref("mode")
"""Which layers an export keeps."""

_DIGITS = 12
"""Of a branch's digest: a tag has at most 128 characters, of which scopes take most, and a branch's name has any."""

_Fields = Mapping[str, Value]


def cache_functions(plan: Plan) -> list[list[str]]:
    """Return the functions that targets call with their scope."""
    place = f'CACHE_BRANCH == "" ? scope : "${{scope}}-${{substr(sha256(CACHE_BRANCH), 0, {_DIGITS})}}"'
    return [
        [
            *comment("Each target and platform has a cache of its own, and each branch: none overwrites another's."),
            *_function("cache_place", [f"result = {place}"]),
        ],
        [
            *comment("The cache of the branch that is built is asked first, then that of the default branch."),
            *_function("cache_from", _chosen(plan, "distinct([cache_place(scope), scope])", export=False)),
        ],
        [
            *comment("Nothing is written where CACHE_READ_ONLY is true."),
            *_function("cache_to", _chosen(plan, "[cache_place(scope)]", export=True), "scope", _MODE.name),
        ],
    ]


def cache_attributes(plan: Plan, values: Mapping[str, str], target: Target) -> dict[str, Json]:
    """Return a target's attributes, as ``bake --print`` names them; none without a cache.

    Args:
        values: variable → value.
    """
    backend, branch = CacheBackend(values["CACHE"]), values["CACHE_BRANCH"]
    if backend is CacheBackend.NONE:
        return {}

    def own(scope: str) -> str:
        return f"{scope}-{hashlib.sha256(branch.encode()).hexdigest()[:_DIGITS]}" if branch else scope

    def entry(place: str, *, export: bool) -> Json:
        fields = _entries(plan.cache, export=export)[backend]
        given = {**values, _PLACE.name: place, _MODE.name: plan.cache_mode(target.kind)}
        return {key: substitute(value, given) for key, value in fields.items()}

    is_written = TARGET_KINDS[target.kind].writes_cache and values["CACHE_READ_ONLY"] != "true"
    return {
        "cache-from": [
            entry(place, export=False)
            for scope in plan.scopes_read(target)
            for place in dict.fromkeys((own(scope), scope))
        ],
        **({"cache-to": [entry(own(plan.scope(target)), export=True)]} if is_written else {}),
    }


def _function(name: str, body: list[str], *params: str) -> list[str]:
    return [f'function "{name}" {{', *indent([f"params = [{', '.join(params or ('scope',))}]", *body]), "}"]


def _chosen(plan: Plan, places: str, *, export: bool) -> list[str]:
    """Return a list with the chosen backend's entry for each place."""
    offered = _entries(plan.cache, export=export)
    rows = aligned((backend.value, _object(fields)) for backend, fields in offered.items())
    used = 'CACHE != "none" && CACHE_READ_ONLY != "true"' if export else 'CACHE != "none"'
    table = ["{", *indent(rows), f"}}[CACHE] if {used}"]
    return ["result = [", *indent([f"for place in {places} : {table[0]}", *table[1:]]), "]"]


def _object(fields: _Fields) -> str:
    return "{ " + ", ".join(f"{key} = {hcl_value(value)}" for key, value in fields.items()) + " }"


def _entries(cache: Cache, *, export: bool) -> dict[CacheBackend, _Fields]:
    """Return each backend's entry, as far as the plan has it: one of ``cache-to`` or of ``cache-from``."""
    how: dict[str, Value] = {}
    if export:
        how = {"mode": (_MODE,), "ignore-error": literal(str(cache.ignore_error).lower())}
    timeout = {"timeout": literal(cache.timeout)} if cache.timeout else {}
    packed = _packed(cache) if export else {}
    tagged: Value = (Ref("CACHE_REF"), ":", _PLACE)
    folder: Value = (Ref("CACHE_DIR"), "/", _PLACE)
    found: dict[CacheBackend, _Fields] = {
        CacheBackend.GHA: {"type": literal("gha"), "scope": (_PLACE,), **how, **timeout},
        CacheBackend.REGISTRY: {"type": literal("registry"), "ref": tagged, **how, **packed},
        CacheBackend.LOCAL: {"type": literal("local"), "dest" if export else "src": folder, **how, **packed},
    }
    if CacheBackend.S3 in cache.offered:
        found[CacheBackend.S3] = {
            "type": literal("s3"),
            "name": (_PLACE,),
            **{key: literal(value) for key, value in cache.bucket.items()},
            **how,
        }
    if CacheBackend.INLINE in cache.offered:
        own: _Fields = {"type": literal("inline")} if export else {"type": literal("registry"), "ref": tagged}
        found[CacheBackend.INLINE] = own
    return found


def _packed(cache: Cache) -> dict[str, Value]:
    """Return how layers are packed; those that were packed otherwise are packed again."""
    if not cache.compression:
        return {}
    level = {"compression-level": literal(str(cache.compression_level))} if cache.compression_level is not None else {}
    return {"compression": literal(cache.compression), "force-compression": literal("true"), **level}
