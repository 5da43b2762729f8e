"""Changes to bytes, texts and trees, each decided by a random generator alone."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from nasty import FRAGMENTS

Mutator: TypeAlias = Callable[[random.Random, bytes], bytes]

LARGEST = 1 << 20
"""Bytes that a mutated input may have: enough for what is slower than linear to show."""

HOSTILE = (
    *FRAGMENTS,
    *("", "\0", "\n", "\r\n", "\t", "\x1b[2J", "\u2028", "a" * 10_000, "9" * 6000, "0" * 60, "1e400", "1." * 3000),
    *("../../etc/passwd", "/etc/passwd", "~/x", "C:\\x", "//server/x", "a/../../b", "CON", "x\nRUN id", "x\\\nRUN id"),
    *("a,b", "a,source=/etc", "EOF\nRUN id", "*/", "{{", "((((", "(" * 3000, "*a" * 40 + "b", "a-" * 3000),
    *("3.11", "3.9", "3.14t", "99.99", "12.8.0", "13.0.3", "11.8.0", "12", "-1", "0x10", "NaN", "٣.١١", "3.１１"),
    *("linux/amd64", "linux/arm64,linux/amd64", "windows", "debian", "cuda", "torch", "image"),
    *("(a+)+$", "(?=a)", "\\1", "*", "cp3*", "[!", "-r /etc/passwd", "cmake>=3.26", "a @ file:///etc"),
    *("sdist:a==1", "sdist:a", "git+https://h/a@v1", "git+file:///etc@x", "git+ssh://-oProxyCommand=id/x@v"),
    *("${PYTHON_VERSION}", "${CUDA_VERSION}", "${CUDA_TAG}", "${NOT_THERE}", "${A}${B}", "${{ github.token }}"),
    *("DOCKER_HOST", "PATH", "LD_PRELOAD", "CUDA_VERSION", "SECRET_X", "BAKERY_X"),
)
"""Texts that mean something to somebody on the way."""

NUMBERS = (0, 1, -1, 2**31, 2**63, 10**40, 0.5, -0.0, math.inf, math.nan, 1e308)
_WORDS = (0, 1, 2, 3, 7, 8, 16, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_WIDE = (*_WORDS, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 64)


def count(rng: random.Random) -> int:
    """Return how often something is repeated: mostly seldom."""
    return rng.choice((1, 1, 2, 3, 10, 100, 1000, 20_000))


def times(rng: random.Random, data: bytes) -> bytes:
    """Return data again and again, as often as `LARGEST` lets it."""
    return data * min(count(rng), LARGEST // (len(data) or 1) + 1)


def text(rng: random.Random) -> str:
    """Return a hostile text, or several in one."""
    return "".join(rng.choice(HOSTILE) for _ in range(rng.choice((1, 1, 1, 2, 3))))


# --- bytes


def any_bytes(rng: random.Random, data: bytes) -> bytes:
    """Change a few places of any bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        data = rng.choice((_byte, _word, _word, _cut, _copied, _repeated, _inserted))(rng, data)[:LARGEST]
    return data


def _part(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, 24, 40, 56, 64, rng.randrange(1, 4096))))


def _byte(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return rng.randbytes(8)
    at = rng.randrange(len(data))
    changed = rng.choice((data[at] ^ 1 << rng.randrange(8), 0, 0xFF, 0x80, rng.randrange(256)))
    return data[:at] + bytes([changed]) + data[at + 1 :]


def _word(rng: random.Random, data: bytes) -> bytes:
    """Set an aligned number to one that is at a limit, or to one that stands elsewhere."""
    size = rng.choice((2, 4, 4, 8))
    if len(data) < size:
        return data
    # Headers stand at the beginning or at the end.
    last = len(data) // size - 1
    at = size * rng.choice((rng.randint(0, last), rng.randint(0, min(last, 64)), last - rng.randint(0, min(last, 64))))
    order: Any = rng.choice(("little", "little", "little", "big"))
    here = int.from_bytes(data[at : at + size], order)
    other = rng.randrange(len(data) - size + 1)
    there = int.from_bytes(data[other : other + size], order)
    value = rng.choice((rng.choice(_WIDE), here + rng.choice((-8, -1, 1, 8)), len(data), there, other, 2 * here))
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, order) + data[at + size :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start, end = _part(rng, data)
    return data[:start] if rng.random() < 0.3 else data[:start] + data[end:]


def _copied(rng: random.Random, data: bytes) -> bytes:
    start, end = _part(rng, data)
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[start:end] + data[at + (end - start if rng.random() < 0.5 else 0) :]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    start, end = _part(rng, data)
    return data[:start] + times(rng, data[start:end]) + data[end:]


def _inserted(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(8), bytes(64), text(rng).encode("utf-8", "replace"))) + data[at:]


