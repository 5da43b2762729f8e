"""Changes to what a wheel holds, made with its structure in mind: tables that grow, and what points to them."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zipfile
from collections.abc import Callable

from wheels import digest

from fuzz.mutate import LARGEST, Mutator, any_bytes, any_text, count, text

_DAMAGED = (struct.error, IndexError, ValueError, OverflowError, ZeroDivisionError)
"""What comes of changing a structure that an earlier change has destroyed."""

# --- ELF

_SECTION, _SEGMENT, _DYNAMIC = 64, 56, 16
_PT_LOAD, _PT_DYNAMIC = 1, 2


def any_elf(rng: random.Random, data: bytes) -> bytes:
    """Change an ELF file: its tables move to its end and grow, or any of its bytes change."""
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        change = rng.choice((any_bytes, any_bytes, _headers, _sections, _segments, _dynamic, _long_name, any_bytes))
        try:
            data = change(rng, data)[:LARGEST]
        except _DAMAGED:
            data = any_bytes(rng, data)
    return data


def _put(data: bytes, at: int, layout: str, *values: int) -> bytes:
    packed = struct.pack(layout, *values)
    return data[:at] + packed + data[at + len(packed) :]


def _headers(rng: random.Random, data: bytes) -> bytes:
    """Change the file's header, or one row of a table."""
    rows = [at + size * rng.randrange(number) for at, size, number in _tables(data) if number]
    start = rng.choice((0, *rows))
    return data[:start] + any_bytes(rng, data[start : start + 64])[:64].ljust(64, b"\0") + data[start + 64 :]


def _tables(data: bytes) -> list[tuple[int, int, int]]:
    """Return offset, size of a row and number of rows of the tables of segments and of sections."""
    segments, sections = struct.unpack_from("<QQ", data, 32)
    number_of_segments, _, number_of_sections = struct.unpack_from("<HHH", data, 56)
    return [(segments, _SEGMENT, number_of_segments), (sections, _SECTION, number_of_sections)]


def _sections(rng: random.Random, data: bytes) -> bytes:
    at, size, number = _tables(data)[1]
    grown, rows = _grown(rng, data, at, size, number)
    return _put(_put(grown, 40, "<Q", len(data)), 60, "<H", rows)


def _segments(rng: random.Random, data: bytes) -> bytes:
    at, size, number = _tables(data)[0]
    grown, rows = _grown(rng, data, at, size, number)
    return _put(_put(grown, 32, "<Q", len(data)), 56, "<H", rows)


