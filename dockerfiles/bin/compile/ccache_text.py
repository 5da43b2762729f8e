#!/opt/bakery/bin/python -IS
"""Give ccache the text that it knows a compilation by, or fail where no text tells all that the compiler reads.

Usage: ccache_text.py COMPILER ARGUMENT... -E ...

with-ccache makes ccache call this program in place of the preprocessor (``CCACHE_PREFIX_CPP``). If it fails, ccache
compiles without its cache. The text is that of the preprocessor, so a header that was looked for and not found counts,
too. Lines after it tell what else decides:

- the digests of the programs that compile: ccache knows the compiler's driver only, neither ``cc1`` nor ``as``;
- variables that these programs read;
- the folder, if debug information has it, unless its name is random;
- columns, where the object has them: the text has one space for each comment.

Options are understood or not: `GCC` and `NVCC` have those that read no file and write none beside the object. The
assembler reads files by itself, so an ``asm`` statement must not have ``.incbin`` and the like. What nvcc does is asked
with ``--dryrun``: it preprocesses a file once for the host and once for each architecture.
"""

from __future__ import annotations

import os
import re
import sys
import zlib

LOG = "/tmp/ccache-texts.txt"
"""A line for each call, which count-ccache reads: object, why it is not cached, ``CRC=FILE`` of what is not the system's."""

REFUSED = "/tmp/ccache-refused"
"""Is there after a refused compilation for link-time optimization: what its link reads is not known either."""

DIGESTS = "/tmp/ccache-programs.txt"
"""Digests of programs, with what tells that a program is the same: each step computes them once."""

FORMAT = "1"
"""Changes with the meaning of the lines after the text."""

VARIABLES = (
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "CCC_OVERRIDE_OPTIONS"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
)
"""Of the environment, what compilers read after preprocessing."""

_FLAGS_WITH_VALUES = (
    "abi-version|align-[a-z]+|cf-protection|constexpr-[a-z-]+|diagnostics-[a-z-]+|excess-precision|exec-charset|fp-contract"
    "|fp-model|inline-limit|input-charset|lto|max-errors|message-length|openmp|pack-struct|patchable-function-entry"
    "|random-seed|sanitize|simd-cost-model|strict-flex-arrays|template-depth|tls-model|trivial-auto-var-init"
    "|vect-cost-model|visibility|zero-call-used-regs"
)
_SAME = (
    r"-[cw]|-pipe|-ansi|-pthread|-nostdinc(\+\+)?|-pedantic(-errors)?|-O([0-3sgz]|fast)?|-std=[\w+:]+|-stdlib=[\w+]+"
    r"|-[DUI].+|-M(D|MD|P)|-Wp,-[DU][^,]+|-Wa,(--noexecstack|-mbig-obj)|-W[\w+-]+(=[\w+.-]+)?"
)
GCC = (
    rf"({_SAME}|-iquote.+|-isystem.+|-idirafter.+|--sysroot=.+|--target=[\w.+-]+"
    r"|-g(?!(gdb)?3$|split|modules|embed|record-command)[\w-]*(=[\w-]+)?|--param=[\w-]+=\d+"
    r"|-m(?!.*native)(?!llvm|linker|record)[\w.+-]+(=[\w.,+-]+)?"
    r"|-f(no-)?(?!.*(profile|branch-prob|vpt|plugin|module|dump|record|callgraph|stack-usage|opt-info|coverage"
    r"|preprocessed|directives|compare-debug|wrapper|incremental|asm-blocks|ms-ext|xray|pch|offload|working|embed))"
    rf"[\w+-]+|-f({_FLAGS_WITH_VALUES})=[\w.,+-]+|-f(file|debug|macro)-prefix-map=.+)$"
)
"""Options of gcc and clang that are understood: a regular expression, compiled only where it is needed."""

