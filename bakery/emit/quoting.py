"""Quoting and indenting of all generated files but workflows.

Every function takes plain text and returns text of the target language with exactly that meaning, for any characters. A
`Value` keeps its references: ``${NAME}`` in all three languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bakery.plan.values import Ref, Value

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+:,./=-]+\Z")
_DOCKERFILE_SAFE = re.compile(r"[A-Za-z0-9_@%+:,./=#-]+\Z")
_HCL_TEMPLATE = re.compile(r"[$%]+(?=\{)")
_HCL_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def hcl_string(text: str) -> str:
    """Return a quoted HCL template that means ``text`` literally."""
    return f'"{_hcl_inner(text)}"'


def hcl_value(value: Value) -> str:
    """Return the HCL expression of a value; a single reference becomes a bare name."""
    if len(value) == 1 and isinstance(value[0], Ref):
        return value[0].name
    return '"' + "".join(_hcl_literal(part) if isinstance(part, str) else f"${{{part.name}}}" for part in value) + '"'


def _hcl_literal(text: str) -> str:
    # A reference may follow: its `$` must not meet another.
    body = text.rstrip("$%")
    return _hcl_inner(body) + "".join(map(unicode_escape, text[len(body) :]))


def _hcl_inner(text: str) -> str:
    escaped = "".join(_HCL_ESCAPES.get(c) or (c if c.isprintable() or c == " " else unicode_escape(c)) for c in text)
    return _HCL_TEMPLATE.sub(_hcl_template, escaped)


def _hcl_template(match: re.Match[str]) -> str:
    # `${` and `%{` start templates; doubling is HCL's own escape. After another of these characters the
    # doubled ones could be read as another pair.
    run = match.group()
    return run * 2 if len(run) == 1 else "".join(map(unicode_escape, run))


def unicode_escape(char: str) -> str:
    """Return a character as HCL and YAML escape it."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def hcl_list(items: Iterable[str]) -> str:
    """Return an HCL list of strings on one line."""
    return "[" + ", ".join(hcl_string(item) for item in items) + "]"


def dockerfile_string(value: Value) -> str:
    """Return a double-quoted word for ``ARG`` and ``ENV``, where the Dockerfile itself expands ``${NAME}``."""
    parts = (re.sub(r'(["\\$])', r"\\\1", part) if isinstance(part, str) else f"${{{part.name}}}" for part in value)
    return '"' + "".join(parts) + '"'


def dockerfile_word(value: Value) -> str:
    """Return one word of an instruction that expands variables: bare where that is safe, else quoted."""
    bare = all(_DOCKERFILE_SAFE.match(part) for part in value if isinstance(part, str))
    text = dockerfile_string(value)
    return text[1:-1] if bare else text


def mount_option(fields: Iterable[tuple[str, str]]) -> str:
    """Return the ``--mount`` of a ``RUN``, quoted as a whole if a path has a space."""
    text = ",".join(f"{key}={value}" if value else key for key, value in fields)
    return f'--mount="{text}"' if " " in text else f"--mount={text}"


def shell_word(value: Value) -> str:
    """Return one word of a POSIX shell command: bare where that is safe, else quoted.

    References stay inside double quotes, so a value is never split, globbed or evaluated.
    """
    if all(isinstance(part, str) for part in value):
        text = "".join(part for part in value if isinstance(part, str))
        if "'" in text and not set(text) & set('"\\$`!'):
            return f'"{text}"'
        return text if _SHELL_SAFE.match(text) else "'" + text.replace("'", "'\"'\"'") + "'"
    inner = (re.sub(r'(["\\$`])', r"\\\1", part) if isinstance(part, str) else f"${{{part.name}}}" for part in value)
    return '"' + "".join(inner) + '"'


def comment(text: str) -> list[str]:
    """Return ``text`` as comment lines of HCL, Dockerfile or shell."""
    return [f"# {line}".rstrip() for line in text.splitlines()]


def heredoc_delimiter(text: str) -> str:
    """Return a heredoc delimiter that is no line of ``text``."""
    lines = set(text.splitlines())
    delimiter = "EOF"
    while delimiter in lines:
        delimiter += "_"
    return delimiter


def indent(lines: Iterable[str], by: int = 2) -> list[str]:
    """Return ``lines`` indented by ``by`` spaces; empty lines stay empty."""
    return [" " * by + line if line else line for line in lines]


def block(head: str, body: Iterable[str]) -> list[str]:
    """Return the lines of a block of HCL."""
    return [f"{head} {{", *indent(body), "}"]


def aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return ``key = value`` lines with aligned equals signs, as ``terraform fmt`` writes them."""
    rows = list(pairs)
    width = max((len(key) for key, _ in rows), default=0)
    return [f"{key:<{width}} = {value}" for key, value in rows]
