"""The messages of tools in the output of failed builds; the files have what real tools printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.runs.buildx.failures import excerpt, same_cause

DATA = Path(__file__).parents[2] / "data" / "tool_errors"
MOST = 15


def lines(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("gcc-setuptools", "src/a.c:2:22: error: ‘missing_thing’ undeclared", "issignaling"),
        ("gcc-ninja", "/src/cn/a.cpp:2:18: error: ‘missing_thing’ was not declared", "^~~~~~~~~~~"),
        ("clang", "a.cpp:1:18: error: use of undeclared identifier 'missing_thing'", "^"),
        ("nvcc", 'k.cu(1): error: identifier "missing_thing" is undefined', "^"),
        ("cmake", "CMake Error at CMakeLists.txt:3 (find_package):", "MissingThingConfig.cmake"),
        ("meson", '../meson.build:3:0: ERROR: Dependency "missing-thing" not found', ""),
        ("maturin", "error[E0425]: cannot find value `missing_thing` in this scope", "not found in this scope"),
        ("linker", "a.cpp:(.text.startup+0x1): undefined reference to `h()'", ""),
        ("setup-py", '  File "<string>", line 4, in version', "FileNotFoundError: [Errno 2] No such file"),
    ],
)
def test_the_message_of_the_tool_is_shown(name: str, first: str, last: str) -> None:
    shown = excerpt(lines(name), MOST)
    assert len(shown) <= MOST
    assert any(line.startswith(first) for line in shown[:2]), shown
    assert last in shown[-1], shown


def test_every_file_of_a_build_is_named_once() -> None:
    shown = excerpt(lines("gcc-ninja"), MOST)
    assert [line.partition(": ")[0] for line in shown if ": error: " in line] == [
        "/src/cn/a.cpp:2:18",
        "/src/cn/b.cpp:2:18",
    ]


def test_many_messages_are_counted() -> None:
    text = [line for number in range(40) for line in (f"a.c:{number}:1: error: no", "  1 | x", "    | ^")]
    shown = excerpt(text, MOST)
    assert len(shown) == MOST + 1
    assert shown[-1] == "… and 35 more errors"


def test_without_a_message_the_end_is_shown() -> None:
    text = [
        *(f"line {number}" for number in range(40)),
        "",
        "TIP pass --env-dir",
        "ERROR Backend subprocess exited when x",
    ]
    assert excerpt(text, 3) == ("line 37", "line 38", "line 39")
    assert excerpt([], 3) == ()


def test_the_cause_of_ninja_is_shown_and_not_that_of_torch() -> None:
    torch = "RuntimeError: Error compiling objects for extension"
    ninja = "ninja: error: '/src/csrc/a.cpp', needed by '/src/a.o', missing and no known rule to make it"
    frame = '  File "cpp_extension.py", line 2, in _run_ninja_build'
    assert excerpt([ninja, "Traceback (most recent call last):", frame, torch], MOST) == (ninja,)
    nvcc = 'k.cu(1): error: identifier "missing_thing" is undefined'
    assert excerpt([nvcc, "ninja: build stopped: subcommand failed.", frame, torch], MOST) == (nvcc,)
    assert excerpt([frame, torch], MOST) == (frame, torch)


def test_a_file_whose_name_ends_like_a_linker_is_no_message() -> None:
    text = ["build.txt: maturin>=1.7,<2", "run.txt: none", "bakery: the project has no Cargo.lock"]
    assert excerpt(text, MOST) == tuple(text)


def test_a_tool_that_only_repeats_the_message_of_another_is_left_out() -> None:
    text = ["a.c:1:1: error: no", "make[1]: *** [Makefile:2: a.o] Error 1", "make: *** [Makefile:1: all] Error 2"]
    assert excerpt(text, MOST) == ("a.c:1:1: error: no",)
    assert excerpt(text[1:], MOST) == tuple(text[1:])


def test_the_same_failure_of_two_pythons_is_one() -> None:
    one, two = (
        f"/opt/lib/python{version}/x.h:1:1: error: no cp{version.replace('.', '')}" for version in ("3.11", "3.13")
    )
    assert same_cause([one]) == same_cause([two])
    assert same_cause([one]) != same_cause(["/opt/lib/python3.11/y.h:1:1: error: no cp311"])