NVCC = (
    rf"({_SAME}|-gencode=.+|--generate-code=.+|-(-gpu-)?(arch(itecture)?|code)=[\w,-]+|--?(Werror|std)=[\w+,-]+|-[gG]"
    r"|--(optimize|define-macro|undefine-macro|include-path|system-include|machine|x)=.+|-isystem=?.+|-m64|-x=?cu"
    r"|--?(use[_-]fast[_-]math|expt-(relaxed-constexpr|extended-lambda)|extended-lambda|compile|device-c|dc|lineinfo|restrict"
    r"|generate-line-info|device-debug|debug|disable-warnings|extra-device-vectorization|no-compress|allow-unsupported-compiler)"
    r"|--?(threads|t|maxrregcount|default-stream|ftz|fmad|prec-div|prec-sqrt|rdc|relocatable-device-code|compress-mode"
    r"|diag-(suppress|error|warn)|split-compile|cudart|compiler-bindir|ccbin|device-debug|ptxas-options|Xptxas|Xcudafe"
    r"|cudafe-options)=?[\w.,:/+=-]*)$"
)
"""Options of nvcc that are understood; the host compiler's are looked at in the command that nvcc would call."""

_WITH_WORD = re.compile(
    r"-([oIDUxt]|isystem|iquote|idirafter|include|imacros|M[FTQ]|-param|gencode|-generate-code|arch|code|ccbin|std"
    r"|-compiler-bindir|-compiler-options|Xcompiler|Xptxas|Xcudafe|-threads|maxrregcount|diag-suppress)$"
)
"""Options whose value can be a word of its own."""

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu")
_LANGUAGES = ("c", "c++", "cu")
_PROGRAMS = ("cudafe++", "cicc", "ptxas", "fatbinary", "rm")

RANDOM = re.compile(
    r"(?<=/tmp/)(tmp|pip-[\w-]*?)[a-z0-9_]{8}(?=/|$)|(?<=/\.mesonpy-)[a-z0-9_]{8}(?=/|$)|tmpxft_[0-9a-f_]+-\d+_"
)
"""Names of folders that build backends choose, and nvcc's of its files."""

_STRING = rb'"(?:[^"\\\n]|\\.)*"'
_ASM = re.compile(rb"\b(?:__asm__|__asm|asm)\b")
_STATEMENT = re.compile(
    rb"(?:\s|volatile\b|__volatile(?:__)?\b|goto\b|inline\b|__inline(?:__)?\b)*\(((?:\s|%s)*)[:)]" % _STRING
)
_NAMES = re.compile(
    rb"\b(?:__)?(?:section|alias|ifunc|weakref|symver|code_seg|target|entry)(?:__)?\s*\(\s*((?:%s\s*)+)" % _STRING
)
_PLAIN_NAME = re.compile(r"[\w.$@,+=-]*")
_READS = re.compile(r"\.\s*(inc|macro|irp|rept|altmacro|purgem)|\.\w*[%{|}]", re.IGNORECASE)
"""How an assembler is told to read a file, or could be: by a macro, an operand or a dialect in the name of a directive."""
_DIRECTIVES = re.compile(
    rb"^\s*#\s*(embed\b|pragma\s+GCC\s+pch|pragma\s+clang\s+(section|module)|ident\b[^\n]*\\)", re.MULTILINE
)
LEXED = rb'(?s)//(?:\\\r?\n|[^\n])*|/\*.*?\*/|R"([^()\\ ]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"' rb"|'(?:\\.|[^'\\\n])*'"
"""Comments, and what may have the beginning of one."""

_MARKER = re.compile(rb'^# \d+ "([^"\n]*)"[^\n]*\n', re.MULTILINE)


class NotUnderstoodError(Exception):
    """The text does not tell all that the compiler reads."""


