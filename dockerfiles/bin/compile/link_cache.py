#!/opt/bakery/bin/python -IS
"""Link a shared library with link-time optimization (LTO), or copy what an earlier link of the same files made.

Usage: link_cache.py COMPILER ARGUMENT...

ccache caches no links, and with LTO they take longer than the compilations before them: all code is compiled again.
slot.py calls this program for such links. The key of a result is the digest of the command and of every file that the
link can read: the compiler says which with ``-###``. A link that is not understood just runs.

A result is a compressed file in `CACHE`: the lengths of its parts, the messages of the linker, and the files that it
wrote. Only links that succeed are kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import zlib

CACHE = "/var/cache/ccache/l"
"""Beside ccache's folders 0 to f: what carries or shares the compiler cache takes it along."""

LIMIT = 1 << 30
"""Bytes of all results. Those that were not used for longest go first."""

LARGEST = 256 << 20
"""Bytes of a result's parts."""

SCRIPT = 1 << 20
"""Bytes of a script of the linker."""

LINK = "BAKERY_LINK"
"""Set for `SLOT`, when a link runs."""

SLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slot.py")

FORMAT = "2"
"""Changes with the meaning of a key or the format of a result."""

LTO = re.compile(r"-flto(=(auto|jobserver|thin|full|\d+))?$")

COMPILER = re.compile(
    r"(-shared|-pthread|-pipe|-ansi|-[ws]|-O([0-3sgz]|fast)?|-std=[\w+:]+|-static-lib(gcc|stdc\+\+)|-[DUILl].+|-m(32|64)"
    r"|-g(?!split|modules|embed|record)[\w-]*(=\w+)?|-W(?![alp],)[\w+-]+(=[\w+.-]+)?|-Wp,-[DU][^,]+"
    r"|-m(arch|tune|cpu|fpu|float-abi|abi|branch-protection)=(?!native)[\w.+-]+|-m(no-)?(avx|sse|fma|bmi|popcnt|f16c)[\w.-]*"
    r"|-f(no-)?(?!.*(profile|branch-prob|vpt|plugin|module|dump|record|callgraph|stack-usage|opt-info|coverage|wrapper"
    r"|incremental|offload|xray))[\w+-]+|-f(lto|visibility|diagnostics-[a-z-]+|openmp|sanitize|cf-protection|random-seed)"
    r"=[\w.,+-]+|-fuse-ld=\w+|-f(file|debug|macro)-prefix-map=.+)$"
)
"""Options of a compiler that links which are understood: they name no file but libraries, and let it write no other file."""

LINKER = re.compile(
    r"(-O\d?|-[sS]|-z[\w=-]+|-Bsymbolic(-functions)?|--(strip-(all|debug)|(no-)?(as-needed|undefined|whole-archive|gc-sections|keep-memory)"
    r"|(start|end)-group|(push|pop)-state|(enable|disable)-new-dtags|eh-frame-hdr|(no-)?fatal-warnings|sort-common"
    r"|(no-)?allow-shlib-undefined|no-undefined-version)|--(hash-style|build-id|icf|exclude-libs|compress-debug-sections"
    r"|sort-common)=[\w:.-]+|--build-id|--?(rpath|soname|undefined)=.+|--(version-script|dependency-file)=[^=]+)$"
)
"""Options of the linker that are understood."""

WITH_WORD = (
    "-z",
    "-rpath",
    "--rpath",
    "-soname",
    "--soname",
    "-u",
    "--exclude-libs",
    "--version-script",
    "--dependency-file",
)
"""Options of the linker whose value can be a word of its own."""

REFUSED = "/tmp/ccache-refused"
"""Written by ccache_text.py and ccache-source: a compilation for LTO reads more than its text, so its object does not tell all either."""

DEPENDENCIES = re.compile(r"-Wl,--dependency-file[=,]([^,]+)$")
"""CMake's option for a list of what was linked. The list is an output."""

VARIABLES = (
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_RUN_PATH", "LDEMULATION"),
    "CCC_OVERRIDE_OPTIONS",
)
"""Of the environment, what compilers and linkers read."""

MAGIC = (b"\x7fELF", b"!<arch>\n", b"BC\xc0\xde")
"""How objects, archives and LLVM's bitcode begin. Another file that is linked is a script."""


class NotUnderstoodError(Exception):
    """What the link reads or writes is not known."""


def is_link(words: list[str]) -> bool:
    """Return whether the words link a shared library with LTO."""
    if not re.search(r"(^|[-/])(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-\d+(\.\d+)?)?$", words[0]):
        return False
    return "-shared" in words and any(map(LTO.match, words)) and "-fno-lto" not in words and words.count("-o") == 1


