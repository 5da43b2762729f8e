"""``--set``: its grammar, and what buildx then makes of targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.core.errors import UsageError
from bakery.emit.bakefile import merged, overridden
from bakery.plan.delivery import Override
from bakery.plan.values import Json
from bakery.resolve.set_option import parse_set_options as parse


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*.args.CUDA_VERSION=12.8.0", Override("*", "args.CUDA_VERSION", False, "12.8.0")),
        ("*.args.A=b=c.d+=e", Override("*", "args.A", False, "b=c.d+=e")),
        ("wheel.platforms=linux/arm64", Override("wheel", "platform", False, "linux/arm64")),
        ("wheel.platform+=linux/arm64", Override("wheel", "platform", True, "linux/arm64")),
        ("dev-*.tags+=a:b", Override("dev-*", "tags", True, "a:b")),
        ("t.labels.org.example.a=", Override("t", "labels.org.example.a", False, "")),
        ("t.cache-to=type=gha,scope=x", Override("t", "cache-to", False, "type=gha,scope=x")),
        ("t.contexts.base=target:x", Override("t", "contexts.base", False, "target:x")),
        ("t.extra-hosts.a.b=1.2.3.4", Override("t", "extra-hosts.a.b", False, "1.2.3.4")),
        ("t.no-cache=true", Override("t", "no-cache", False, "true")),
        ("t.shm-size=64m", Override("t", "shm-size", False, "64m")),
    ],
)
def test_grammar(text: str, wanted: Override) -> None:
    assert parse([text]).overrides == (wanted,)


def test_variables_and_overrides_in_order() -> None:
    said = parse(["A=1", "*.tags=x", "A=2", "*.tags+=y", "B="])
    assert said.variables == {"A": "2", "B": ""}
    assert [str(item) for item in said.overrides] == ["*.tags=x", "*.tags+=y"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CUDA_VERSION", "expected NAME=VALUE"),
        ("cuda=1", "not a variable name"),
        ("A=\x01", "control characters"),
        (".tags=x", "expected a pattern"),
        ("t.args=x", "expected args.NAME=VALUE"),
        ("t.args.=x", "expected args.NAME=VALUE"),
        ("t.args.A B=x", "not the name of a build argument"),
        ("t.labels.a+=x", "takes = and not +="),
        ("t.tags.x=y", "no part after a second dot"),
        ("t.pull=yes", "pull is true or false"),
        ("t.pull+=true", "takes = and not +="),
        ("t.shm-size=much", "number of bytes"),
        ("t.colour=red", "unknown key 'colour'"),
        ("t.network=host", "network cannot be overridden: buildx reads it as an empty string"),
        ("t.output=x", "use --output DIR"),
        ("t.secrets=x", "--ca-bundle"),
        ("t.cache-to=a,source=b", "expected NAME=VALUE, got 'a'"),
        ("t.cache-from=ref=a/b", "expected a type"),
        ("t.cache-from=type=,ref=a", "expected a type"),
        ('t.cache-to=type=local,dest="a,b"', "quote a whole field"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([text])
    assert reason in caught.value.details[0]


def test_every_problem_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse(["x", "A=1", "t.q=1"])
    assert len(caught.value.details) == 2


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        said = parse([text])
    except UsageError:
        return
    assert len(said.variables) + len(said.overrides) == 1


@given(st.sampled_from(["*", "dev-*"]), st.sampled_from(["args.A", "labels.a.b", "tags"]), st.text("ab=.+ ${}"))
def test_an_override_is_written_as_it_was_said(pattern: str, key: str, value: str) -> None:
    text = f"{pattern}.{key}={value}"
    assert [str(item) for item in parse([text]).overrides] == [text]


def apply(attributes: dict[str, Json], *texts: str) -> dict[str, Json]:
    return overridden(attributes, "wheel-cp311", parse(texts).overrides)


def test_lists() -> None:
    tags: dict[str, Json] = {"tags": ["a"]}
    assert apply(tags, "*.tags=b", "*.tags=c") == {"tags": ["b", "c"]}
    assert apply(tags, "*.tags+=b", "*.tags+=a") == {"tags": ["a", "b"]}
    assert apply(tags, "*.tags=b", "*.tags+=c") == {"tags": ["a", "b", "c"]}
    assert apply(tags, "*.tags=") == {}
    assert apply({}, "*.cache-from=a/b,c/d") == {
        "cache-from": [{"type": "registry", "ref": "a/b"}, {"type": "registry", "ref": "c/d"}]
    }
    assert apply({}, '*.cache-to=type=local,"dest=a,b"') == {"cache-to": [{"type": "local", "dest": "a,b"}]}


def test_maps_and_flags() -> None:
    assert apply({"labels": {"a": "1"}}, "*.labels.b.c=2") == {"labels": {"a": "1", "b.c": "2"}}
    assert apply({}, "*.contexts.a=b", "*.contexts.a=") == {}
    assert apply({}, "*.no-cache=true", "*.pull=false", "*.shm-size=1g") == {
        "no-cache": True,
        "pull": False,
        "shm-size": "1g",
    }
    assert apply({"a": 1}, "test-*.no-cache=true") == {"a": 1}


def test_what_a_target_inherits() -> None:
    parent: dict[str, Json] = {"args": {"A": "1", "B": "1"}, "cache-from": ["x"], "tags": ["x"]}
    child: dict[str, Json] = {"args": {"B": "2"}, "cache-from": ["y", "x"], "tags": ["y"]}
    assert merged(parent, child) == {"args": {"A": "1", "B": "2"}, "cache-from": ["x", "y"], "tags": ["y"]}