def command_of(parent: int) -> list[str]:
    """Return compiler and arguments of the ccache that called this program."""
    with open(f"/proc/{parent}/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    if os.path.basename(words[0]).startswith("ccache"):
        words = words[1:]
    if not words or "=" in words[0]:
        raise NotUnderstoodError("options of ccache")
    return words


def expanded(words: list[str]) -> list[str]:
    """Return words with those in files of options."""
    rest, found = iter(words), []
    for word in rest:
        path = next(rest, "") if word in ("--options-file", "-optf") else word[1:] if word[0:1] == "@" else ""
        if path:
            import shlex

            with open(path, encoding="utf-8") as file:
                found += shlex.split(file.read())
        else:
            found.append(word)
    return found


def check(words: list[str], understood: str) -> None:
    """Raise `NotUnderstoodError` for an option that is not understood, and another source than one in C, C++ or CUDA."""
    rest, sources = iter(words), 0
    for word in rest:
        if _WITH_WORD.match(word):
            value = next(rest, "")
            if word == "-x" and value not in _LANGUAGES:
                raise NotUnderstoodError(f"language {value}")
            if word in ("-Xptxas", "-Xcudafe", "-std", "-arch", "-code") and not re.match(r"[\w.,:+=-]+$", value):
                raise NotUnderstoodError(f"{word} {value}")
        elif not word.startswith("-"):
            sources += 1
            if not word.endswith(_SOURCES):
                raise NotUnderstoodError(f"file {word}")
        elif not re.match(understood, word) and not re.match("--?(Xcompiler|compiler-options)=", word):
            raise NotUnderstoodError(f"option {word}")
    if sources != 1:
        raise NotUnderstoodError("not one source")


def literal(strings: bytes) -> str:
    """Return the characters of string literals that stand side by side."""
    text = "".join(part[1:-1].decode(errors="replace") for part in re.findall(_STRING, strings))
    if re.search(r"""(?<!\\)(\\\\)*\\[^nt"'\\]""", text):
        raise NotUnderstoodError("escapes in an asm statement")
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)


def scan(text: bytes) -> None:
    """Raise `NotUnderstoodError` if preprocessed text lets an assembler or a compiler read a file."""
    for match in _ASM.finditer(text):
        statement = _STATEMENT.match(text, match.end())
        if not statement:
            raise NotUnderstoodError(f"an asm statement: {text[match.start() : match.end() + 60]!r}")
        if _READS.search(literal(statement[1])):
            raise NotUnderstoodError("an asm statement that may read a file")
    for match in _NAMES.finditer(text):
        if not _PLAIN_NAME.fullmatch(literal(match[1])):
            raise NotUnderstoodError("a name with text for the assembler")
    if directive := _DIRECTIVES.search(text):
        raise NotUnderstoodError(f"#{directive[1].decode()}")


def split(text: bytes) -> tuple[bytes, list[str]]:
    """Return preprocessed text without its lines that name files, and the files that were read."""
    parts = _MARKER.split(text)
    files = [os.fsdecode(path) for path in dict.fromkeys(parts[1::2])]
    for path in files:
        if os.path.lexists(path + ".gch") or os.path.lexists(path + ".pch"):
            raise NotUnderstoodError(f"precompiled header of {path}")
    return b"".join(parts[::2]), files


def own(files: list[str]) -> dict[str, int]:
    """Return file -> checksum, of those that are not the system's."""
    found = {}
    for path in files:
        if os.path.isfile(path) and not path.startswith("/usr/"):
            with open(path, "rb") as file:
                found[path] = zlib.crc32(file.read())
    return found


def output_of(words: list[str], **environment: str) -> bytes:
    """Return what a command prints on its standard output; its messages go to those of this program."""
    from subprocess import PIPE, Popen

    with Popen(words, stdout=PIPE, env={**os.environ, **environment}) as process:
        text = process.communicate()[0]
    if process.returncode:
        # The compiler will say the same.
        raise NotUnderstoodError("the preprocessor failed")
    return text


def preprocessed(words: list[str]) -> bytes:
    """Preprocess, and return the text. ccache 4 names a file for it."""
    if "-o" not in words:
        return output_of(words)
    # The module subprocess takes longer to import than a small file to preprocess.
    if os.waitpid(os.posix_spawnp(words[0], words, os.environ), 0)[1]:
        raise NotUnderstoodError("the preprocessor failed")
    with open(words[words.index("-o") + 1], "rb") as file:
        return file.read()