def check(words: list[str]) -> None:
    """Raise `NotUnderstoodError` if an option is not understood."""
    rest = iter(words[1:])
    for word in rest:
        if word == "-o":
            next(rest, "")
        elif word.startswith("-Wl,"):
            parts = iter(word.split(",")[1:])
            if not all(LINKER.match(part) or (part in WITH_WORD and next(parts, "")) for part in parts):
                raise NotUnderstoodError
        elif word.startswith(("-", "@")) and not COMPILER.match(word):
            raise NotUnderstoodError


def outputs(words: list[str]) -> list[str]:
    """Return the files that a link writes: the library, and the list that CMake asks for."""
    files = [words[words.index("-o") + 1]] if words[-1] != "-o" else []
    files += [match[1] for match in map(DEPENDENCIES.match, words) if match]
    if not 1 <= len(files) <= 2 or any(os.path.lexists(path) and not is_regular(path) for path in files):
        raise NotUnderstoodError
    return files


def is_regular(path: str) -> bool:
    """Return whether a path is a file, and not a link to one."""
    return stat.S_ISREG(os.lstat(path).st_mode)


def said(words: list[str], **environment: str) -> str:
    """Return what a command prints; raise `NotUnderstoodError` if it fails."""
    everything = {**os.environ, "LC_ALL": "C", **environment}
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=everything
    ) as process:
        text = process.communicate()[0].decode(errors="surrogateescape")
    if process.returncode:
        raise NotUnderstoodError
    return text


class Inputs:
    """The files that a link can read, each with its digest."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.folders: list[str] = []

    def add(self, path: str) -> bytes:
        """Add a file and return its beginning."""
        with open(path, "rb") as file:
            beginning = file.read(8)
            if path not in self.digests:
                value = hashlib.sha256(beginning)
                for block in iter(lambda: file.read(1 << 20), b""):
                    value.update(block)
                self.digests[path] = value.hexdigest()
        return beginning

    def add_program(self, path: str | None) -> None:
        """Add a program and the shared libraries that it loads."""
        if not path:
            raise NotUnderstoodError
        if self.add(path).startswith(MAGIC[0]):
            for match in re.finditer(r"(?m)=> (/.+) \(0x", said([path, "--version"], LD_TRACE_LOADED_OBJECTS="1")):
                self.add(match[1])

    def add_linked(self, path: str) -> None:
        """Add what is linked: an object, an archive, a library, or a script of the linker with what it names."""
        if path in self.digests or self.add(path).startswith(MAGIC):
            return
        if os.path.getsize(path) > SCRIPT:
            raise NotUnderstoodError
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = re.sub(r"(?s)/\*.*?\*/", " ", file.read())
        # As the system's libraries have it. Of another script nobody knows what it reads.
        script = re.fullmatch(r"\s*(?:OUTPUT_FORMAT\s*\([^()]*\)\s*)?(?:INPUT|GROUP)\s*\((.*)\)\s*", text, re.DOTALL)
        if not script:
            raise NotUnderstoodError
        for name in re.split(r"[\s(),]+", script[1]):
            if name.startswith("/"):
                self.add_linked(name)
            elif re.match(r"-l.|.*\.(so|a|o)\b", name):
                self.add_library(name)
            elif name not in ("", "AS_NEEDED"):
                raise NotUnderstoodError

    def add_library(self, name: str) -> None:
        """Add each file that ``-lNAME`` or the name of a file can mean."""
        names = [f"lib{name[2:]}.so", f"lib{name[2:]}.a"] if name.startswith("-l") else [name]
        if name.startswith("-l:"):
            names = [name[3:]]
        paths = [f"{folder}/{file}" for folder in self.folders for file in names]
        found = [path for path in paths if os.path.isfile(path)]
        if not found:
            raise NotUnderstoodError
        for path in found:
            self.add_linked(path)

    def add_command(self, words: list[str], written: list[str]) -> None:
        """Add what a linker's command reads."""
        self.folders = [word[2:] for word in words if word.startswith("-L")]
        if "" in self.folders or "-l" in words:
            raise NotUnderstoodError
        before = ""
        for word in words[1:]:
            option, before = before, word
            if word in written or word.startswith("-L"):
                continue
            if option == "--version-script":
                self.add(word)
            elif word.startswith("-l"):
                self.add_library(word)
            elif not word.startswith("-") and os.path.isfile(word):
                self.add_linked(word)
            else:
                for part in re.split("[=,]", word):
                    if os.path.isfile(part) and part not in written:
                        self.add(part)


def inputs(words: list[str], written: list[str]) -> Inputs:
    """Return what a link reads. Raises `NotUnderstoodError` and OSError."""
    text = said([*words, "-###"])
    commands = [line for line in text.splitlines() if line.startswith(" ")]
    if len(commands) != 1 or re.search(r"(?m)^(Reading specs|Configuration file)", text):
        raise NotUnderstoodError
    command = shlex.split(commands[0])
    files = Inputs()
    files.add_program(shutil.which(words[0]))
    files.add_program(command[0])
    for word in words:
        if word.startswith("-fuse-ld="):
            files.add_program(shutil.which(said([words[0], f"-print-prog-name=ld.{word[9:]}"]).strip()))
    for name in ("ld", "as", "lto1"):
        path = shutil.which(said([words[0], f"-print-prog-name={name}"]).strip())
        # clang has no lto1: its linker loads a plugin.
        if path or name != "lto1":
            files.add_program(path)
    files.add_command(command, written)
    return files


