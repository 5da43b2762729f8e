"""What strangers write comes out as text: on terminals, in logs of CI, in JSON, in Markdown, on the page of a run."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from own_sources import FILES, nodes, trees
from printed import is_text
from processes import linux_build
from rich.table import Column
from rich.text import Text

from bakery.cli import console
from bakery.cli.tables.run import markdown
from bakery.core.errors import BakeryError
from bakery.runs.buildx.rawjson import clean, decode
from bakery.runs.cibuildwheel import process
from bakery.runs.display import PlainDisplay, RawDisplay
from bakery.runs.kept_logs import lines
from bakery.runs.report_page import html
from wheel_audit.tables import plain_table
from wheel_audit.terminal import SafeConsole, shown
from wheel_audit.text import printable_json

STREAMS = ("cli/app.py", "cli/console.py", "cli/failures.py", "wheel_audit/command.py")
"""Modules that set up the standard streams."""

FORBIDDEN = {
    "print", "rich.print", "rich.get_console", "typer.echo", "typer.secho", "typer.prompt", "typer.confirm",
    "typer.progressbar", "click.echo", "click.secho", "Console", "Text.from_markup", "Text.from_ansi", "sys.stdout",
    "sys.stderr", "sys.__stdout__", "sys.__stderr__",
}  # fmt: skip
ALLOWED = {("cli/app.py", "typer.echo"), ("cli/console.py", "typer.prompt")}
"""The version, and questions, which the console cleans."""


def name_of(node: ast.AST) -> str:
    """Return ``a.b.c`` of an expression; empty for others."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{before}.{node.attr}" if isinstance(node, ast.Attribute) and (before := name_of(node.value)) else ""


