"""Reads IREE modules (``.vmfb``): their functions, and their code for each kind of device.

A module is a FlatBuffer (identifier ``IREE``, after a length of four or eight bytes). Usually it is the first member of a
zip archive; the other members are code, named after its format: ``main_dispatch_0_cuda_nvptx_fb.fb`` (iree-compile
3.13.0, 2026-11-21). Modules are untrusted: they are read within limits and never executed.
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import AuditError
from bakery_iree.mlir import Function, Type, plain_type
from wheel_audit.limits import OverLimit
from wheel_audit.plain_files import open_plain
from wheel_audit.zips import ZIP_ERRORS, error_text, open_zip

LARGEST = 1024**3
"""Maximum size of the code, in bytes. The weights of a module are not read."""

MOST = 10_000
"""Maximum number of members of a module."""

FORMATS = {
    "embedded_elf_x86_64.so": "cpu",
    "embedded_elf_arm_64.so": "cpu",
    "cuda_nvptx_fb.fb": "cuda",
    "vulkan_spirv_fb.fb": "vulkan",
    "metal_msl_fb.fb": "metal",
    "rocm_hsaco_fb.fb": "rocm",
}
"""Suffix of a member's name → kind of device."""

_MACHINES = {62: "x86_64", 183: "aarch64"}
"""e_machine of ELF."""

_AMDGPU = 224
_SPIRV = b"\x03\x02\x23\x07"
_PTX = re.compile(rb"\.version [0-9]+\.[0-9]+\s+\.target (sm_[0-9]+[a-z]?)\b[^\0]*")
_METAL = re.compile(rb"#include <metal_stdlib>[^\0]*")
_KERNEL = re.compile(rb"\bkernel void (\w+)")
_ROCM = re.compile(rb"amdhsa-unknown-(gfx[0-9a-f]+)")
_FUNCTION = re.compile(rb"\ba?sync func @([\w$.-]+)\(")
_PARAMETER = re.compile(r"(?:, |\A)%(?:input|output)\d+: ")