def preprocessed_by_nvcc(words: list[str]) -> tuple[bytes, list[str], str]:
    """Return the text for host and device, the host compiler's command, and what nvcc would call, without random names."""
    import shlex
    from subprocess import PIPE, STDOUT, run

    done = run([*words, "--dryrun"], stdout=PIPE, stderr=STDOUT, check=False)
    # With several threads, nvcc sends what its commands print to files.
    told = re.sub(r"(?m)\s+> /tmp/tmpxft\S+ 2>\S+$", "", os.fsdecode(done.stdout))
    lines = [
        line[3:] for line in told.splitlines() if line.startswith("#$ ") and not line.startswith("#$ -- Filter Dep")
    ]
    path, texts, host = os.environ.get("PATH", ""), [], [""]
    for line in lines:
        if name := re.match(r"(\w+)=(.*)", line):
            path = name[2] if name[1] == "PATH" else path
            continue
        call = shlex.split(line)
        if "-E" in call and "-o" in call:
            at = call.index("-o")
            texts.append(output_of([*call[:at], *call[at + 2 :]], PATH=path))
        elif "-c" in call:
            host = call
        elif any(word in ("-M", "-MM") for word in call):
            continue
        elif os.path.basename(call[0]) not in _PROGRAMS:
            raise NotUnderstoodError(f"nvcc calls {call[0]}")
    if done.returncode or not texts or not host[0]:
        raise NotUnderstoodError("nvcc --dryrun")
    # Threads take their numbers and turns by chance.
    plain = sorted(RANDOM.sub("*", line) for line in lines if not line.startswith("PATH="))
    return b"".join(sorted(texts)), host, "\n".join(plain)


def programs_of(compiler: str) -> list[str]:
    """Return the files that run when a compiler of C compiles."""
    name = os.path.basename(os.path.realpath(compiler))
    files = [compiler]
    if "clang" not in name:
        # Which of the two runs is a matter of the file's name.
        asked = ["cc1", "cc1plus", "as"]
        found = [output_of([compiler, f"-print-prog-name={program}"]).decode().strip() for program in asked]
        specs = output_of([compiler, "-print-file-name=specs"]).decode().strip()
        files += [path for path in (*found, specs) if path.startswith("/")]
    if not is_binary(compiler):
        raise NotUnderstoodError(f"{compiler} is a script")
    return files


