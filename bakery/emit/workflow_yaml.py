"""Renders workflows for GitHub Actions from their Jinja skeletons in ``templates`` folders.

A skeleton is the workflow with ``<%= value %>`` in the places of values, because GitHub itself uses braces. Every value is
written as YAML: text of a recipe cannot become structure, and text that GitHub would evaluate is refused unless it is an
`Expression`. Steps get text of recipes by ``env:`` only, never as part of a script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from bakery.core.errors import PlanError
from bakery.toolchains.facts import action

if TYPE_CHECKING:
    from jinja2 import Environment

PYTHON = "3.13"
"""The Python that runs bakery in workflows."""

_PLAIN = re.compile(r"(?:\.|(?:[./]*[A-Za-z]|_)[A-Za-z0-9_./+-]*|(?:[a-z]+-)?\$\{\{ [A-Za-z0-9._]+ \}\})\Z")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan")
_SPECIAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML forbids, or reads as the end of a line."""

_EVALUATED = "${{"


class Expression(str):
    """Text that GitHub evaluates. It never contains text of a recipe."""

    __slots__ = ()


class Yaml(str):
    """Text that is YAML already."""

    __slots__ = ()


def render(template: str, **values: object) -> str:
    """Return the text of a workflow.

    Args:
        template: the path of the skeleton in the package ``bakery``.

    Raises:
        PlanError: a value has text that GitHub would evaluate.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    # Imported here, because most commands write no workflow.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<%=",
        variable_end_string="%>",
        comment_start_string="<%#",
        comment_end_string="%>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_written,
        loader=PackageLoader("bakery", "."),
    )
    environment.filters.update(flow=_flow, comment=_comment)
    environment.globals.update(action=_action, python=PYTHON)
    return environment


def _written(value: object) -> str:
    if isinstance(value, Yaml):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _scalar(value)
    raise TypeError(f"{type(value).__name__} is no value of a workflow")


def _scalar(value: str) -> str:
    """Return text as YAML: plain if no reader takes it for anything else, otherwise in double quotes.

    Raises:
        PlanError: GitHub would evaluate the text, and it is no `Expression`.
    """
    if _EVALUATED in value and not isinstance(value, Expression):
        raise PlanError(
            f"{value[:200]!r} is not allowed in a workflow",
            hint=f"GitHub evaluates text after {_EVALUATED}: write the text without it",
        )
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    # JSON's strings are YAML's, except for characters that YAML wants escaped.
    return _SPECIAL.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _flow(values: Mapping[str, str] | Iterable[str]) -> Yaml:
    """Return a list or a mapping on one line."""
    if isinstance(values, Mapping):
        return Yaml("{ " + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + " }")
    return Yaml("[" + ", ".join(map(_scalar, values)) + "]")


def _comment(text: str) -> Yaml:
    """Return text for a comment: on one line."""
    return Yaml(re.sub(r"[\n\r]", _escaped, _SPECIAL.sub(_escaped, text)))


def _action(repository: str, folder: str = "") -> Yaml:
    """Return an action with the full hash of its pinned release; ``folder`` starts with a slash."""
    row = action(repository)
    return Yaml(f"{repository}{folder}@{row.commit} # {row.version}")
