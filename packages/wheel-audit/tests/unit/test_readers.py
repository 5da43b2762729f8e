"""Readers of texts of strangers: what they refuse, and that time and memory stay in proportion to the text."""

from __future__ import annotations

import configparser
import contextlib
import json
import random
import time

import pytest

from wheel_audit.readers import DEEPEST, Unreadable, ini_of, json_of


@pytest.mark.parametrize(
    "value", [{}, [], 'a,[{\\"', 1.5, -(2**63), None, {"a": [1, {"b": "ä\U0001f600"}]}, [[[]]] * 3, "\ud83d\ude00"]
)
def test_json_as_python_reads_it(value: object) -> None:
    text = json.dumps(value)
    assert json_of(text) == json_of(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1, "a": 2}', "a key is there twice"),
        (b"NaN", "not finite"),
        (b"[-Infinity]", "not finite"),
        (b"1e999", "not finite"),
        (b"1" * 21, "more than 20 digits"),
        (b"1" * 5000, "more than 20 digits"),
        (rb'["\ud800"]', "not UTF-8"),
        (rb'{"\udc00\ud800": 1}', "not UTF-8"),
        (b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2), "more than 64 levels"),
        (b'{"a":' * 200_000, "more than 64 levels"),
        (b"[" + b"[]," * 1_000_001 + b"[]]", "more than 1,000,000 values"),
        (b'"' + b"a" * 300, "not JSON"),
    ],
)
def test_json_that_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        json_of(text)
    assert len(str(caught.value)) < 250


def test_signs_in_texts_are_no_values() -> None:
    assert json_of(json.dumps([",[{" * 10, '"\\', "x"]), entries=3)[2] == "x"
    with pytest.raises(Unreadable, match="more than 3 values"):
        json_of("[1, 2, 3, 4]", entries=3)


LINES = ("[a]", "[b]", "[DEFAULT]", "x = 1", "y: 2 = 3", "  more", "\tmore", "# no", " ; no", "", " ", "z =", "= 1", "word", "[a]b]")  # fmt: skip


def test_ini_as_python_reads_it() -> None:
    choice = random.Random(34)
    for _ in range(3000):
        text = "\n".join(["[a]", *choice.choices(LINES, k=choice.randrange(12))])
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(text)
        except configparser.Error:
            with pytest.raises(Unreadable, match=r"^line "):
                ini_of(text)
        else:
            assert {name: dict(table) for name, table in ini_of(text).items()} == {
                name: dict(parser[name]) for name in parser.sections()
            }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a]\n[b]\n[a]", "line 3: the section 'a' is there twice"),
        ("[a]\nx=1\nx=2", "line 3: the option 'x' is there twice"),
        ("x=1", "line 1: no .section. above it"),
    ],
)
def test_ini_that_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        ini_of(text, unique=True)


@pytest.mark.parametrize(
    "text",
    ["a" + " " * 400_000 + "b", "[a]\n" + "a" + " " * 400_000 + "b", "[" * 400_000, "[a]\nx=\n" + " b\n" * 200_000],
)
def test_ini_takes_linear_time(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(Unreadable):
        ini_of(text)
    assert time.process_time() - began < 1
