"""Quoting: whatever the text, the other language reads the text. What buildx makes of it is in tests/contract."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.emit.quoting import (
    aligned,
    comment,
    dockerfile_string,
    dockerfile_word,
    hcl_list,
    hcl_string,
    hcl_value,
    heredoc_delimiter,
    indent,
    mount_option,
    shell_word,
)
from bakery.plan.values import Ref, literal

texts = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("${}%\"\\'`"))
words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))


def read_hcl(text: str) -> str:
    """Read a quoted template without interpolation, as HCL's specification says; fail where there is one."""
    assert text[0] == text[-1] == '"'
    inner, result, at = text[1:-1], "", 0
    escapes = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
    while at < len(inner):
        rest = inner[at:]
        wide = re.match(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", rest)
        if wide:
            result, at = result + chr(int(wide[1] or wide[2], 16)), at + wide.end()
        elif rest[0] == "\\":
            result, at = result + escapes[rest[1]], at + 2
        elif rest[:3] in ("$${", "%%{"):
            result, at = result + rest[1:3], at + 3
        else:
            assert rest[:2] not in ("${", "%{"), f"a template starts: {rest}"
            assert rest[0] not in '"\n'
            # Two of these before another are read as one token by some versions of HCL: keep away from it.
            assert not re.match(r"([$%])[$%]+\{", rest), rest
            result, at = result + rest[0], at + 1
    return result


@given(texts)
def test_hcl_string_means_the_text(text: str) -> None:
    assert read_hcl(hcl_string(text)) == text
    assert hcl_string(text).isprintable()


@given(texts, texts)
def test_a_reference_in_hcl_stays_one(before: str, after: str) -> None:
    reference = "${NAME}"
    head = hcl_value((before, Ref("NAME"))).removesuffix(reference + '"')
    written = hcl_value((before, Ref("NAME"), after))
    assert written.startswith(head + reference)
    assert not head.endswith(("$", "%"))
    assert read_hcl(head + '"') == before
    assert read_hcl('"' + written[len(head + reference) :]) == after


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain $x 5 %", '"plain $x 5 %"'),
        ("${x} %{if}", '"$${x} %%{if}"'),
        ("$${x}", '"\\u0024\\u0024{x}"'),
        ("%${x}", '"\\u0025\\u0024{x}"'),
        ('"\\\n\t\r', '"\\"\\\\\\n\\t\\r"'),
        ("\x00\u2028\U000e0001é", '"\\u0000\\u2028\\U000e0001é"'),
    ],
)
def test_hcl_string(text: str, wanted: str) -> None:
    assert hcl_string(text) == wanted


def test_hcl_values_and_lists() -> None:
    assert hcl_value((Ref("NAME"),)) == "NAME"
    assert hcl_value(literal("")) == '""'
    assert hcl_value(("a", Ref("B"), Ref("C"))) == '"a${B}${C}"'
    assert hcl_list(["a", '"']) == '["a", "\\""]'
    assert hcl_list([]) == "[]"


@given(words)
def test_a_shell_word_is_one_word(text: str) -> None:
    assert shlex.split(shell_word(literal(text))) == [text]


@given(words, words)
def test_a_reference_in_a_shell_word_is_quoted(before: str, after: str) -> None:
    written = shell_word((before, Ref("NAME"), after))
    assert written[0] == written[-1] == '"'
    # Within double quotes these four are all that means something; each but the reference has a backslash.
    bare = re.sub(r"\\[\"\\$`]", "", written[1:-1])
    assert re.findall(r"[\"\\$`]", bare) == ["$"]
    assert "${NAME}" in bare


@given(words)
def test_dockerfile_string_leaves_no_special_character(text: str) -> None:
    written = dockerfile_string(literal(text))
    assert not re.search(r"[\"\\$]", re.sub(r"\\[\"\\$]", "", written[1:-1]))
    assert re.sub(r"\\([\"\\$])", r"\1", written[1:-1]) == text


def test_dockerfile_word_is_bare_where_it_can_be() -> None:
    assert dockerfile_word(("https://host/a.git#", Ref("TAG"))) == "https://host/a.git#${TAG}"
    assert dockerfile_word(literal("a $b")) == '"a \\$b"'
    assert dockerfile_word(literal("")) == '""'


def test_mount_option() -> None:
    assert mount_option([("type", "bind"), ("source", "a"), ("rw", "")]) == "--mount=type=bind,source=a,rw"
    assert mount_option([("source", "a b")]) == '--mount="source=a b"'


@given(st.text())
def test_a_heredoc_ends_where_its_text_ends(text: str) -> None:
    assert heredoc_delimiter(text) not in text.split("\n")


def test_heredoc_delimiter() -> None:
    assert heredoc_delimiter("a\nEOF\nEOF_\n") == "EOF__"


@given(st.text())
def test_every_line_of_a_comment_is_one(text: str) -> None:
    assert all(line.startswith("#") and len(line.splitlines()) == 1 for line in comment(text))


def test_indent_and_aligned() -> None:
    assert indent(["a", "", "b"]) == ["  a", "", "  b"]
    assert aligned([("a", "1"), ("long", "2")]) == ["a    = 1", "long = 2"]
    assert aligned([]) == []