def ways_around(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield what prints without `SafeConsole` and ``wheel_audit.terminal``."""
    if name in ("wheel_audit/terminal.py", "runs/debug_terminal.py"):
        # The second passes on a shell in a container that the user opened, whose terminal it is.
        return
    asked = {node.value for node in nodes(tree) if isinstance(node, ast.Attribute) and node.attr == "isatty"}
    for node in nodes(tree):
        used = name_of(node.func) if isinstance(node, ast.Call) else name_of(node)
        is_used = isinstance(node, ast.Call) or used.startswith("sys.")
        is_stream = used.startswith("sys.") and (name in STREAMS or node in asked)
        if is_used and used in FORBIDDEN and (name, used) not in ALLOWED and not is_stream:
            yield f"{name}:{node.lineno} uses {used}"  # type: ignore[attr-defined]
        # A file of the object itself is no console's.
        is_console = used.endswith(".file.write") and not used.startswith("self.file")
        if isinstance(node, ast.Call) and (used == "os.write" or is_console):
            yield f"{name}:{node.lineno} uses {used}"
        if isinstance(node, ast.keyword) and node.arg in ("markup", "emoji"):
            yield f"{name}:{node.value.lineno} sets {node.arg}"


def test_everything_is_printed_by_the_console() -> None:
    assert [way for name, tree in trees().items() for way in ways_around(name, tree)] == []


@pytest.mark.parametrize(
    "text",
    [
        "print('x')", "import rich\nrich.print(x)", "typer.echo(x)", "click.echo(x)", "sys.stdout.write(x)",
        "sys.stderr.buffer.write(x)", "say = sys.stdout", "os.write(1, x)", "out.file.write(x)",
        "Console(stderr=True)", "out.print(x, markup=True)", "Text.from_ansi(x)",
    ],
)  # fmt: skip
def test_a_way_around_is_found(text: str) -> None:
    assert list(ways_around("cli/logs.py", ast.parse(text)))


def test_the_exceptions_are_used() -> None:
    assert all(used in FILES[name].read_text() for name, used in ALLOWED)


HOSTILE = {
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;Y3VybCBldmls\x07",
    "link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "C1": "\x9b2J\x9d0;owned\x9c",
    "carriage return": "all good\rowned   ",
    "backspace": "evil\b\b\b\bgood",
    "right to left": "gnp.\u202etxt.exe\u2066x\u2069",
    "mark": "a\u200fb\u061cc\u200ed",
    "separators": "a\u2028b\u2029c\x85d",
    "tags": "a\U000e0041\U000e007f",
    "surrogate": "a\udc80b",
    "delete": "a\x7fb\x0eb\x0b\x0c\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("terminal", [True, False])
def test_the_console_prints_text(name: str, terminal: bool) -> None:
    text = HOSTILE[name]
    file = io.StringIO()
    safe = SafeConsole(file=file, force_terminal=terminal, color_system=None, width=300)
    table = plain_table(text, Column(text), title=text)
    table.add_row(text, Text(text))
    for thing in (text, Text(text), Text.assemble(text, (text, "bold")), table):
        safe.print(thing)
    safe.out(text)
    said = file.getvalue()
    assert is_text(said)
    assert text not in said


def test_markup_and_emoji_are_text() -> None:
    file = io.StringIO()
    safe = SafeConsole(file=file, force_terminal=True, color_system="truecolor", width=200)
    table = plain_table("x")
    table.add_row("[link=https://evil.example]here[/link] [blink]x[/blink] :warning:")
    safe.print("[link=https://evil.example]here[/link] [bold red]x[/] :warning:", table)
    said = file.getvalue()
    assert "\x1b]8" not in said
    assert said.count("[link=https://evil.example]here[/link]") == 2
    assert said.count(":warning:") == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_results_progress_and_json_are_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = HOSTILE[name]
    console.say(f"note: {text}\nforged: line")
    console.echo(f"{text}\nforged: line")
    said = capsys.readouterr()
    assert is_text(said.out)
    assert is_text(said.err)
    assert said.out.count("\n") == said.err.count("\n") == 1
    console.echo_text(f"a\n{text}\n")
    assert is_text(capsys.readouterr().out)
    console.echo_json({"text": text})
    said = capsys.readouterr()
    assert is_text(said.out)
    assert json.loads(said.out) == {"text": text}


COMMANDS = [
    "::set-output name=x::y", "  ::add-mask::secret", "\t::group::x", "x ##[add-path]/tmp/evil",
    "##vso[task.setvariable variable=x]y", "##teamcity[setParameter]", "first\n  ::stop-commands::x", "####[group]x",
]  # fmt: skip


@pytest.mark.parametrize("text", COMMANDS)
def test_a_runner_gets_no_command(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def commands(said: str) -> list[str]:
        # As actions/runner reads a line: ActionCommand.TryParseV2 and TryParse.
        return [line for line in said.splitlines() if line.lstrip().startswith("::") or "##[" in line or "##v" in line]

    for variable in ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    assert shown(text) == text
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file = io.StringIO()
    safe = SafeConsole(file=file, width=30)
    table = plain_table("x")
    table.add_row(text)
    safe.print(text, Text("  " + text), table, Text.assemble(("error: ", "bold"), text.replace("::", "\n::")))
    assert commands(file.getvalue()) == []
    raw = io.StringIO()
    RawDisplay(SafeConsole(file=raw)).line(json.dumps({"name": text}).encode(), ())
    assert "##" not in raw.getvalue()
    assert json.loads(raw.getvalue()) == {"name": text}


def test_own_commands_reach_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file = io.StringIO()
    display = PlainDisplay(SafeConsole(file=file), folds=True)
    display.finish()
    assert file.getvalue() == "::endgroup::\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_what_buildkit_tells_is_text(name: str) -> None:
    text = HOSTILE[name].replace("\udc80", "")
    document = {"vertexes": [{"digest": "d", "name": f"[a 1/2] ONBUILD {text}", "error": text}]}
    (vertex,) = decode(json.dumps(document).encode()).vertices
    assert is_text(vertex.name)
    assert is_text(vertex.error)
    assert is_text(decode(f"WARNING: {text}".encode()).text)
    assert is_text(clean(f"a {text}".encode()))
    # What is not base64 is shown as it is.
    assert decode(b'{"logs": [{"vertex": "d", "data": "abcde"}]}').logs[0].data == b"abcde"


@pytest.mark.parametrize("text", ['{"a": "\x7f\x9b\u202e\U000e0041"}', "[]", '"plain"'])
def test_json_of_others_stays_what_it_is(text: str) -> None:
    said = printable_json(text)
    assert is_text(said)
    assert json.loads(said) == json.loads(text)


def test_cibuildwheel_prints_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.stdout.buffer.write(b'\\x1b]52;c;x\\x07a\\xff\\rb\\n' + b'y' * 300000 + b'\\nend'); sys.exit(1)"
    monkeypatch.setattr(process, "command", lambda _: [sys.executable, "-c", program])
    said: list[str] = []
    ended = process.build(
        replace(linux_build(tmp_path), log=tmp_path / "l" / "x.log"), os.environ, said.append, process.Stop()
    )
    assert said[0] == "b"
    assert said[-1] == "end"
    assert max(map(len, said)) < 200_000
    assert all(map(is_text, said))
    assert is_text((tmp_path / "l" / "x.log").read_text())
    assert ended.failure.endswith("end")


@pytest.mark.parametrize("name", HOSTILE)
def test_the_summary_of_a_job_has_no_markup(name: str) -> None:
    from bakery.core.errors import BakeryError
    from tests.unit.runs.test_runs import CellFailure, report

    text = HOSTILE[name] + " <img src=https://evil.example/x> [a](https://evil.example) @org https://evil.example"
    said = markdown([report({"a": "done", "b": "failed"}, CellFailure("b", BakeryError(text)))])
    assert is_text(said)
    for part in ("<img", "[a", "](", "://", "@org"):
        assert not re.search(r"(?<!\\)" + re.escape(part), said), said


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the page's script")
def test_the_page_shows_text() -> None:
    hostile = "".join(HOSTILE.values()) + "</script>\n"
    row = {"name": hostile, "result": hostile, "about": hostile, "message": hostile, "details": [hostile]}
    plain = {"recipe": hostile, "run": hostile, "about": {hostile: hostile}, "results": [row], "failures": [row]}
    page = html({"text": hostile, "targets": [], "wheels": [{"warnings": [hostile]}], "seconds": 1, **plain})
    assert is_text(page.partition("<body>")[2].partition('<script type="application/json"')[0])
    start = page.rindex("<script>") + len("<script>")
    script = page[start : page.index("const main")]
    at = page.index('id="data">') + len('id="data">')
    held = page[at : page.index("</script>", at)]
    program = f"global.document = {{getElementById: () => ({{textContent: {json.dumps(held)}}})}};\n{script}\nconsole.log(JSON.stringify(data.text))"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    text = json.loads(done.stdout)
    assert is_text(text)
    assert "\\u{202e}" in text
    assert text.endswith("</script>\n")


def test_a_log_is_printed_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_bytes("".join(HOSTILE.values()).encode(errors="replace") + b"\xff\n")
    for line in lines(log):
        console.echo_text(line)
    assert is_text(capsys.readouterr().out)


COMMAND = re.compile(r"(?:wheel-bakery|chmod|chown|git config|docker run|`python|: --allow|--only) [^`;:,]*\Z")
HARMLESS = {"findings[0].rule.id", "problems[0].rule.id", "other", "platform", "stage.name", "failure.cell"}
"""Names of rules, platforms, stages and cells: no shell interprets them."""


def unquoted(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield what stands unquoted in a command that a user may copy."""
    for node in nodes(tree):
        text = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                is_quoted = value.startswith(("shlex.quote(", "shlex.join("))
                if COMMAND.search(text) and not is_quoted and value not in HARMLESS and part.conversion == -1:
                    yield f"{name}:{node.lineno} has {value} in a command"
                text += "{}"
            elif isinstance(part, ast.Constant):
                text += str(part.value)


def test_commands_to_copy_are_quoted() -> None:
    # Dockerfiles have commands of their own.
    code = {name: tree for name, tree in trees().items() if not name.startswith(("emit/", "toolchains/"))}
    assert [found for name, tree in code.items() for found in unquoted(name, tree)] == []


@pytest.mark.parametrize("text", ['f"next: wheel-bakery -C {folder} wheel"', 'f"run `chmod u+r {path}`"'])
def test_an_unquoted_command_is_found(text: str) -> None:
    assert list(unquoted("x.py", ast.parse(text)))


def test_an_error_is_not_endless() -> None:
    """The status line of a store was repeated: 64 KiB, each byte as four."""
    error = BakeryError("a" * 10**6, subject="b", hint="c" * 10**6, details=["d" * 10**6])
    assert max(map(len, (error.message, str(error), error.reason, error.hint, *error.details))) < 11_000


def test_a_name_with_line_breaks_forges_no_line() -> None:
    error = BakeryError("cannot read a\nerror: forged", subject="b\nc", hint="d\ne", details=["one\ntwo"])
    assert "\n" not in error.message + error.reason + error.hint
    assert error.details == ("one\ntwo",)
