"""The passwords and tokens in the configuration of pip, cargo and docker: what a build is given, and no log may show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bakery.core.addresses import credentials_in
from bakery.engine.package_index import Index
from bakery.recipe.toml_file import table
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import read_json

INDEX, CARGO, PROXY = "password of the package index", "token of cargo", "password of docker's proxy"
"""Their names in messages."""

_LARGEST = 1 << 20
_TOKENS = ("token", "secret-key")


def of_index(index: Index) -> bytes:
    """Return the passwords in the addresses of the package index, one in a line; empty for none."""
    return _lines(part for text in index.settings.values() for part in credentials_in(text))


def of_cargo(config: Path | None) -> bytes:
    """Return the tokens and passwords in a configuration of cargo, one in a line; the whole file if it is no TOML."""
    if config is None:
        return b""
    try:
        data = read_plain(config, _LARGEST, follow=True)
    except OSError:
        return b""
    try:
        return _lines(_in_table(table(data.decode())))
    except ValueError:
        return data


def of_docker(environ: Mapping[str, str]) -> bytes:
    """Return the passwords of the proxies in the configuration of docker, which gives them to every step."""
    folder = environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/"), ".docker")
    try:
        document = read_json(Path(folder, "config.json"), _LARGEST, follow=True)
    except (OSError, ValueError):
        return b""
    return _lines(_in_table(document.get("proxies") if isinstance(document, dict) else None))


def _in_table(document: object) -> Iterator[str]:
    stack: list[tuple[str, object]] = [("", document)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            stack += value.items()
        elif isinstance(value, list):
            stack += [("", item) for item in value]
        elif isinstance(value, str):
            yield from [value] if key in _TOKENS else credentials_in(value)


def _lines(texts: Iterable[str]) -> bytes:
    return "\n".join(dict.fromkeys(texts)).encode(errors="surrogateescape")
