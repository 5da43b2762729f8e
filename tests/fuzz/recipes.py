"""Recipes that nobody would write: trees from the schema, and shipped recipes with something broken in them."""

from __future__ import annotations

import copy
import json
import math
import random
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bakery.cli.json_schema import schema
from bakery.emit.files import generate
from bakery.plan.model import Plan
from bakery.recipe.files import shipped
from bakery.recipe.load import farms, load
from bakery.resolve.plan import resolve
from bakery.resolve.rules import judge
from bakery.resolve.rules.cache_use import Host
from bakery.resolve.set_option import parse_set_options
from fuzz.mutate import LARGEST, NUMBERS, any_text, any_tree, anything, text

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = dict(schema("recipe"))
SEEDS = [
    tomllib.loads(path.read_text(encoding="utf-8"))
    for path in (*shipped().values(), *ROOT.glob("examples/*/bakery.toml"), *ROOT.glob("tests/golden/recipes/*.toml"))
]
"""Recipes that have a plan."""


def from_schema(rng: random.Random, node: dict[str, Any]) -> Any:  # noqa: PLR0911
    """Return a value that mostly fits a node of the schema."""
    if rng.random() < 0.02:
        return anything(rng)
    if "$ref" in node:
        return from_schema(rng, SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node and "properties" not in node:
        return from_schema(rng, rng.choice(node["anyOf"]))
    if "examples" in node and rng.random() < 0.6:
        return copy.deepcopy(rng.choice(node["examples"]))
    if "enum" in node or "const" in node:
        return rng.choice(node.get("enum") or [node["const"]])
    match node.get("type"):
        case "string":
            return text(rng)
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            return rng.choice((1, 2, *NUMBERS))
        case "array":
            return [from_schema(rng, node.get("items", {})) for _ in range(rng.randrange(4))]
        case "object":
            return dict(_table(rng, node))
    return anything(rng)


def _table(rng: random.Random, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in node.get("properties", {}).items():
        if key in node.get("required", ()) or rng.random() < 0.3:
            yield key, from_schema(rng, inner)
    for inner in (node.get("additionalProperties"), *node.get("patternProperties", {}).values()):
        if isinstance(inner, dict):
            for _ in range(rng.randrange(3)):
                yield (
                    rng.choice(("A", "CUDA_VERSION", "MAX_JOBS", "mode", "cuda", "hf-token", text(rng))),
                    from_schema(rng, inner),
                )


def toml(value: Any) -> str:
    """Return a value as TOML writes it on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return (
                "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf") if math.isinf(value) else repr(value)
            )
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(toml, value)) + "]"
        case str():
            # JSON's escapes of the astral planes are pairs, which TOML does not know.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def dumped(tree: dict[str, Any]) -> bytes:
    """Return a tree as a TOML text, or as bytes that are no UTF-8 where a text of it is none."""
    lines = (f"{json.dumps(str(k), ensure_ascii=False)} = {toml(v)}\n" for k, v in tree.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def any_toml(rng: random.Random, data: bytes, donors: Sequence[Any] = ()) -> bytes:
    """Change a TOML text: mostly its values, at times its characters."""
    try:
        if rng.random() < 0.85:
            return dumped(any_tree(rng, tomllib.loads(data.decode()), donors))[: 2 * LARGEST]
    except (ValueError, RecursionError):
        pass
    return any_text(rng, data)


# --- an input: a recipe, behind a comment with what `--set` is given

_SET = b"# --set "


def seeds() -> list[bytes]:
    """Return recipes that have a plan."""
    return [_SET + b"[]\n" + dumped(tree) for tree in SEEDS]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return another recipe, made of this one or of the schema alone."""
    _, recipe = parts(data)
    if rng.random() < 0.2:
        tree = from_schema(rng, SCHEMA)
        tree = tree if isinstance(tree, dict) else {"name": tree}
        if rng.random() < 0.7:
            tree["name"] = "fuzzed"
        tree.pop("workspace", None) if rng.random() < 0.8 else None
        recipe = dumped(tree)[: 2 * LARGEST]
    else:
        recipe = any_toml(rng, recipe, SEEDS)
    return _SET + json.dumps(sets(rng)).encode() + b"\n" + recipe


def parts(data: bytes) -> tuple[list[str], bytes]:
    """Return what `--set` is given, and the recipe."""
    line, _, rest = data.partition(b"\n")
    try:
        given = json.loads(line.removeprefix(_SET)) if line.startswith(_SET) else None
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, list) and all(isinstance(item, str) for item in given):
        return given, rest
    return [], data


def sets(rng: random.Random) -> list[str]:
    """Return what ``--set`` may be given."""
    names = ("CUDA_VERSION", "PYTHON_VERSION", "CUDA_ARCHS", "CACHE", "CACHE_DIR", "SOURCE_DATE_EPOCH", "A", "MAX_JOBS")
    keys = (
        *(
            "args.A", "args.CUDA_VERSION", "platform", "platforms", "tags", "cache-to", "cache-from", "labels.x",
            "secrets",
        ),
        *("contexts.x", "network", "output", "args", "shm-size", "no-cache", "entitlements", "ssh", "tags+", "x"),
    )  # fmt: skip

    def one() -> str:
        kind = rng.randrange(4)
        if kind == 0:
            return text(rng)
        left = (
            rng.choice(names) if kind < 3 else f"{rng.choice(('*', 'wheel', 'test-*', text(rng)))}.{rng.choice(keys)}"
        )
        value = rng.choice(("12.8.0", "13.0.3", "3.12", "local", "linux/arm64", "type=local,dest=x"))
        return f"{left}={value if rng.random() < 0.5 else text(rng)}"

    return [one() for _ in range(rng.choice((0, 0, 1, 1, 2)))]


def plan(folder: Path, data: bytes) -> str:
    """Plan a recipe."""
    plans_of(folder, data)
    return "plan"


def plans_of(folder: Path, data: bytes) -> list[Plan]:
    """Plan a recipe, or the recipes of a workspace, as the command does.

    Raises:
        BakeryError: what a person would see.
    """
    given, recipe = parts(data)
    (folder / "bakery.toml").write_bytes(recipe)
    farms(folder)
    plans = [resolve(item, parse_set_options(given)) for item in load(None, folder)]
    for plan in plans:
        list(judge(plan, Host(memory=8 * 1024**3)))
        texts = generate(plan)
        assert all(text.encode() and "\0" not in text for text in texts.values())
    return plans