def is_binary(path: str) -> bool:
    """Return whether a file is a program or library, no script."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def programs_of_nvcc(nvcc: str) -> list[str]:
    """Return the files of a toolkit that run, or are compiled in, when nvcc compiles."""
    bin_ = os.path.dirname(os.path.realpath(nvcc))
    files = [nvcc, *(f"{bin_}/{name}" for name in ("cudafe++", "ptxas", "fatbinary", "nvcc.profile"))]
    for folder in ("bin", "libdevice", "lib64", "lib"):
        for parent, _, names in os.walk(os.path.join(bin_, "..", "nvvm", folder)):
            files += [os.path.join(parent, name) for name in sorted(names)]
    return files


def libraries_of(program: str) -> list[str]:
    """Return the shared libraries that a program loads."""
    told = output_of([program, "--version"], LD_TRACE_LOADED_OBJECTS="1").decode(errors="surrogateescape")
    return re.findall(r"=> (/.+) \(0x", told)


def digest_of_file(path: str) -> str:
    """Return the digest of a file."""
    from hashlib import sha256

    with open(path, "rb") as file:
        return sha256(file.read()).hexdigest()


def has_columns(code: bytes, command: list[str], host: list[str]) -> bool:
    """Return whether an object tells in which column something stands: debuggers, sanitizers or the code itself ask for it."""
    # Of several options, the last one decides.
    debug = [word for word in host[1:] if re.match("-g(?!no-|z|record|strict)", word)]
    if debug and not re.match("-g(gdb)?0$", debug[-1]):
        return True
    of_device = r"-G|-g|--?(lineinfo|generate-line-info|device-debug|debug)"
    return (
        any(word.startswith("-fsanitize=") for word in host)
        or (host is not command and any(re.match(rf"({of_device})$", word) for word in command))
        or bool(re.search(rb"source_location|__builtin_COLUMN", code))
    )


def columns_of(path: str) -> str:
    """Return the digest of a file without its comments, all else in its column."""
    from hashlib import sha256

    with open(path, "rb") as file:
        text = re.sub(
            LEXED, lambda found: re.sub(rb"[^\n]", b" ", found[0]) if found[0][:1] == b"/" else found[0], file.read()
        )
    return sha256(re.sub(rb"(?m)[ \t\r]+$", b"", text)).hexdigest()


def digest_of(compiler: str, is_nvcc: bool) -> str:
    """Return the digest of all programs of a compiler; a step computes it once, unless the compiler changes."""
    status = os.stat(compiler)
    mark = f"{compiler} {status.st_ino} {status.st_size} {status.st_mtime_ns} {os.environ.get('PATH')}\t"
    mark += "\t".join(os.environ.get(name, "") for name in VARIABLES).replace("\n", " ") + "\t"
    if os.path.exists(DIGESTS):
        with open(DIGESTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                if line.startswith(mark):
                    return line[len(mark) :].strip()
    from hashlib import sha256

    value = sha256()
    files = programs_of_nvcc(compiler) if is_nvcc else programs_of(compiler)
    for path in dict.fromkeys(
        [*files, *(library for item in files[:4] if is_binary(item) for library in libraries_of(item))]
    ):
        value.update(digest_of_file(path).encode())
    with open(DIGESTS, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{mark}{value.hexdigest()}\n")
    return value.hexdigest()


def understood_text(call: list[str], command: list[str]) -> tuple[bytes, list[str]]:
    """Return the text of a compilation with what else decides, and the files that it is made of.

    ``call`` is the preprocessor's, ``command`` the compiler's. Raises `NotUnderstoodError` and OSError.
    """
    compiler = call[0]
    is_nvcc = os.path.basename(compiler) == "nvcc"
    command = expanded(command)
    understood = NVCC if is_nvcc else GCC
    if any(word.startswith("-forward-unknown") for word in command):
        # The rest is in the host compiler's command, which is looked at, too.
        understood = f"{NVCC}|{GCC}|-forward-unknown(-to-host-compiler|-opts)$"
    check(command[1:], understood)
    told, host = "", command
    if is_nvcc:
        text, host, told = preprocessed_by_nvcc([compiler, *command[1:]])
        check([word for word in host[1:] if not word.endswith(".cudafe1.cpp")] + ["host.cpp"], GCC)
    elif any(word.endswith(".cu") for word in command):
        raise NotUnderstoodError("CUDA without nvcc")
    else:
        text = preprocessed(call)
    code, files = split(text)
    scan(code)
    lines = [FORMAT, told, digest_of(compiler, is_nvcc), *(f"{name}={os.environ.get(name)}" for name in VARIABLES)]
    if is_nvcc:
        lines.append(digest_of(host[0], False))
    lines += [RANDOM.sub("*", word) for word in command if "prefix-map=" in word]
    if any(re.match(r"-Werror(=implicit-fallthrough.*)?$", word) for word in host):
        # A comment decides whether a case may fall through.
        lines += [digest_of_file(path) for path in own(files)]
    elif has_columns(code, command, host):
        lines += [columns_of(path) for path in own(files)]
    lines += [RANDOM.sub("*", os.getcwd()) for word in host[1:] if word.startswith(("-g", "-G"))][:1]
    return text + "\n".join(["", *lines, ""]).encode(errors="surrogateescape"), files


def log(command: list[str], why: str, files: list[str]) -> None:
    """Append a line to the log; lines of processes that run at the same time do not mix."""
    name = command[command.index("-o") + 1] if "-o" in command[:-1] else command[-1]
    read = (f"{crc:x}={path}" for path, crc in own(files).items())
    words = [os.path.join(os.getcwd(), name), why, *read]
    text = "\t".join(word.replace("\n", " ").replace("\t", " ") for word in words)
    file = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, os.fsencode(text + "\n"))
    os.close(file)


def main(call: list[str]) -> int:
    """Write the text where ccache wants it, and return 0; return 1 if it does not tell all."""
    command = call
    try:
        command = command_of(os.getppid())
        text, files = understood_text(call, command)
    except (NotUnderstoodError, OSError, ValueError, IndexError, UnicodeError) as error:
        log(command, str(error) or type(error).__name__, [])
        if any(word.startswith("-flto") for word in command):
            os.close(os.open(REFUSED, os.O_WRONLY | os.O_CREAT, 0o644))
        return 1
    if "-o" in call:
        with open(call[call.index("-o") + 1], "wb") as file:
            file.write(text)
    else:
        with os.fdopen(1, "wb") as output:
            output.write(text)
    log(command, "", files)
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
