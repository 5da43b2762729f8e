"""Secrets: where they may come from, who is told, and that nothing else tells them."""

from __future__ import annotations

import base64
import html
import itertools
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import time
import urllib.parse
import zipfile
from collections.abc import Callable
from pathlib import Path

import plans
import pytest

from bakery.core.dockerignore import Ignore
from bakery.core.errors import RecipeError, UsageError
from bakery.core.target_kinds import Kind, Phase
from bakery.plan.delivery import Secret
from bakery.plan.dockerfile import Mount, Run
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.runs.buildx.entitlements import Grants
from bakery.runs.secrets import read
from bakery.runs.secrets.mask import HELD, Mask, MaskedStream
from bakery.runs.secrets.read import LARGEST, private_files, read_secrets

VALUE = b's3cr"et/+ \xc3\xa9-value'


def planned(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Plan:
    return plans.written(tmp_path, f'name = "one"\n{text}', environ=environ)


def mounts(plan: Plan, stage: str) -> list[Mount]:
    (found,) = (item for item in plan.stages if item.name == stage)
    return [
        m for step in found.steps if isinstance(step, Run) for m in step.mounts if m.type == "secret" and m.required
    ]


TELL = '[secrets.key]\nenv = "KEY"\nsteps = ["{}"]\n'


@pytest.mark.parametrize(
    ("step", "more", "stages"),
    [
        ("fetch", 'source = "sdist:ujson==5.12.0"', {"fetch"}),
        (
            "requirements",
            "",
            {"requirements", "backend", "backend-requirements", "test-requirements", "test-env", "one-test"},
        ),
        ("compile", "", {"compile", "compile-again"}),
        ("native", '[native]\ncommand = "make"\ninto = "lib"', {"native", "native-again"}),
        ("test", '[test]\ncommand = "pytest"', {"one-test"}),
    ],
)
def test_only_the_named_steps_are_told(tmp_path: Path, step: str, more: str, stages: set[str]) -> None:
    plan = planned(tmp_path, f"{more}\n{TELL.format(step)}")
    assert {stage.name for stage in plan.stages if mounts(plan, stage.name)} == stages
    for stage in stages:
        assert {(m.id, m.env) for m in mounts(plan, stage)} == {("key", "")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TELL.format("fetch"), "nothing is fetched"),
        ('source = "git+https://h/a.git@v1"\n' + TELL.format("fetch"), "with GIT_AUTH_TOKEN"),
        (TELL.format("native"), "there is no native step"),
        (TELL.format("test"), "the test has no command"),
        (TELL.format("everywhere"), "expected one of fetch, requirements, native, compile, test"),
        ('[secrets.key]\nsteps = ["compile"]\n', "exactly one of env, file and command"),
        ('[secrets.key]\nenv = "A"\nfile = "b"\nsteps = ["compile"]\n', "exactly one of env, file and command"),
        ('[secrets.key]\nenv = "A"\nsteps = []\n', "at least one"),
        ('[secrets.key]\ncommand = []\nsteps = ["compile"]\n', "a program and its arguments"),
        ('[secrets.key]\ncommand = "pass show x"\nsteps = ["compile"]\n', "expected a list"),
        ('[secrets.key]\nfile = "${PYTHON_VERSION}"\nsteps = ["compile"]\n', "no ${NAME}"),
        ('[secrets.pip-conf]\nenv = "A"\nsteps = ["compile"]\n', "Bakery uses it"),
        ('[secrets."a b"]\nenv = "A"\nsteps = ["compile"]\n', "a secret's name"),
        (
            '[secrets.a-b]\nenv = "A"\nsteps = ["compile"]\n[secrets.a_b]\nenv = "A"\nsteps = ["compile"]\n',
            "rename one",
        ),
        ('variables = { KEY = "1" }\n' + TELL.format("compile"), "hides the one of the environment"),
        ('variables = { SECRET_X = "1" }\n', "this name is taken"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        planned(tmp_path, text)
    assert said in "\n".join(caught.value.details)


def test_a_file_that_is_a_secret_is_not_sent_with_the_source(tmp_path: Path) -> None:
    for file in ("a[1]*.key", "#x", "!x", "../outside", "sub/key"):
        plan = planned(tmp_path, f"[secrets.key]\nfile = '{file}'\nsteps = ['compile']\n")
        assert Ignore(plan.ignore).ignores(file) is not file.startswith("..")
        assert not Ignore(plan.ignore).ignores("a1x.key")


def test_a_git_source_is_fetched_with_buildkits_own_secret(tmp_path: Path) -> None:
    text = TELL.format("fetch").replace("secrets.key", "secrets.GIT_AUTH_TOKEN")
    plan = planned(tmp_path, f'source = "git+https://h/a.git@v1"\n{text}')
    assert not [stage for stage in plan.stages if mounts(plan, stage.name)]


def test_targets_ask_for_what_their_steps_are_told(tmp_path: Path) -> None:
    texts = [TELL.format(step).replace("key", step) for step in ("requirements", "compile", "test")]
    plan = planned(tmp_path, '[test]\ncommand = "pytest"\n' + "".join(texts))
    names = {
        kind: [item.name for item in plan.secrets_for([kind])] for kind in Kind if kind not in (Kind.IMAGE, Kind.OTHER)
    }
    assert names == {
        Kind.DEV: ["requirements"],
        Kind.WHEEL: ["requirements", "compile"],
        Kind.TEST: ["requirements", "compile", "test"],
        Kind.MATERIALS: ["requirements"],
        Kind.COMPILER_CACHE: ["requirements"],
    }


def test_a_recipe_in_a_folder_names_files_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text('[workspace]\nrecipes = ["sub"]\n')
    (tmp_path / "sub").mkdir()
    text = 'name = "one"\n[secrets.key]\nfile = "../sub/./key"\nsteps = ["compile"]\n'
    (tmp_path / "sub" / "bakery.toml").write_text(text)
    (item,) = load(None, tmp_path)
    assert [secret.file for secret in resolve(item).secrets] == ["sub/key"]


def test_network_is_what_the_recipe_asks_for(tmp_path: Path) -> None:
    text = '[native]\ncommand = "make"\ninto = "lib"\nnetwork = {n}\n[builder]\nnetwork = {n}\n[test]\ncommand = "x"\nnetwork = {n}\n'
    assert planned(tmp_path, text.format(n="true")).network == (Phase.NATIVE, Phase.COMPILE, Phase.TEST)
    plan = planned(tmp_path, text.format(n="false"))
    assert plan.network == ()
    runs = {stage.name: [s for s in stage.steps if isinstance(s, Run)] for stage in plan.stages}
    assert not any(run.network for name in ("native", "compile", "repair") for run in runs[name])
    assert not runs["one-test"][-1].network


# --- grants ---------------------------------------------------------------------------------------


def test_what_leaves_the_project_needs_a_grant(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    root.mkdir()
    (root / "link").symlink_to(outside)
    wants = ["fs.read=inside", "fs.read=link/key", "fs.read=../outside/a b", "secret.command=key", "fs.write=link"]
    with pytest.raises(UsageError) as caught:
        Grants().require(wants, root)
    assert caught.value.details == (
        f"--allow fs.read={outside}/key",
        f"--allow 'fs.read={outside}/a b'",
        "--allow secret.command=key",
        f"--allow fs.write={outside}",
    )
    said = [f"fs.read={outside}", "secret.command=key", f"fs.write={outside}"]
    Grants.parse(said).require(wants, root)
    with pytest.raises(UsageError):
        Grants.parse([f"fs.read={outside}", "secret.command=key"]).require(wants, root)
    with pytest.raises(UsageError):
        Grants.parse([f"fs.read={tmp_path / 'out'}"]).require(["fs.read=../outside/a"], root)


def test_grants_that_say_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'network\.host', 'fs\.read='"):
        Grants.parse(["network.host", "fs.read="])


def test_a_recipe_s_wishes_are_told_apart_from_a_person_s(tmp_path: Path) -> None:
    text = '[cache]\nbackend = "local"\ndirectory = "/var/cache/x"\n[output]\ndirectory = "/srv/wheels"\n'
    assert planned(tmp_path, text).required_grants == ("fs.write=/var/cache/x", "fs.write=/srv/wheels")
    assert planned(tmp_path, text, {"BAKERY_CACHE_DIR": "/mine"}).required_grants == ("fs.write=/srv/wheels",)


@pytest.mark.parametrize(
    ("table", "environ", "asked"),
    [
        ('backend = "gha"', {}, ()),
        ('backend = "registry"\nref = "r.example/c"', {}, ("cache=r.example/c",)),
        ('backend = "registry"\nref = "r.example/c"', {"BAKERY_CACHE_REF": "mine.example/c"}, ()),
        ('backend = "registry"\nref = "r.example/c"', {"BAKERY_CACHE": "none"}, ()),
        ('ref = "r.example/c"', {"BAKERY_CACHE": "registry"}, ("cache=r.example/c",)),
        ('backend = "local"', {}, ("cache=.bakery/cache",)),
        ('backend = "local"', {"BAKERY_CACHE_DIR": ".bakery/cache"}, ()),
        ('backend = "s3"\ns3 = { bucket = "b", region = "r" }', {}, ("cache=s3://b",)),
        (
            'backend = "s3"\ns3 = { bucket = "b", region = "r", endpoint = "https://s3.example" }',
            {"BAKERY_CACHE_REF": "x"},
            ("cache=https://s3.example/b",),
        ),
    ],
)
def test_a_person_allows_the_layer_cache_that_a_recipe_names(
    tmp_path: Path, table: str, environ: dict[str, str], asked: tuple[str, ...]
) -> None:
    """Whoever writes a layer cache decides what steps made, for all builds of the engine."""
    plan = planned(tmp_path, f"[cache]\n{table}\n", environ)
    assert plan.required_grants == asked
    Grants.parse(asked).require(plan.requested_grants, tmp_path)
    if asked:
        with pytest.raises(UsageError) as caught:
            Grants.parse(["cache=other"]).require(plan.requested_grants, tmp_path)
        assert caught.value.details == tuple(f"--allow {want}" for want in asked)


# --- reading --------------------------------------------------------------------------------------


def a(name: str = "key", *, env: str = "", file: str = "", command: tuple[str, ...] = (), variable: str = "") -> Secret:
    return Secret(name, env, file, command, (Phase.COMPILE,), variable)


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def test_each_kind_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(VALUE + b"\n")
    wanted = [a("one", env="ONE"), a("two", file="key"), a("three", command=python("print('printed'); print('x')"))]
    with read_secrets(wanted, wanted, tmp_path, {"ONE": "1" * 8}) as told:
        files = {name: Path(path) for name, path in told.variables.items()}
        assert set(files) == {"SECRET_TWO", "SECRET_THREE"}
        assert files["SECRET_TWO"].read_bytes() == VALUE + b"\n"
        assert files["SECRET_THREE"].read_bytes() == b"printed\nx"
        assert told.mask.hide(b"11111111 " + VALUE) == b"*** ***"
    assert not any(path.exists() for path in files.values())


def test_what_no_target_needs_is_not_read(tmp_path: Path) -> None:
    with read_secrets([a(command=python("open('ran', 'w')")), a("b", env="NOT_SET")], [], tmp_path, {}) as told:
        assert told.variables == {"SECRET_KEY": ""}
    assert not (tmp_path / "ran").exists()


def test_all_that_is_missing_is_told_at_once_and_no_value_is(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"x" * (LARGEST + 1))
    (tmp_path / "nul").write_bytes(b"a\0b")
    os.mkfifo(tmp_path / "pipe")
    wanted = [
        a("a", env="NOT_SET"),
        a("b", env="EMPTY"),
        a("c", file="missing"),
        a("d", file="empty"),
        a("e", file="large"),
        a("f", file="."),
        a("g", file="pipe"),
        a("h", file="nul", variable="NUL"),
        a("i", command=("no-such-program-anywhere",)),
        a("j", command=python("import sys; print('leaked', file=sys.stderr); print('leaked'); sys.exit(3)")),
        a("k", command=python("pass")),
        a("l", command=python("while True: print('x' * 1000)")),
    ]
    with pytest.raises(UsageError) as caught, read_secrets(wanted, wanted, tmp_path, {"EMPTY": ""}):
        pass
    said = [line.partition(": ")[2] for line in caught.value.details]
    assert said == [
        "the variable is not set", "the variable is empty", "cannot be read: No such file or directory",
        "the file is empty", "more than 500 kB, which is the limit of BuildKit", "cannot be read: Is a directory",
        "not a regular file", "it contains a NUL byte, which no environment variable can have",
        "cannot be run: No such file or directory", "it ended with exit code 3; run it by hand to see why",
        "it printed nothing", "more than 500 kB, which is the limit of BuildKit",
    ]  # fmt: skip


def test_a_command_has_a_time_limit_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "COMMAND_TIMEOUT_S", 1)
    wanted = [a(command=("sh", "-c", "echo $$ > pid; sleep 300 & sleep 300"))]
    with pytest.raises(UsageError) as caught, read_secrets(wanted, wanted, tmp_path, dict(os.environ)):
        pass
    assert "not done within 1 s" in caught.value.details[0]
    group = (tmp_path / "pid").read_text().strip()
    limit = time.monotonic() + 30
    # On a busy machine, a killed process gets its turn to end later.
    while _is_alive(group):
        assert time.monotonic() < limit


def _is_alive(group: str) -> bool:
    """Whether a process of a group runs; what its parent has not taken note of yet is dead all the same."""
    table = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(row[0] == group and not row[1].startswith("Z") for row in map(str.split, table.splitlines()))


def test_no_shell_reads_a_command(tmp_path: Path) -> None:
    words = ("$(touch ran)", "; touch ran", "*", "a b")
    wanted = [a(command=(*python("import sys; print(sys.argv[1:])"), *words))]
    with read_secrets(wanted, wanted, tmp_path, {}) as told:
        assert Path(told.variables["SECRET_KEY"]).read_text() == str(list(words))
    assert list(tmp_path.iterdir()) == []


def test_private_files_are_for_this_user_and_end_with_the_process(tmp_path: Path) -> None:
    with private_files({"a": VALUE}) as files:
        assert stat.S_IMODE(files["a"].stat().st_mode) == 0o600
        assert files["a"].read_bytes() == VALUE == files["a"].read_bytes()
    text = (
        "import os, sys; from bakery.runs.secrets.read import private_files\n"
        "with private_files({'a': b'x'}) as files: print(files['a'], flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    assert not Path(done.stdout.strip()).exists()


# --- masking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_forms_of_a_value_are_hidden(before: int, after: int) -> None:
    mask = Mask({"key": VALUE})
    text = VALUE.decode()
    around = b"a" * before + VALUE + b"z" * after
    forms = [
        around,
        base64.b64encode(around),
        base64.urlsafe_b64encode(around),
        urllib.parse.quote(text, safe="").encode(),
        urllib.parse.quote(text).encode(),
        json.dumps(text).encode(),
        json.dumps(text, ensure_ascii=False).encode(),
    ]
    for form in forms:
        assert b"***" in mask.hide(form), form
    assert mask.names_in(forms[1]) == {"key"}


def test_every_line_of_a_key_is_hidden_and_nothing_short_is() -> None:
    lines = [b"-----BEGIN KEY-----", *(os.urandom(30).hex().encode() for _ in range(9)), b"ab", b"-----END KEY-----"]
    value = b"\n".join(lines) + b"\n"
    mask = Mask({"key": value})
    shown = mask.hide(b"\n".join([b"> " + line for line in lines])).splitlines()
    assert [line for line in shown if line != b"> ***"] == [b"> ab"]
    wrapped = subprocess.run(["base64"], input=value, capture_output=True, check=True).stdout
    assert set(mask.hide(wrapped).split()) == {b"***"}
    assert not Mask({"a": b"123"})
    assert not Mask({})


ODD = 's3cr\'et/+ <&> "x" \\ $HOME `id` ~é-canary'
"""What each tool writes in its own way."""


def bash(script: str) -> bytes:
    """Return what bash prints; the value is its first argument."""
    done = subprocess.run(["bash", "-c", script, "bash", ODD], capture_output=True, check=True, env={"LC_ALL": "C"})
    return done.stdout + done.stderr


QUOTED = urllib.parse.quote(ODD, safe="")
WRITTEN = {
    "percent, lower case": re.sub("%..", lambda match: match[0].lower(), QUOTED),
    "a form": urllib.parse.quote_plus(ODD),
    "a form, lower case": re.sub("%..", lambda match: match[0].lower(), urllib.parse.quote_plus(ODD)),
    "encodeURIComponent": urllib.parse.quote(ODD, safe="!'()*"),
    "Go's JSON": json.dumps(ODD, ensure_ascii=False)
    .replace("<", r"\u003c")
    .replace(">", r"\u003e")
    .replace("&", r"\u0026"),
    "JSON in JSON": json.dumps(json.dumps(ODD)),
    "PHP's JSON": json.dumps(ODD).replace("/", r"\/"),
    "upper-case JSON": json.dumps(ODD).replace("00e9", "00E9"),
    "HTML": html.escape(ODD),
    "HTML without quotes": html.escape(ODD, quote=False),
    "Go's HTML": html.escape(ODD).replace("&quot;", "&#34;").replace("&#x27;", "&#39;").replace("+", "&#43;"),
    "XML": html.escape(ODD).replace("&#x27;", "&apos;"),
    "character references": html.escape(ODD).encode("ascii", "xmlcharrefreplace").decode(),
    "repr": repr(ODD),
    "repr of a list": repr([ODD, "'"]),
    "ascii": ascii(ODD),
    "repr of bytes": repr(ODD.encode()),
    "JSON in repr": repr(json.dumps({"a": ODD})),
    "Go's JSON in JSON": json.dumps(
        json.dumps(ODD).replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    ),
    "repr of repr": repr(repr(ODD)),
    "shlex": shlex.quote(ODD),
    "hex": ODD.encode().hex(),
    "HEX": ODD.encode().hex().upper(),
    "printf %q": bash('printf %q "$1"').decode(),
    "declare -p": bash("secret=$1; declare -p secret").decode(),
    "set -x": bash('set -x; : "$1"').decode(),
}


QUOTES: dict[str, Callable[[str], str]] = {
    "sh": shlex.quote,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "repr": repr,
    "ascii": ascii,
    "ksh": lambda text: "'" + text.replace("'", "'\\''") + "'",
    "double": lambda text: '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"',
    "CSV": lambda text: '"' + text.replace('"', '""') + '"',
}
INNER: dict[str, Callable[[str], str]] = {
    "itself": str,
    "percent": urllib.parse.quote,
    "HTML": html.escape,
    "JSON": lambda text: json.dumps(text)[1:-1],
}


@pytest.mark.parametrize("value", [ODD, "it's \"4\" o'clock", "'\"'\"'\"ab'\"'\"cd", "pässwörd'\"", "plain-secret"])
@pytest.mark.parametrize("inner", INNER)
def test_quotes_in_any_nesting_are_hidden(value: str, inner: str) -> None:
    mask = Mask({"key": value.encode()})
    for depth in (1, 2, 3):
        for nest in itertools.product(QUOTES, repeat=depth):
            text = INNER[inner](value)
            for quote in nest:
                text = QUOTES[quote](text)
            hidden = mask.hide(f"before {text} after".encode()).decode()
            assert re.fullmatch(r"before [\\'\"]*\*\*\*[\\'\"]* after", hidden), (nest, text, hidden)
            assert mask.names_in(text.encode()) == {"key"}


@pytest.mark.parametrize("form", WRITTEN)
def test_what_tools_make_of_a_value_is_hidden(form: str) -> None:
    hidden = Mask({"key": ODD.encode()}).hide(b"before " + WRITTEN[form].encode() + b" after\n")
    assert hidden.startswith(b"before ")
    assert b"***" in hidden
    for piece in ("s3cr", "canary", "HOME", b"canary".hex()):
        assert piece.encode() not in hidden.replace(b"canary".hex().upper().encode(), b"canary"), hidden


@pytest.mark.parametrize("width", [20, 60, 64, 76, 1000])
@pytest.mark.parametrize(
    "value",
    [os.urandom(20), os.urandom(200), b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(9))],
    ids=["short", "long", "lines"],
)
def test_base64_and_hexadecimal_text_is_hidden_wherever_its_lines_end(value: bytes, width: int) -> None:
    mask = Mask({"key": value})
    for before in (b"", b"u:", b"user:", b"x" * 55, b"x" * 70):
        for after in (b"", b"\n", b"@host and so on"):
            whole = before + value + after
            base = base64.b64encode(whole)
            for text in (base, base.translate(bytes.maketrans(b"+/", b"-_")), whole.hex().encode()):
                lines = [text[at : at + width] for at in range(0, len(text), width)]
                shown = mask.hide(b"\n".join(lines) + b"\n").replace(b"\n", b"").replace(b"***", b"")
                # Of the value itself at most what shares a character with a neighbour.
                assert len(shown) <= len(text) - len(value) * len(text) // len(whole) + 8, (before, after, lines)
    assert mask.hide(base64.b64encode(os.urandom(300))).count(b"***") == 0


def test_each_line_in_base64_is_hidden() -> None:
    lines = [os.urandom(size).hex().encode() for size in (2, 3, 6, 9, 30)]
    mask = Mask({"key": b"\n".join(lines)})
    for line in lines[2:]:
        for before in range(3):
            shown = mask.hide(base64.b64encode(b"u" * before + line + b"zz"))
            assert b"***" in shown
            assert len(shown) < 14


def test_what_is_common_is_no_part_of_a_value() -> None:
    mask = Mask({"key": b"first" + b" " * 40 + b"0" * 40 + b"last"})
    for data in (b" " * 30, b"0" * 30, b"\0" * 30):
        for text in (base64.b64encode(data), data.hex().encode()):
            assert mask.hide(text) == text


def test_two_secrets_that_overlap_leave_nothing() -> None:
    mask = Mask({"one": b"abcdefgh", "two": b"efghijkl"})
    assert mask.hide(b"<abcdefghijkl>") == b"<***>"
    assert mask.names_in(b"<abcdefghijkl>") == {"one", "two"}


@pytest.mark.parametrize(
    "value",
    [os.urandom(40).hex().encode(), base64.encodebytes(os.urandom(2300)), b"ab" * 2000],
    ids=["hexadecimal", "base64", "repeated"],
)
def test_the_time_grows_with_the_log_alone(value: bytes) -> None:
    mask = Mask({"key": value})
    line = b"[build] g++ -O3 -c /src/csrc/kernel.cu -o build/kernel.o " + os.urandom(24).hex().encode() + b"\n"
    worst = (b"ab" * 500 + b"\n") * 40 + base64.b64encode(b"x" + value) * 20
    began = time.process_time()
    assert mask.hide(line * 100_000) == line * 100_000
    mask.hide(worst)
    assert time.process_time() - began < 2


def log(vertex: str, data: bytes, stream: int = 1) -> bytes:
    entry = {"vertex": vertex, "stream": stream, "data": base64.b64encode(data).decode()}
    return json.dumps({"logs": [entry]}).encode() + b"\n"


def shown(lines: list[bytes]) -> bytes:
    documents = [json.loads(line) for line in lines]
    return b"".join(base64.b64decode(item["data"]) for document in documents for item in document.get("logs", ()))


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_a_secret_in_pieces_is_hidden(size: int) -> None:
    stream = MaskedStream(Mask({"key": VALUE}))
    text = b"one " + VALUE + b"\rtwo " + VALUE + b"\nthree\n" + VALUE
    out = [line for at in range(0, len(text), size) for line in stream.feed(log("v", text[at : at + size]))]
    out += list(stream.close())
    assert shown(out) == b"one ***\rtwo ***\nthree\n***"
    assert list(stream.printed) == ["key"]


def test_a_line_without_an_end_is_held_within_bounds() -> None:
    stream = MaskedStream(Mask({"key": VALUE}))
    out = []
    for _ in range(40):
        out += list(stream.feed(log("v", b"x" * (HELD // 4 - 5) + VALUE)))
        assert sum(map(len, stream._held.values())) <= 2 * HELD
    out += list(stream.close())
    assert shown(out).count(b"***") == 40
    assert VALUE not in shown(out)


def test_what_a_step_left_unfinished_comes_before_its_end() -> None:
    stream = MaskedStream(Mask({"key": VALUE}))
    assert shown(list(stream.feed(log("v", b"half")))) == b""
    ended = json.dumps({"vertexes": [{"digest": "v", "name": "RUN x", "completed": "2026-01-01T00:00:00Z"}]}).encode()
    first, second = stream.feed(ended)
    assert shown([first]) == b"half"
    assert json.loads(second) == json.loads(ended)


def test_names_errors_warnings_and_texts_are_hidden() -> None:
    value = "plain-value"
    stream = MaskedStream(Mask({"key": value.encode()}))
    encoded = base64.b64encode(f"a {value}".encode()).decode()
    document = {
        "vertexes": [{"digest": "v", "name": f"RUN {value}", "error": f"failed: {value}"}],
        "warnings": [{"vertex": "v", "short": encoded, "detail": [encoded], "url": "u"}],
    }
    (line,) = stream.feed(json.dumps(document).encode())
    found = json.loads(line)
    assert found["vertexes"] == [{"digest": "v", "name": "RUN ***", "error": "failed: ***"}]
    assert base64.b64decode(found["warnings"][0]["detail"][0]) == b"a ***"
    assert list(stream.feed(b"ERROR: plain-value\n")) == [b"ERROR: ***\n"]


def test_a_wheel_that_holds_a_secret_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_CHUNK", 10)
    with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("clean.py", b"x" * 1000 + VALUE[1:])
        archive.writestr("told.py", b"x" * 995 + VALUE)
        archive.writestr("encoded.py", b"x" * 995 + base64.b64encode(b"a" + VALUE))
    mask = Mask({"key": VALUE, "other": b"something else"})
    assert read.leaks(tmp_path / "a.whl", mask) == [
        "told.py contains the secret key",
        "encoded.py contains the secret key",
    ]
    assert read.leaks(tmp_path / "no such file", Mask({})) == []


def test_without_secrets_the_stream_is_as_it_was() -> None:
    stream = MaskedStream(Mask({}))
    assert list(stream.feed(b'{"logs": 1}\n')) == [b'{"logs": 1}\n']
