"""Recipes that nobody would write: trees from the schema, and shipped recipes with something broken in them."""

from __future__ import annotations

import copy
import json
import math
import random
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nasty import FRAGMENTS

from bakery.emit.files import generate
from bakery.errors import BakeryError
from bakery.load import load, shipped
from bakery.plan import Plan
from bakery.resolve.lower import resolve
from bakery.rules import judge
from bakery.rules.caching import Host
from bakery.schema import recipe_schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = recipe_schema()
SEEDS = [
    tomllib.loads(path.read_text(encoding="utf-8"))
    for path in (*shipped().values(), *ROOT.glob("examples/*/bakery.toml"), *ROOT.glob("tests/golden/recipes/*.toml"))
]
"""Recipes that have a plan."""

HOSTILE = (
    *FRAGMENTS,
    *(
        "",
        "\0",
        "\n",
        "\r\n",
        "\t",
        "\x1b[2J",
        "\u2028",
        "a" * 10_000,
        "../../etc/passwd",
        "/etc/passwd",
        "~/x",
        "..",
        ".",
    ),
    *(
        "C:\\x",
        "//server/x",
        "a/../../b",
        "a,b",
        "a,source=/etc",
        "x\nRUN id",
        "x\\\nRUN id",
        "EOF\nRUN id",
        "*/",
        "{{",
    ),
    *(
        "3.11",
        "3.9",
        "3.14t",
        "99.99",
        "12.8.0",
        "13.0.3",
        "11.8.0",
        "12",
        "1e400",
        "-1",
        "0x10",
        "NaN",
        "٣.١١",
        "3.１１",
    ),
    *(
        "linux/amd64",
        "linux/arm64,linux/amd64",
        "windows",
        "debian",
        "cuda",
        "torch",
        "image",
        "(a+)+$",
        "[",
        "(?=a)",
        "\\1",
    ),
    *("sdist:a==1", "sdist:a", "git+https://h/a@v1", "git+file:///etc@x", "git+ssh://-oProxyCommand=id/x@v"),
    *(
        "${PYTHON_VERSION}",
        "${CUDA_VERSION}",
        "${CUDA_TAG}",
        "${NOT_THERE}",
        "${A}${B}",
        "*",
        "cp3*",
        "[!",
        "DOCKER_HOST",
    ),
    *("PATH", "LD_PRELOAD", "CUDA_VERSION", "SECRET_X", "BAKERY_X", "cmake>=3.26", "a @ file:///etc", "-r /etc/passwd"),
)
"""Texts that mean something to somebody on the way."""

NUMBERS = (0, 1, -1, 2**31, 2**63, 10**40, 0.5, -0.0, math.inf, math.nan, 1e308)


def text(rng: random.Random) -> str:
    """Return a hostile text, or several in one."""
    return "".join(rng.choice(HOSTILE) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def anything(rng: random.Random, depth: int = 3) -> Any:
    """Return a value of any type."""
    kind = rng.randrange(8 if depth else 5)
    if kind < 3:
        return text(rng)
    if kind == 3:
        return rng.choice(NUMBERS)
    if kind == 4:
        return rng.random() < 0.5
    if kind == 5:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {text(rng): anything(rng, depth - 1) for _ in range(rng.randrange(4))}
    return nested(rng)


def nested(rng: random.Random) -> Any:
    """Return a value that is nested deeply."""
    value: Any = text(rng)
    for _ in range(rng.choice((5, 20, 60))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def from_schema(rng: random.Random, node: dict[str, Any]) -> Any:  # noqa: PLR0911
    """Return a value that mostly fits a node of the schema."""
    if rng.random() < 0.02:
        return anything(rng)
    if "$ref" in node:
        return from_schema(rng, SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])  # type: ignore[index]
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


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a tree."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(rng: random.Random, tree: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe in which a few things are something else."""
    result = copy.deepcopy(tree)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        found = list(places(result))
        if not found:
            return result
        *way, last = rng.choice(found)
        holder = result
        for step in way:
            holder = holder[step]
        _change(rng, holder, last)
    return result


def _change(rng: random.Random, holder: Any, key: Any) -> None:
    value = holder[key]
    match rng.randrange(7):
        case 0:
            del holder[key]
        case 1:
            holder[key] = anything(rng)
        case 2 | 3 if isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            holder[key] = value[:at] + text(rng) + value[at + rng.randrange(3) :]
        case 4 if isinstance(holder, dict):
            holder[text(rng)] = value
        case 5 if isinstance(value, list):
            value.append(copy.deepcopy(rng.choice(value)) if value and rng.random() < 0.5 else anything(rng))
        case _:
            donor = rng.choice(SEEDS)
            *way, last = rng.choice(list(places(donor)))
            for step in way:
                donor = donor[step]
            holder[key] = copy.deepcopy(donor[last])


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


def document(rng: random.Random) -> bytes:
    """Return the bytes of a recipe file."""
    tree = from_schema(rng, SCHEMA) if rng.random() < 0.35 else mutated(rng, rng.choice(SEEDS))
    if not isinstance(tree, dict):
        tree = {"name": tree}
    if rng.random() < 0.7:
        tree["name"] = "fuzzed"
    tree.pop("workspace", None) if rng.random() < 0.8 else None
    data = "".join(f"{json.dumps(str(k), ensure_ascii=False)} = {toml(v)}\n" for k, v in tree.items()).encode()
    for _ in range(rng.choice((0,) * 9 + (3,))):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice((b"", b"\0", b"\xff", b'"', b"\n", b"[", b"=", rng.randbytes(4))) + data[at + 1 :]
    return data


def sets(rng: random.Random) -> list[str]:
    """Return what ``--set`` may be given."""
    names = ("CUDA_VERSION", "PYTHON_VERSION", "CUDA_ARCHS", "CACHE", "CACHE_DIR", "SOURCE_DATE_EPOCH", "A", "MAX_JOBS")
    keys = (
        "args.A",
        "args.CUDA_VERSION",
        "platform",
        "platforms",
        "tags",
        "cache-to",
        "cache-from",
        "labels.x",
        "secrets",
    )
    keys += ("contexts.x", "network", "output", "args", "shm-size", "no-cache", "entitlements", "ssh", "tags+", "x")

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


def attempt(folder: Path, data: bytes, given: list[str]) -> Plan | BakeryError:
    """Plan a recipe as the command does; return the plan, or the error that a person would see."""
    (folder / "bakery.toml").write_bytes(data)
    try:
        plans = [resolve(item, given, {}) for item in load(None, folder)]
        for plan in plans:
            list(judge(plan, Host(memory=8 * 1024**3)))
            texts = generate(plan)
            assert all(text.encode() and "\0" not in text for text in texts.values())
    except BakeryError as error:
        assert_clean(error)
        return error
    return plans[0]


def assert_clean(error: BakeryError) -> None:
    """An error is lines of text that any terminal shows, and not too many."""
    lines = (error.message, error.hint, *error.details)
    assert error.message
    assert all(line.replace("\n", "").replace("\t", "").isprintable() for line in lines), lines
    assert sum(map(len, lines)) < 100_000


def once(folder: Path, seed: int) -> tuple[bytes, list[str], Plan | BakeryError]:
    """Make recipe number ``seed`` and plan it."""
    rng = random.Random(seed)
    data, given = document(rng), sets(rng)
    return data, given, attempt(folder, data, given)


Report = Callable[[int, bytes, list[str]], None]
