"""Only the modules of `OWNERS` parse JSON, TOML and setup.cfg's format, and talk to servers; nothing is read without a limit.

They limit bytes, values, nesting and seconds: `json_of`, `read_json`, `ini_of`, `read_plain`, `Inside.read`, `fetch`,
`open_url`, `toml_file.table` and `child.run`. Data of Bakery's own package may be parsed anywhere. A file in `ALLOWED`
has the names beside it, for the reason there. ``read_text`` and ``read_bytes`` are those of test_paths_of_strangers.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from own_sources import PROGRAMS, all_trees, nodes, trees

PARSERS = {f"{module}.{name}" for module in ("json", "tomllib", "pickle", "marshal") for name in ("load", "loads")}
PARSERS |= {"json.JSONDecoder", "ast.literal_eval", "pickle.Unpickler"}
ENDS = {name.rpartition(".")[2] for name in PARSERS}
MODULES = {
    *("configparser", "plistlib", "shelve", "xml", "html.parser", "yaml"),
    *("urllib.request", "http.client", "socket", "ftplib", "requests", "httpx", "urllib3"),
}
"""Modules that parse or connect without limits."""

SERVERS = {
    "urlopen", "urlretrieve", "build_opener", "OpenerDirector", "create_connection", "HTTPConnection",
    "HTTPSConnection",
}  # fmt: skip
READS = {"read", "readline", "readlines", "communicate", "recv"}
MODELS = {"model_validate_json", "validate_json"}
BOUNDED = {"read_plain", "inside.read"}
OPENS = {"open", "open_plain", "open_url"}
ARCHIVES = ("tarfile.", "zipfile.")

OWNERS = ("wheel_audit/readers.py", "core/connections.py", "core/child.py", "recipe/toml_file.py")

ALLOWED: dict[str, tuple[set[str], str]] = {
    "wheel_audit/archive.py": ({"copy.read"}, "a member whose size was compared with its limit"),
    "wheel_audit/expected_file.py": ({"tomllib.loads"}, "a file that the user names, of at most 1 MB"),
    "wheel_audit/tools.py": ({"capture_output"}, "tools with the limits of the audit's process"),
    "wheel_audit/worker.py": ({"pickle", "pickle.load"}, "what Bakery's own process writes"),
    "runs/stores.py": ({"http.client"}, "names of answers; it connects with `http_connection`"),
    "engine/client.py": ({"capture_output"}, "the docker client, which has seconds"),
    "engine/package_index.py": ({"urllib.request"}, "makes requests for `fetch`"),
    "engine/private_engine.py": ({"http.client", "socket", "HTTPConnection"}, "the socket of Bakery's own engine"),
    "bakery_iree/job/load.py": ({"json.loads"}, "a job: it counts entries and levels, and keeps the lines"),
    "bakery_iree/npy.py": ({"ast.literal_eval"}, "a header of a limited size"),
    "bakery_iree/vmfb.py": ({"file.read"}, "a file whose size was compared with its limit"),
    "recipe/toml_positions.py": ({"tomllib.loads"}, "one key or number, whose length and depth were counted"),
    "release/index/fetch.py": ({"urllib.request"}, "makes requests for `fetch` and `open_url`"),
    "toolchains/facts/pin_images.py": ({"tomllib.loads"}, "`make pins` of a maintainer"),
}


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for item in node.names:
            yield from (name for name in MODULES | {"pickle", "marshal"} if f"{item.name}.".startswith(f"{name}."))
            if item.asname and any(parser.startswith(f"{item.name}.") for parser in PARSERS):
                yield f"{item.name} as {item.asname}"
    elif isinstance(node, ast.ImportFrom):
        for item in node.names:
            full = f"{node.module}.{item.name}"
            # An exception reads nothing.
            is_error = item.name.endswith(("Error", "Exception"))
            yield from (name for name in MODULES if f"{full}.".startswith(f"{name}.") and not is_error)
            if full in PARSERS or item.name in SERVERS:
                yield full


def last_name(node: ast.AST) -> str:
    """Return ``c`` of ``a.b.c``, or nothing of what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_own(call: ast.Call) -> bool:
    """Whether a call parses a file of Bakery's package."""
    return any(word in ast.unparse(item) for item in call.args for word in ("__file__", "files(__package__)"))