def _grown(rng: random.Random, data: bytes, at: int, size: int, number: int) -> tuple[bytes, int]:
    """Write a table once more, at the end of the file, with one of its rows many times."""
    rows = [data[at + size * row : at + size * (row + 1)] for row in range(number)]
    more = min(count(rng), 0xFFFE - number, (LARGEST - len(data)) // size)
    rows += [rng.choice(rows)] * max(0, more)
    return data + b"".join(rows), len(rows)


def _dynamic(rng: random.Random, data: bytes) -> bytes:
    at, size, number = _tables(data)[0]
    for row in range(at, at + size * number, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, row)
        if kind == _PT_DYNAMIC and length >= _DYNAMIC:
            grown, rows = _grown(rng, data, offset, _DYNAMIC, min(length // _DYNAMIC, 5000))
            end = len(data)
            return _put(grown, row + 8, "<QQQQQ", end, end, end, _DYNAMIC * rows, _DYNAMIC * rows)
    return any_bytes(rng, data)


def _long_name(rng: random.Random, data: bytes) -> bytes:
    """Make a table of strings reach to the end of the file, where one long string stands that rows point to."""
    at, size, number = _tables(data)[1]
    row = at + size * rng.randrange(number)
    start = struct.unpack_from("<Q", data, row + 24)[0]
    name = len(data) - start
    data += b"n" * min(100 * count(rng), 500_000) + b"\0"
    data = _put(data, row + 32, "<Q", len(data) - start)
    for other in rng.sample(range(number), rng.randint(0, number)):
        data = _put(data, at + size * other, "<I", name)
    return data


def in_section(name: bytes, change: Mutator) -> Mutator:
    """Return a mutator of the content of one section of an ELF file, which moves to the file's end."""

    def mutator(rng: random.Random, data: bytes) -> bytes:
        try:
            at, size, number = _tables(data)[1]
            names = struct.unpack_from("<Q", data, at + size * struct.unpack_from("<H", data, 62)[0] + 24)[0]
            for row in range(at, at + size * number, size):
                title = names + struct.unpack_from("<I", data, row)[0]
                if data[title : title + len(name) + 1] == name + b"\0":
                    start, length = struct.unpack_from("<QQ", data, row + 24)
                    content = change(rng, data[start : start + length])
                    data += bytes(-len(data) % 8)
                    return _put(data, row + 24, "<QQ", len(data), len(content)) + content
        except _DAMAGED:
            pass
        return any_elf(rng, data)

    return mutator


# --- device code

_FATBIN, _ENTRY = 16, 64


def any_fatbin(rng: random.Random, data: bytes) -> bytes:
    """Change fat binaries: their entries grow in number, or change."""
    entries = _entries(data)
    if not entries or rng.random() < 0.3:
        return any_bytes(rng, data)
    at = rng.randrange(len(entries))
    match rng.randrange(4):
        case 0:
            entries += [entries[at]] * min(count(rng), LARGEST // len(entries[at]))
        case 1:
            head = any_bytes(rng, entries[at][:_ENTRY])[:_ENTRY].ljust(_ENTRY, b"\0")
            entries[at] = head + entries[at][_ENTRY:]
        case 2:
            entries[at] = _sized(entries[at][:_ENTRY], any_cubin(rng, entries[at][_ENTRY:]))
        case 3:
            # Packed, whatever it is: bits of LZ4 and of Zstandard.
            payload = rng.choice((entries[at][_ENTRY:], b"\x1f\0\1\0" + b"\xff" * count(rng), rng.randbytes(500)))
            flags = struct.unpack_from("<Q", entries[at], 40)[0] | rng.choice((0x2000, 0x8000))
            entries[at] = _put(_sized(entries[at][:_ENTRY], payload), 40, "<Q", flags)
            entries[at] = _put(entries[at], 16, "<I", rng.choice((len(payload), 0xFFFFFFFF, 1)))
    body = b"".join(entries)
    one = _put(data[:_FATBIN], 8, "<Q", len(body)) + body
    return (one * min(count(rng), LARGEST // len(one) + 1) if rng.random() < 0.3 else one)[:LARGEST]


def any_cubin(rng: random.Random, data: bytes) -> bytes:
    """Change machine code for a GPU: its header mostly, since little else is read."""
    if rng.random() < 0.7:
        return any_bytes(rng, data[:_ENTRY]) + data[_ENTRY:]
    return any_elf(rng, data) if rng.random() < 0.5 else any_text(rng, data)


def _sized(head: bytes, payload: bytes) -> bytes:
    payload += bytes(-len(payload) % 8)
    return _put(head, 8, "<Q", len(payload)) + payload


def _entries(data: bytes) -> list[bytes]:
    """Return the entries of the first fat binary."""
    found: list[bytes] = []
    at = _FATBIN
    while at + _ENTRY <= len(data) and len(found) < 1000:
        size = struct.unpack_from("<Q", data, at + 8)[0]
        if size > len(data):
            break
        found.append(data[at : at + _ENTRY + size])
        at += _ENTRY + size
    return found


# --- Mach-O and PE


def any_macho(rng: random.Random, data: bytes) -> bytes:
    """Change a Mach-O file: one of its load commands grows in number, or any of its bytes change."""
    if data[:4] != b"\xcf\xfa\xed\xfe" or rng.random() < 0.6:
        return any_bytes(rng, data)
    commands: list[bytes] = []
    at = 32
    while at + 8 <= len(data) and len(commands) < struct.unpack_from("<I", data, 16)[0]:
        size = struct.unpack_from("<I", data, at + 4)[0]
        if size < 8:
            break
        commands.append(data[at : at + size])
        at += size
    if not commands:
        return any_bytes(rng, data)
    chosen = rng.randrange(len(commands))
    if rng.random() < 0.5:
        changed = any_bytes(rng, commands[chosen])
        commands[chosen] = changed if len(changed) < 8 else _put(changed, 4, "<I", len(changed))
    commands += [commands[chosen]] * min(count(rng), LARGEST // (len(commands[chosen]) or 1))
    body = b"".join(commands)
    return (_put(data[:32], 16, "<II", len(commands), len(body)) + body + data[at:])[:LARGEST]


def any_pe(rng: random.Random, data: bytes) -> bytes:
    """Change a PE file: its table of imports moves to the end and grows, or any of its bytes change."""
    if len(data) < 0x400 or rng.random() < 0.6:
        return any_bytes(rng, data)
    try:
        header = struct.unpack_from("<I", data, 60)[0] + 24
        wide = struct.unpack_from("<H", data, header)[0] == 0x20B
        directory = header + (112 if wide else 96) + 8 * rng.choice((1, 13))
        section = header + struct.unpack_from("<H", data, header - 4)[0]
        address, offset = (
            struct.unpack_from("<I", data, section + 12)[0],
            struct.unpack_from("<I", data, section + 20)[0],
        )
        width = 20 if directory % 16 == (header + 8) % 16 else 32
        start = struct.unpack_from("<I", data, directory)[0] - address + offset
        table = data[start : start + width] * min(count(rng), (LARGEST - len(data)) // width) + bytes(width)
        grown = _put(data + table, directory, "<II", len(data) - offset + address, len(table))
        size = len(grown) - offset
        return _put(_put(grown, section + 8, "<I", size), section + 16, "<I", size)
    except _DAMAGED:
        return any_bytes(rng, data)


# --- wheels


def any_metadata(rng: random.Random, data: bytes) -> bytes:
    """Change a text of dist-info: a header gets another value, or the text changes anywhere."""
    if rng.random() < 0.5:
        return any_text(rng, data)
    lines = data.splitlines(keepends=True)
    key = rng.choice((*_HEADERS, *(line.partition(b":")[0].decode("utf-8", "replace") for line in lines)))
    value = rng.choice((text(rng), rng.choice(_VALUES), rng.choice(_VALUES) + text(rng), text(rng) * count(rng)))
    new = [f"{key}: {value}\n".encode("utf-8", "replace")[:LARGEST]] * min(count(rng), 1000)
    lines[(at := rng.randrange(len(lines) + 1)) : at + rng.randrange(2)] = new
    return b"".join(lines)[: 4 * LARGEST]


_HEADERS = (
    *("Name", "Version", "Requires-Dist", "Requires-Python", "Metadata-Version", "Provides-Extra", "License-File"),
    *("Tag", "Wheel-Version", "Root-Is-Purelib", "Build", "License-Expression", "Description-Content-Type"),
)
_VALUES = (
    *("demo", "1.0", "1.0+local.1", "1" + "." + "1" * 5000, "1!2.0rc1.post2.dev3", ">=3.9", "!=3.*,<4", ">=3.9,~=3.10"),
    *("torch==2.9.*; python_version < '3.12' and extra == 'x'", "torch; " + "(" * 500, "a[b,c]>=1,<2", "a @ file:///x"),
    *("nvidia-cuda-runtime-cu12==12.8.90", "text/markdown; variant=GFM", "cp311-cp311-manylinux_2_28_x86_64", "true"),
    *("py2.py3-none-any", "cp39-abi3-macosx_11_0_universal2.win_amd64", "MIT", "(MIT OR Apache-2.0)"),
)

Chosen = Callable[[str, bytes], bool]


def in_wheel(is_chosen: Chosen, change: Mutator) -> Mutator:
    """Return a mutator of one of those members of a wheel that are chosen; the rest of the archive stays right."""

    def mutator(rng: random.Random, data: bytes) -> bytes:
        found = _unzipped(data)
        places = [at for at, (info, content) in enumerate(found) if is_chosen(info.filename, content)]
        if not places:
            return any_bytes(rng, data)
        at = rng.choice(places)
        found[at] = (found[at][0], change(rng, found[at][1]))
        return _zipped(found, _comment(data), listed=rng.random() < 0.5)

    return mutator


def any_member(rng: random.Random, data: bytes) -> bytes:
    """Change a member of a wheel by what it is."""
    found = _unzipped(data)
    if not found:
        return any_bytes(rng, data)
    info, content = rng.choice(found)
    changes = [change for is_chosen, change in KINDS.values() if is_chosen(info.filename, content)]
    return in_wheel(lambda name, _: name == info.filename, rng.choice(changes or [any_bytes]))(rng, data)


def any_archive(rng: random.Random, data: bytes) -> bytes:
    """Change the archive itself: its raw bytes, its list of members, or what it says of one of them."""
    found = _unzipped(data)
    if not found or rng.random() < 0.4:
        return any_bytes(rng, data)
    at = rng.randrange(len(found))
    info, content = found[at]
    comment = _comment(data)
    match rng.randrange(8):
        case 0:
            del found[at]
        case 1:
            found.append((info, rng.choice(found)[1]))
        case 2:
            found += [(_member(f"demo/{number}"), content[:100]) for number in range(min(count(rng), 3000))]
        case 3:
            paths = (
                "",
                "/",
                "../x",
                "/etc/x",
                "a\0b",
                "a\\b",
                "C:/x",
                "demo/",
                "x" * 60_000,
                "demo-1.0.dist-info/RECORD",
            )
            found.append((_member(rng.choice((*paths, text(rng), f"demo.libs/{text(rng)}.so"))[:60_000]), content))
        case 4:
            info.external_attr = rng.choice((0o120777, 0o040755, 0o010644, 0o100755, 0xFFFF, 0)) << 16
        case 5:
            info.compress_type = rng.choice((0, 8, 12, 14))
        case 6:
            info.extra, info.comment = rng.randbytes(rng.randrange(40)), rng.randbytes(rng.randrange(40))
        case 7:
            names = ("cp311-cp311-win_amd64", "py3-none-any", "cp39-abi3-macosx_11_0_arm64", "cp311-cp311-linux_x86_64")
            comment = f"demo-1.0-{rng.choice((*names, text(rng)))}.whl".encode("utf-8", "replace")[:250]
    try:
        return _zipped(found, comment, listed=rng.random() < 0.5)
    except (ValueError, UnicodeError, struct.error):
        return any_bytes(rng, data)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo()
    info.filename, info.orig_filename, info.compress_type = name, name, zipfile.ZIP_DEFLATED
    info.external_attr = 0o100644 << 16
    return info


def _comment(data: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.comment
    except Exception:
        return b""


def _unzipped(data: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Return the members of an archive that can be read; Python's reader fails in any way it likes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()[:5000]
            if sum(info.file_size for info in infos) > 16 * LARGEST:
                return []
            return [(info, archive.read(info)) for info in infos]
    except Exception:
        return []


def _zipped(members: list[tuple[zipfile.ZipInfo, bytes]], comment: bytes, *, listed: bool) -> bytes:
    """Return an archive; where it is to be ``listed``, RECORD says what is in it."""
    if listed:
        lines = [f"{info.filename},sha256={digest(data)},{len(data)}\n" for info, data in members]
        record = "".join(line for line in lines if not line.partition(",")[0].endswith("/RECORD")).encode()
        members = [
            (info, record + f"{info.filename},,\n".encode() if info.filename.endswith(".dist-info/RECORD") else data)
            for info, data in members
        ]
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        for info, data in members:
            new = _member(info.filename)
            new.external_attr, new.extra, new.comment = info.external_attr, info.extra, info.comment
            archive.writestr(new, data, info.compress_type)
        archive.comment = comment
    return out.getvalue()


KINDS: dict[str, tuple[Chosen, Mutator]] = {
    "cubin": (
        lambda _, data: data.startswith(b"\x7fELF") and b"\x50\xed\x55\xba" in data,
        in_section(b".nv_fatbin", lambda rng, data: data[:80] + any_cubin(rng, data[80:])),
    ),
    "fatbin": (
        lambda _, data: data.startswith(b"\x7fELF") and b"\x50\xed\x55\xba" in data,
        in_section(b".nv_fatbin", any_fatbin),
    ),
    "elf": (lambda _, data: data.startswith(b"\x7fELF"), any_elf),
    "macho": (lambda _, data: data[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"), any_macho),
    "pe": (lambda _, data: data.startswith(b"MZ"), any_pe),
    "metadata": (lambda name, _: name.endswith(("/METADATA", "/WHEEL", "/RECORD")), any_metadata),
}
"""Kind of member → which ones are of it, and how these change."""


def any_wheel(rng: random.Random, data: bytes) -> bytes:
    """Change a wheel anywhere: a member by its kind, or the archive."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice((any_member, any_member, any_member, any_archive))(rng, data)
    return data