@dataclass(frozen=True, slots=True)
class Code:
    """Code for a device.

    Attributes:
        name: of the archive's member.
        kind: the kind of device, a value of `FORMATS`.
        architecture: ``x86_64``, ``sm_80``, ``gfx942``; empty if the format does not contain it.
        texts: PTX, SPIR-V, Metal source, or an ELF file.
    """

    name: str
    kind: str
    architecture: str
    texts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Vmfb:
    """An IREE module. The compiler adds some functions to those of the source."""

    functions: tuple[Function, ...]
    codes: tuple[Code, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of devices that it has code for."""
        return tuple(sorted({code.kind for code in self.codes}))


def read_vmfb(path: Path) -> Vmfb:
    """Read a module. Raises AuditError if it is not a module, is incomplete, or cannot be read."""
    try:
        with open_plain(path, follow=True) as file:
            start, size = file.read(64), file.seek(0, 2)
            if start.startswith(b"PK\x03\x04"):
                with open_zip(file) as archive:
                    return _read_archive(path, archive)
            if size > LARGEST:
                raise AuditError(f"{path} is too large for a module in one piece")
            file.seek(0)
            return Vmfb(_functions(path, file.read()), ())
    except (OverLimit, *ZIP_ERRORS) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error_text(error)
        raise AuditError(
            f"{path} is not an IREE module: {reason}", hint="it may be incomplete: compile it again"
        ) from error


def _read_archive(path: Path, archive: zipfile.ZipFile) -> Vmfb:
    members = archive.infolist()
    if not members or members[0].filename != "module.fb" or len(members) > MOST:
        raise AuditError(f"{path} is not an IREE module: its first member is not module.fb")
    code_members = [
        (member, kind) for member in members for end, kind in FORMATS.items() if member.filename.endswith(end)
    ]
    used = [members[0], *(member for member, _ in code_members)]
    if any(member.compress_type != zipfile.ZIP_STORED for member in used):
        # IREE maps members into memory. This check also means that a small file cannot expand.
        raise AuditError(f"{path} is not an IREE module: a member is compressed")
    if sum(member.file_size for member in used) > LARGEST:
        raise AuditError(f"{path} has more than {LARGEST} bytes of code")
    functions = _functions(path, archive.read(members[0]))
    return Vmfb(functions, tuple(_code(member.filename, kind, archive.read(member)) for member, kind in code_members))


def _functions(path: Path, data: bytes) -> tuple[Function, ...]:
    if b"IREE" not in (data[8:12], data[4:8], data[12:16]):
        raise AuditError(f"{path} is not an IREE module", hint="expected what iree-compile writes, a .vmfb file")
    if int.from_bytes(data[:4], "little") > len(data):
        raise AuditError(f"{path} is incomplete", hint="compile it again")
    functions = {function.name: function for function in _declarations(data)}
    return tuple(functions[name] for name in sorted(functions))


def _declarations(data: bytes) -> Iterator[Function]:
    """Yield what texts such as ``sync func @f(%input0: tensor<f32>) -> ()`` declare; each text ends with a NUL byte."""
    at = 0
    while match := _FUNCTION.search(data, at):
        end = data.find(b"\0", match.end())
        text = data[match.end() : end if end >= 0 else match.end()]
        arguments, arrow, results = text.partition(b") -> (")
        if arrow and (end_of_results := _end_of_results(results)) >= 0:
            yield Function(match[1].decode(), _types(arguments), _types(results[:end_of_results]))
        # Nothing that begins later in a text ends otherwise.
        at = max(end, match.end())


def _end_of_results(text: bytes) -> int:
    """Return the end of a declaration's results; -1 if there is none."""
    attributes = text.find(b") attributes")
    return attributes if attributes >= 0 else len(text) - 1 if text.endswith(b")") else -1


def _types(text: bytes) -> tuple[Type, ...]:
    texts = _PARAMETER.split(text.decode("utf-8", "replace"))[1:]
    return tuple(Type(plain_type(item).strip()) for item in texts)


def _code(name: str, kind: str, data: bytes) -> Code:
    architecture, texts = "", [data]
    if kind == "cpu":
        architecture = _MACHINES.get(_elf_machine(data), "")
    elif kind == "cuda":
        programs = list(_PTX.finditer(data))
        architecture = programs[0][1].decode() if programs else ""
        texts = [match[0] for match in programs]
    elif kind == "rocm":
        match = _ROCM.search(data)
        at = data.find(b"\x7fELF")
        architecture = match[1].decode() if match and at >= 0 and _elf_machine(data[at:]) == _AMDGPU else ""
    elif kind == "metal":
        texts = [match[0] for match in _METAL.finditer(data)]
    elif kind == "vulkan":
        texts = _spirv(data)
    return Code(name, kind, architecture, tuple(texts))


def _elf_machine(data: bytes) -> int:
    if not data.startswith(b"\x7fELF") or len(data) < 20:
        return 0
    return int(struct.unpack_from("<H", data, 18)[0])


def _spirv(data: bytes) -> list[bytes]:
    """Return the SPIR-V modules of a FlatBuffer: vectors of words, after their length.

    Raises AuditError if its modules overlap so much that reading them would take too long.
    """
    modules = []
    left = 2 * len(data)
    at = data.find(_SPIRV, 4)
    while at >= 0:
        size = 4 * int.from_bytes(data[at - 4 : at], "little")
        if at % 4 == 0 and 20 <= size <= len(data) - at:
            left -= size
            if left < 0:
                raise AuditError("its SPIR-V modules overlap", hint="no compiler writes such a module")
            if not spirv_problem(data[at : at + size]):
                modules.append(data[at : at + size])
                at += size - 4
        at = data.find(_SPIRV, at + 4)
    return modules


def spirv_problem(data: bytes) -> str:
    """Return why bytes are not SPIR-V (specification 1.6, section 2.3): a header, then instructions up to the last byte."""
    if len(data) < 20 or len(data) % 4:
        return "no header"
    words = array("I", data)
    if sys.byteorder == "big":
        words.byteswap()
    at, operations = 5, Counter[int]()
    while at < len(words):
        count, operation = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            return f"an instruction that does not end, at word {at}"
        operations[operation] += 1
        at += count
    # OpFunction, OpFunctionEnd
    if operations[54] != operations[56]:
        return "a function that does not end"
    # OpMemoryModel, OpEntryPoint
    return "" if operations[14] and operations[15] else "no entry point"


def spirv_version(data: bytes) -> str:
    """Return the version in the header of a SPIR-V module: ``1.0``."""
    return f"{data[6]}.{data[5]}"


def as_spirv_1_6(data: bytes) -> bytes:
    """Return a SPIR-V module with version 1.6 in its header."""
    return data[:4] + b"\x00\x06\x01\x00" + data[8:]


def metal_kernels(text: bytes) -> list[str]:
    """Return the names of the kernels in Metal source."""
    return [match.decode() for match in _KERNEL.findall(text)]
