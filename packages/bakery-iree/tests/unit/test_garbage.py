"""300 inputs of `wheel-bakery compile` that are none: a clear error each, before anything is started or written."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sample import sampled

from bakery.cli.app import app
from bakery.cli.failures import failures
from bakery_iree.errors import ModuleError

COUNT = 300
MATMUL = (Path(__file__).parents[1] / "data" / "mlir" / "matmul.mlir").read_bytes()
TOUCH = "$(touch PWNED)`touch PWNED`;touch PWNED;${PWNED}"
NAMES = (
    *("x.mlir", "x y.mlir", "x'\"$`.mlir", "${x}.mlir", "x;rm -rf y.mlir", "%{x}.mlir", "x\u202e.mlir"),
    f"{TOUCH}.mlir".replace("/", ""),
)


def truncated(rng: random.Random) -> bytes:
    return MATMUL[: rng.randrange(len(MATMUL) - 3)]


def binary(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 2000))


def nested(rng: random.Random) -> bytes:
    return rng.choice([b"{", b"(", b"[", b"module {", b'"a"(', b"//{\n{"]) * rng.randrange(257, 100_000)


def huge(rng: random.Random) -> bytes:
    word = rng.choice([b"a", b"\n", b"func.func @f() ", b'"', b" ", b"\xf0\x9f\x8d\x9e", b"//", b"\0"])
    return word * (500_000 // len(word))


def without_function(rng: random.Random) -> bytes:
    return MATMUL.replace(b"func.func", rng.choice([b"func", b"", b"fnc.func", b"func.func private", b"func.func %"]))


def one_wrong(rng: random.Random) -> bytes:
    at = rng.randrange(len(MATMUL))
    return MATMUL[:at] + rng.choice([b"\xff", b'"', b"}", b")"]) + MATMUL[at:]


def endless(rng: random.Random) -> bytes:
    kind = b"1x" * rng.randrange(1, 10_000) + b"f32>" + rng.choice([b"", b"(", b") {", TOUCH.encode()])
    return b"module {\n  func.func @f(%a: tensor<" + kind


def other_encoding(rng: random.Random) -> bytes:
    return MATMUL.decode().encode(rng.choice(["utf-16", "utf-32", "cp037"]))


MODULES: tuple[Callable[[random.Random], bytes], ...] = (
    *(truncated, binary, nested, huge, without_function, one_wrong, endless, other_encoding),
)


def part_of_a_job(rng: random.Random) -> Any:
    """Return a job that asks for what no job may."""
    path = rng.choice(["../../etc/passwd", "/dev/zero", "/proc/self/mem", ".", "x\0y", "x\ny", "", "a" * 5000, TOUCH])
    name = rng.choice(["../x", "a/b", "-x", "a b", TOUCH, "x.y", "a" * 81, ""])
    good = {"input": "good.mlir"}
    wrong = rng.choice(
        [
            {"input": path},
            {**good, "name": name},
            {
                **good,
                "flags": [rng.choice(["-o=/etc/passwd", "--o=x", "--output-format=x", "$(touch PWNED)", "x.mlir"])],
            },
            {**good, "flags": [f"--iree-hal-target-backends={TOUCH}"]},
            {**good, "targets": [rng.choice([TOUCH, "cpu:../x", "cuda:sm_80,sm_86", "", "cpu:x86-64-v3 -o x"])]},
            {**good, "checks": [{"function": rng.choice([TOUCH, "nothing"]), "inputs": [], "expected": []}]},
            {**good, TOUCH: 1},
            rng.choice([None, 1, "x", [], {}]),
        ]
    )
    # One that is right beside it: what is wrong with a job ends all of it.
    return {"version": 1, "targets": ["metal"], "modules": [wrong] if wrong == {"input": path} else [good, wrong]}


def job(rng: random.Random) -> bytes:
    text = json.dumps(part_of_a_job(rng)).encode()
    deep = b'{"version": 1, "modules": ' + b"[" * rng.randrange(1000, 200_000)
    return rng.choice([text, text, text, text[: rng.randrange(len(text))], rng.randbytes(100), deep, b"\0" * 1000])


class Watch:
    """Records what a process does to the world outside of it, while it is on. Hooks stay for ever; this one sleeps."""

    STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile")
    CHANGES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "os.truncate")

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        if event in (*self.STARTS, *self.CHANGES) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.seen.append(f"{event} {arguments!r}")


WATCH = Watch()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Watch]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    WATCH.seen.clear()
    WATCH.on = True
    yield WATCH
    WATCH.on = False


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command, which must end as one that was given no module; return what it says."""
    with pytest.raises(SystemExit) as ended, failures():
        # What is let through is shown, and nothing else: no engine is asked.
        app(["compile", "--plan", *words])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (ModuleError.exit_code, ""), told.err
    assert "Traceback" not in told.err
    return told.err


def test_the_watch_sees(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    assert [item.split()[0] for item in watch.seen] == ["open", "os.mkdir"]


@pytest.mark.parametrize("part", sampled(range(10), 10))
def test_garbage_is_refused_before_anything_happens(
    part: int, watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(part * COUNT // 10, (part + 1) * COUNT // 10):
        rng = random.Random(number)
        is_job = number % 3 == 0
        name = "job.json" if is_job else NAMES[number % len(NAMES)]
        content = job(rng) if is_job else MODULES[number % len(MODULES)](rng)
        watch.on = False
        (tmp_path / "good.mlir").write_bytes(MATMUL)
        (tmp_path / name).write_bytes(content)
        before = sorted(tmp_path.rglob("*"))
        watch.on = True
        said = refused(capsys, name, *(() if is_job else ("--target", "metal")))
        watch.on = False
        assert "".join((name if name.isprintable() else "x").split()) in "".join(said.split()), (number, said)
        assert len(said) < 20_000
        assert watch.seen == [], number
        assert sorted(tmp_path.rglob("*")) == before
        (tmp_path / name).unlink()


@pytest.mark.parametrize("path", ["../../etc/passwd", "/dev/zero", "/proc/self/mem", ".", "a" * 5000, "x\ny", ""])
def test_paths_that_are_no_modules(path: str, watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, path, "--target", "metal").startswith("module: ")
    assert watch.seen == []