def is_unbounded(call: ast.Call) -> bool:
    """Whether a call reads all that there is."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in READS:
        return False
    # A reader of Bakery's own may be called so, and takes no number: `_Reader(…).read()`.
    return not isinstance(call.func.value, ast.Call) and (
        not call.args or (isinstance(call.args[0], ast.UnaryOp) and isinstance(call.args[0].op, ast.USub))
    )


def without_limits(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each call, import and loop that reads or parses without a limit."""
    found = nodes(tree)
    own = {
        id(call.func) for call in found if isinstance(call, ast.Call) and last_name(call.func) in ENDS and is_own(call)
    }
    opened = {
        item.optional_vars.id
        for node in found
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and isinstance(item.context_expr, ast.Call)
        and ast.unparse(item.context_expr.func).rpartition(".")[2] in OPENS
        and not ast.unparse(item.context_expr.func).startswith(ARCHIVES)
    }  # fmt: skip
    for node in found:
        yield from imported(node)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ENDS
            and id(node) not in own
            and ast.unparse(node) in PARSERS
        ):
            yield ast.unparse(node)
        if last_name(node) in SERVERS:
            yield last_name(node)
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Name) and node.iter.id in opened:
            yield f"lines of {node.iter.id}"
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if is_unbounded(node):
                yield ast.unparse(node.func)
            if name in MODELS and not ast.unparse(node.args[0]).startswith(tuple(f"{one}(" for one in BOUNDED)):
                yield ast.unparse(node.func)
            yield from (word.arg for word in node.keywords if word.arg == "capture_output")


def test_nothing_is_read_around_the_readers() -> None:
    found = {
        name: set(without_limits(tree)) - ALLOWED.get(name, (set(), ""))[0]
        for name, tree in trees().items()
        if name not in OWNERS
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_no_exception_is_left_over() -> None:
    left = {name: names - set(without_limits(trees()[name])) for name, (names, reason) in ALLOWED.items() if reason}
    assert {name: names for name, names in left.items() if names} == {}
    assert len(left) == len(ALLOWED)


def test_programs_in_images_download_by_their_own_function() -> None:
    names = {"http.client", "socket", *SERVERS}
    programs = {name: tree for name, tree in all_trees().items() if name.startswith(PROGRAMS)}
    found = {name for name, tree in programs.items() if names & set(without_limits(tree))}
    assert found == {"toolchains/programs/packages/download.py"}


@pytest.mark.parametrize(
    "text",
    [
        "json.loads(text)", "json.load(file)", "map(json.loads, rows)", "from json import loads", "import json as j",
        "tomllib.loads(path.read_text())", "tomllib.load(file)", "import configparser", "from configparser import RawConfigParser",
        "urllib.request.urlopen(address)", "from urllib.request import urlopen", "from urllib import request",
        "import http.client", "from http import client", "from http.client import HTTPSConnection", "import socket",
        "from html.parser import HTMLParser", "import xml.etree.ElementTree", "pickle.loads(data)", "json.JSONDecoder()",
        "reply.read()", "pipe.read(-1)", "file.readlines()", "process.communicate()", "file.readline()", "connection.recv()",
        "with open_plain(path) as file:\n    for line in file: pass", "with path.open() as f:\n    rows = [row for row in f]",
        "Model.model_validate_json(text)", "Model.model_validate_json(path.read_bytes())", "adapter.validate_json(text)",
        "subprocess.run(argv, capture_output=True)", "json.loads(files(package).read_text())",
    ],
)  # fmt: skip
def test_a_planted_one_is_found(text: str) -> None:
    assert set(without_limits(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "json.dumps(value)", "json_of(text)", "ini_of(text)", "reply.read(1 << 20)", "fetch(request, most=1, seconds=1)",
        "tomllib.loads(Path(__file__).with_name('a.toml').read_text())", "inside.read(name, LARGEST)", "import urllib.parse",
        "tomllib.loads((files(__package__) / 'a.toml').read_text(encoding='utf-8'))", "from http.client import HTTPException",
        "Model.model_validate_json(read_plain(path, LARGEST))", "import json", "import urllib.error", "_Reader(text).read()",
    ],
)  # fmt: skip
def test_the_ways_of_the_readers_are_none(text: str) -> None:
    assert not set(without_limits(ast.parse(text)))