def plain(path: str) -> str:
    """Return a path without a random name: build backends compile in such folders below /tmp."""
    return re.sub(r"^((-L)?/tmp/)[^/]+", r"\1*", path)


def key(words: list[str]) -> tuple[str, list[str]]:
    """Return the key of a link's result and the files that it writes. Raises `NotUnderstoodError` and OSError."""
    if not is_link(words) or os.path.exists(REFUSED):
        raise NotUnderstoodError
    check(words)
    written = outputs(words)
    read = inputs(words, written).digests
    # A list of what was linked has the names of folders.
    shown = plain if len(written) == 1 else str
    parts = [FORMAT, *(shown(word) if word in read or word in written or word[:2] == "-L" else word for word in words)]
    parts += [f"{shown(path)} {digest}" for path, digest in read.items()]
    parts += [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    # Debug information has the folder.
    parts += [plain(os.getcwd()) for word in words[1:] if word.startswith("-g")][:1]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest(), written


def path_of(cache: str, name: str) -> str:
    """Return the path of the result with a key."""
    return os.path.join(cache, name[:2], name[2:])


def stored(path: str, count: int) -> list[bytes]:
    """Return the messages and the files of a result. Raises OSError and ValueError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a file")
        reader = zlib.decompressobj()
        try:
            data = reader.decompress(file.read(LARGEST), LARGEST)
        except zlib.error as error:
            raise ValueError from error
    header, _, data = data.partition(b"\n")
    lengths = [int(length) for length in header.split()]
    if not reader.eof or len(lengths) != count + 1 or min(lengths) < 0 or sum(lengths) != len(data):
        raise ValueError("not complete")
    rest = io.BytesIO(data)
    return [rest.read(length) for length in lengths]


def store(cache: str, name: str, parts: list[bytes]) -> None:
    """Keep a result, and drop old ones. Raises OSError."""
    if sum(map(len, parts)) > LARGEST // 2:
        return
    folder = os.path.join(cache, name[:2])
    os.makedirs(folder, exist_ok=True)
    header = " ".join(str(len(part)) for part in parts).encode() + b"\n"
    file, new = tempfile.mkstemp(prefix=".tmp.", dir=folder)
    try:
        with os.fdopen(file, "wb") as output:
            output.write(zlib.compress(b"".join([header, *parts]), 1))
        os.chmod(new, 0o644)
        os.rename(new, path_of(cache, name))
    except OSError:
        os.unlink(new)
        raise
    drop_old(cache)


def drop_old(cache: str) -> None:
    """Drop the results that were not used for longest, beyond `LIMIT`. Raises OSError."""
    results = []
    for folder, _, names in os.walk(cache):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            results.append((status.st_mtime, status.st_size, os.path.join(folder, name)))
    total = sum(size for _, size, _ in results)
    for _, size, path in sorted(results):
        if total <= LIMIT:
            break
        os.unlink(path)
        total -= size


def write(path: str, data: bytes, mode: int) -> None:
    """Write a file that is new."""
    if os.path.lexists(path):
        os.unlink(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def copy(path: str, written: list[str]) -> bool:
    """Write the files of a result and say the linker's messages; return whether there is such a result."""
    try:
        messages, *parts = stored(path, len(written))
    except (OSError, ValueError):
        return False
    os.utime(path)
    for index, name in enumerate(written):
        write(name, parts[index], 0o666 if index else 0o777)
    os.write(2, messages)
    return True


def run(words: list[str], cache: str, name: str, written: list[str]) -> int:
    """Link in a slot, keep the result, and return the status."""
    with tempfile.TemporaryFile() as file:
        status = subprocess.run([SLOT, *words], stderr=file, env={**os.environ, LINK: "1"}, check=False).returncode
        file.seek(0)
        messages = file.read()
    os.write(2, messages)
    try:
        if status == 0 and all(map(is_regular, written)):
            parts = []
            for path in written:
                with open(path, "rb") as output:
                    parts.append(output.read())
            store(cache, name, [messages, *parts])
    except OSError:
        # The link is done. Without room for its result it runs again the next time.
        pass
    return status if status >= 0 else 128 - status


def main(words: list[str], cache: str = CACHE) -> int:
    """Link, or copy an earlier result; return the status."""
    try:
        name, written = key(words)
    except Exception:
        # Whatever is not as expected is not understood.
        os.execve(SLOT, [SLOT, *words], {**os.environ, LINK: "1"})
    if copy(path_of(cache, name), written):
        return 0
    return run(words, cache, name, written)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
