"""ccache_text.py: what of a compilation the text of the preprocessor tells, and what is not understood."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bakery.toolchains.programs import ccache_text
from bakery.toolchains.programs.ccache_text import GCC, NVCC, NotUnderstoodError, check, scan

COMPILER = shutil.which("gcc") or ""

pytestmark = pytest.mark.skipif(not COMPILER, reason="no gcc")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project; what a step would write in /tmp is beside it."""
    for name in ("LOG", "REFUSED", "DIGESTS"):
        monkeypatch.setattr(ccache_text, name, str(tmp_path / name))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def text(source: str, *words: str, name: str = "a.c") -> bytes:
    """Return the text of a compilation."""
    Path(name).write_text(source)
    return ccache_text.understood_text([COMPILER, *words, "-E", name], ["gcc", *words, "-c", name, "-o", "a.o"])[0]


def why(source: str, *words: str) -> str:
    """Return why a compilation is not understood; empty if it is."""
    try:
        text(source, *words)
    except NotUnderstoodError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "words",
    [
        "-O2 -g -fPIC -Wall -Wno-unused -DNDEBUG -fwrapv -Wformat -Werror=format-security -fstack-protector-strong",
        "-std=c++17 -MD -MT a.o -MF a.d -I. -isystem /x -include x.h -pthread -fvisibility=hidden -flto=auto -fno-fat-lto-objects",
        "-march=x86-64-v2 -mavx2 -mtune=generic -m64 -ffast-math -fopenmp -Wp,-D_FORTIFY_SOURCE=2 -Wa,--noexecstack",
        "-ffile-prefix-map=/a=/b -fdiagnostics-color=always -Winvalid-pch -gdwarf-4 --param=x=1 -x c++ -Ofast",
    ],
)
def test_options_of_builds_are_understood(words: str) -> None:
    check([*words.split(), "-c", "a.c", "-o", "a.o"], GCC)


@pytest.mark.parametrize(
    "word",
    [
        *(
            "-march=native", "-mtune=native", "-g3", "-ggdb3", "-fprofile-use", "-fprofile-use=x",
            "-fbranch-probabilities",
        ),
        *(
            "-fauto-profile=x", "-fplugin=x.so", "-fpass-plugin=x.so", "-specs=x", "--specs=x", "-B.", "-wrapper",
            "--config=x",
        ),
        *(
            "-fsanitize-ignorelist=x", "-fsanitize-blacklist=x", "-fmodules", "-fmodules-ts", "-fmodule-file=x",
            "-Wa,-Ix",
        ),
        *("-Wa,@x", "-Wp,-MD,x", "-save-temps", "-fdump-tree-all", "-fsave-optimization-record", "-gsplit-dwarf"),
        *("-frecord-gcc-switches", "-Xclang", "-Xassembler", "-fxray-attr-list=x", "--coverage", "-ftest-coverage"),
        *(
            "-fpch-preprocess", "-mllvm", "-fasm-blocks", "--gcc-toolchain=x", "-fstack-usage", "-include-pch", "b.c",
            "a.s",
        ),
        *(
            "-xassembler", "@x", "-fthinlto-index=x", "-fembed-offload-object=x", "-fcallgraph-info",
            "-fworking-directory",
        ),
    ],
)  # fmt: skip
def test_another_option_is_not_understood(word: str) -> None:
    with pytest.raises(NotUnderstoodError):
        check([word, "-c", "a.c", "-o", "a.o"], GCC)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-O3 -gencode=arch=compute_80,code=sm_80 -std=c++17 --threads=4 -Xcompiler -fPIC -lineinfo -MD -MF a.d", True),
        ("--generate-code=arch=compute_80,code=[compute_80,sm_80] --expt-relaxed-constexpr -Xptxas -v -x cu", True),
        ("--use_fast_math -t 2 -maxrregcount=32 --compress-mode=size", True),
        ("--keep", False),
        ("-Xptxas @x", False),
        ("--options-file x", False),
        ("-dlto", False),
        ("--ptxas-path=x", False),
    ],
)
def test_options_of_nvcc(words: str, expected: bool) -> None:
    try:
        check([*words.split(), "-c", "a.cu", "-o", "a.o"], NVCC)
    except NotUnderstoodError:
        assert not expected
    else:
        assert expected


@pytest.mark.parametrize(
    "source",
    [
        '__asm__(".incbin \\"x\\"");', '__asm__(".incbin\\t\\"x\\"");', '__asm__(".INCBIN \\"x\\"");',
        'asm volatile(".in" "clude \\"x\\"" ::: "memory");', '__asm__(".inc"\n# 1 "b.h" 1\n"bin \\"x\\"");',
        '__asm("\\x2eincbin \\"x\\"");', 'asm(R"(.incbin "x")");',
        'asm(".macro m a, b\\n.\\\\a\\\\b \\"x\\"\\n.endm\\nm inc, bin");',
        'asm(".irp x, incbin\\n.\\\\x \\"y\\"\\n.endr");', 'asm(".%c0 \\"x\\"" :: "i"(f));', 'asm(".{inc|x}bin");',
        "asm { nop }", "asm(TEXT);", '__attribute__((section("a\\n.incbin \\"x\\"\\n#"))) int x;',
        '[[gnu::section("a;" ".include \\"x\\"")]] int x;', '#embed "x"\n', '#pragma GCC pch_preprocess "x"\n',
        "#pragma clang module import x\n",
    ],
)  # fmt: skip
def test_text_that_lets_another_program_read(source: str) -> None:
    with pytest.raises(NotUnderstoodError):
        scan(ccache_text.split(source.encode())[0])