# --- texts

_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


def any_text(rng: random.Random, data: bytes) -> bytes:
    """Change a few words, lines or brackets of a text."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice((_tokens, _tokens, _lines, _numbers, _inserted, _nested, any_bytes))(rng, data)[:LARGEST]
    return data


def _tokens(rng: random.Random, data: bytes) -> bytes:
    return b"".join(_items(rng, _TOKEN.findall(data)))


def _lines(rng: random.Random, data: bytes) -> bytes:
    return b"".join(_items(rng, data.splitlines(keepends=True)))


def _items(rng: random.Random, items: list[bytes]) -> list[bytes]:  # noqa: PLR0911
    if not items:
        return [text(rng).encode("utf-8", "replace")]
    at, other = rng.randrange(len(items)), rng.randrange(len(items))
    start, end = min(at, other), min(max(at, other), min(at, other) + 20) + 1
    match rng.randrange(6):
        case 0:
            return items[:start] + items[end:]
        case 1:
            return [*items[:at], items[other], *items[at + 1 :]]
        case 2:
            return items[:at] + items[start:end] + items[at:]
        case 3:
            return [*items[:start], times(rng, b"".join(items[start:end])), *items[end:]]
        case 4:
            return [*items[:at], times(rng, items[at]), *items[at + 1 :]]
    return [*items[:at], text(rng).encode("utf-8", "replace"), *items[at + 1 :]]


def _numbers(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"[0-9]+", data))
    if not found:
        return data
    match = rng.choice(found)
    value = rng.choice((b"0", b"-1", b"9" * 6000, str(2**63).encode(), b"1e400", times(rng, match[0])))
    return data[: match.start()] + value + data[match.end() :]


def _nested(rng: random.Random, data: bytes) -> bytes:
    at, deep = rng.randrange(len(data) + 1), count(rng)
    opened, closed = rng.choice(
        ((b"(", b")"), (b"[", b"]"), (b"{", b"}"), (b"<", b">"), (b'{"a":', b"}"), (b'"', b'"'))
    )
    return data[:at] + opened * deep + (closed * deep if rng.random() < 0.5 else b"") + data[at:]


# --- trees, as JSON and TOML hold them


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


def _place(rng: random.Random, tree: Any) -> tuple[Any, Any] | None:
    """Return a list or table somewhere in a tree, and one of its keys."""
    found = None
    while isinstance(tree, dict | list) and tree and (found is None or rng.random() < 0.7):
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        found, tree = (tree, key), tree[key]
    return found


def any_tree(rng: random.Random, tree: Any, donors: Sequence[Any] = ()) -> Any:
    """Return a tree in which a few values are something else; some are taken from other trees."""
    result = copy.deepcopy(tree)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        if found := _place(rng, result):
            _change(rng, *found, donors)
    return result


def _change(rng: random.Random, holder: Any, key: Any, donors: Sequence[Any]) -> None:
    value = holder[key]
    match rng.randrange(8):
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
        case 6 if isinstance(value, list | dict):
            _grow(rng, value)
        case _ if donors:
            if found := _place(rng, rng.choice(donors)):
                holder[key] = copy.deepcopy(found[0][found[1]])


def _grow(rng: random.Random, value: Any) -> None:
    """Give a list or a table many more items of the kind that it has."""
    if not value:
        return
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    item = value[key]
    more = range(min(count(rng), 5000 // (1 + len(str(item)) // 50)))
    if isinstance(value, list):
        value += [f"{item}{number}" if isinstance(item, str) else item for number in more]
    else:
        value |= {f"{key}{number}": item for number in more}


def any_json(rng: random.Random, data: bytes) -> bytes:
    """Change a JSON text: mostly its values, at times its characters."""
    try:
        if rng.random() < 0.8:
            return json.dumps(any_tree(rng, json.loads(data))).encode()[:LARGEST]
    except (ValueError, RecursionError):
        pass
    return any_text(rng, data)