@pytest.mark.parametrize(
    "source",
    [
        'extern int f(void) __asm__ ("" "__isoc99_sscanf");',
        'asm volatile("pause" ::: "memory");',
        'asm volatile ("lock; xaddl %0,%1" : "+r" (x) : : "cc");',
        'asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\\n\\t@p ld.global.v4.u32 {%0, %1, %2, %3}, [%5];}" : "=r"(a));',
        '__attribute__((section(".text.hot"), alias("f"))) void g(void);',
        'const char *text = "see data.inc, or .include";',
        "int masm, asm_x;",
    ],
)
def test_text_that_is_understood(source: str) -> None:
    scan(source.encode())


def test_a_header_that_appears_is_another_text(folder: Path) -> None:
    source = '#include "order.h"\n#if __has_include("maybe.h")\nint maybe;\n#endif\n'
    for name in ("a", "b"):
        (folder / name).mkdir()
    (folder / "b" / "order.h").write_text("int order = 2;\n")
    words = ("-Ia", "-Ib")
    texts = [text(source, *words)]
    assert text(source, *words) == texts[0]
    (folder / "b" / "maybe.h").write_text("")
    texts.append(text(source, *words))
    (folder / "a" / "order.h").write_text("int order = 1;\n")
    texts.append(text(source, *words))
    assert len({*texts}) == 3


def test_what_else_decides_is_in_the_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = text("int x;\n")
    assert text("int x;\n", "-Wall") == plain
    monkeypatch.setenv("COMPILER_PATH", "/opt/other")
    assert text("int x;\n") != plain
    monkeypatch.delenv("COMPILER_PATH")
    (folder / "other").mkdir()
    with_folder = text("int x;\n", "-g")
    monkeypatch.chdir(folder / "other")
    assert text("int x;\n") == plain
    assert text("int x;\n", "-g") != with_folder


def test_a_comment_counts_where_it_can_be_an_error() -> None:
    source = "int f(int x) {\n#include <stddef.h>\n  return x; /* @ */ }\n"
    assert text(source) == text(source.replace("@", "fall through"))
    assert text(source, "-Werror") != text(source.replace("@", "fall through"), "-Werror")


@pytest.mark.parametrize(
    ("words", "counts"),
    [((), False), (("-g0",), False), (("-g",), True), (("-g", "-g0"), False), (("-fsanitize=undefined",), True)],
)
def test_a_column_counts_where_the_object_has_it(words: tuple[str, ...], counts: bool) -> None:
    source = "int f(int x) { return /* @ */ x; }\n"
    assert (text(source, *words) != text(source.replace("@", "longer"), *words)) is counts
    # A comment at the end of a line moves nothing.
    after = "int f(int x) { return x; } // @\n"
    assert text(after, *words) == text(after.replace("@", "longer"), *words)


def test_a_column_counts_where_the_code_asks_for_it() -> None:
    source = "int f(void) { return /* @ */ __builtin_COLUMN(); }\n"
    assert text(source) != text(source.replace("@", "longer"))


def test_gcc_may_compile_both_languages(folder: Path) -> None:
    files = {Path(path).name for path in ccache_text.programs_of(COMPILER)}
    found = subprocess.run([COMPILER, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout
    assert {"cc1", *["cc1plus"] * found.startswith("/")} <= files


def test_a_precompiled_header_is_not_understood(folder: Path) -> None:
    (folder / "a.h").write_text("int x;\n")
    assert why('#include "a.h"\n') == ""
    (folder / "a.h.gch").write_text("")
    assert why('#include "a.h"\n') == "precompiled header of a.h"


def test_a_compiler_that_is_a_script_is_not_understood(folder: Path) -> None:
    script = folder / "gcc"
    script.write_text(f'#!/bin/sh\nexec {COMPILER} "$@"\n')
    script.chmod(0o755)
    Path("a.c").write_text("int x;\n")
    with pytest.raises(NotUnderstoodError, match="is a script"):
        ccache_text.understood_text([str(script), "-E", "a.c"], ["gcc", "-c", "a.c"])


def test_another_program_behind_the_same_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``as`` of another package, with the same gcc."""
    plain = text("int x;\n")
    own = folder / "as"
    shutil.copy(shutil.which("as") or "", own)
    with own.open("ab") as file:
        file.write(b"\0")
    monkeypatch.setattr(ccache_text, "DIGESTS", str(folder / "again"))
    monkeypatch.setenv("COMPILER_PATH", str(folder))
    monkeypatch.setattr(ccache_text, "VARIABLES", ())
    assert text("int x;\n") != plain


@pytest.mark.skipif(not shutil.which("ccache"), reason="no ccache")
def test_ccache_calls_it(folder: Path) -> None:
    program = folder / "ccache_text.py"
    shutil.copy(ccache_text.__file__, program)
    program.write_text(program.read_text().replace("/opt/bakery/bin/python -IS", "/usr/bin/env python3", 1))
    program.chmod(0o755)
    own = {"CCACHE_DIR": str(folder / "cache"), "CCACHE_NODIRECT": "1", "CCACHE_PREFIX_CPP": str(program)}
    own |= {"CCACHE_STATSLOG": str(folder / "log")}

    def compiled(*words: str) -> set[str]:
        (folder / "log").write_text("")
        subprocess.run(["ccache", COMPILER, *words, "-c", "a.c"], env={**os.environ, **own}, check=True)
        return {*(folder / "log").read_text().split()}

    (folder / "a.c").write_text("int x;\n")
    assert "cache_miss" in compiled()
    assert "preprocessed_cache_hit" in compiled()
    assert "preprocessor_error" in compiled("-march=native")
