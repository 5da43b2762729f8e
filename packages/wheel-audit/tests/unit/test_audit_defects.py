"""Each planted defect is found under its exact id; good wheels have no finding at all."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import runpy
import stat
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
from elfs import shared_object
from machos import thin
from sample import sampled
from wheels import EXTENSION, TAG, Make, digest, holding, made, without, write_wheel

from wheel_audit.auditor import audit_wheel
from wheel_audit.checks import check_ids
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity

pytestmark = pytest.mark.usefixtures("no_tools")

FULL = ExpectedWheel(
    name="demo",
    version="1.0",
    python="3.11",
    platform="linux/amd64",
    max_glibc="2.28",
    plat="manylinux_2_28_x86_64",
    excludes=("libcuda.so*", "libwidget.so*", "liblz4.so"),
    max_size=1 << 20,
    public_index=True,
)
INFO = "demo-1.0.dist-info"
NEW = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def of_version(version: str) -> Make:
    return made(filename=f"demo-{version}-{TAG}.whl", metadata=NEW.replace("1.0", version))


def ids(path: Path, expected: ExpectedWheel | None = None) -> set[str]:
    return {finding.check for finding in audit_wheel(path, expected).findings} - {"exclude-unused"}


def with_lz4(folder: Path, name: str = "liblz4-1a2b3c4d.so.1.9.4") -> Path:
    """Write a wheel with a library that auditwheel added."""
    module = shared_object(needed=[name, "libc.so.6"], runpath="$ORIGIN/../demo.libs")
    return write_wheel(folder, files={EXTENSION: module, f"demo.libs/{name}": shared_object(soname=name)})


def _rewritten(path: Path, change: Callable[[bytes], bytes]) -> Path:
    path.write_bytes(change(path.read_bytes()))
    return path


def edited(change: Callable[[bytes], bytes]) -> Make:
    """Return what writes a wheel with changed bytes."""
    return lambda folder: _rewritten(write_wheel(folder), change)


def _patched(data: bytes, offset: int, patch: bytes) -> bytes:
    return data[:offset] + patch + data[offset + len(patch) :]


def _without_sections(data: bytes) -> bytes:
    """Clear e_shoff, e_shnum and e_shstrndx: the loader does not mind."""
    return _patched(_patched(data, 40, bytes(8)), 60, bytes(4))


def _doubled(path: Path) -> Path:
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("demo/__init__.py", b"")
    return path


def _lzma(path: Path) -> Path:
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("demo/data", b"x" * 100, zipfile.ZIP_LZMA)
    return path


def _corrupted(path: Path) -> Path:
    marker = b"stored as it is"
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("demo/data", marker, zipfile.ZIP_STORED)
    return _rewritten(path, lambda data: data.replace(marker, marker.upper()))


def _hiding(data: bytes) -> bytes:
    """Insert a member that only a reader of local headers finds, before the table."""
    with zipfile.ZipFile(hidden := io.BytesIO(), "w") as zipped:
        zipped.writestr("demo/evil.py", b"1")
    table, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    more = hidden.getvalue().partition(b"PK\1\2")[0]
    return data[:table] + more + data[table : end + 16] + (table + len(more)).to_bytes(4, "little") + data[end + 20 :]


def _flagged(data: bytes) -> bytes:
    """Set the encryption bit of the first member in the central directory."""
    return _patched(data, data.index(b"PK\x01\x02") + 8, b"\1\0")


def _bomb(data: bytes) -> bytes:
    """Declare 3 GB for the first member in the central directory."""
    return _patched(data, data.index(b"PK\x01\x02") + 24, (3 << 30).to_bytes(4, "little"))


GOOD: dict[str, tuple[Make, ExpectedWheel]] = {
    "extension": (write_wheel, FULL),
    "no expected": (write_wheel, ExpectedWheel()),
    "pure": (
        made("py3-none-any", {}),
        ExpectedWheel(python="3.13", platform="linux/arm64", plat="manylinux_2_28_aarch64", pure=True),
    ),
    "abi3 on a later Python": (
        made("cp311-abi3-manylinux_2_28_x86_64", {"demo/_core.abi3.so": shared_object()}),
        ExpectedWheel(python="3.13", abi3=True, platform="linux/amd64"),
    ),
    "free-threaded": (
        made("cp314-cp314t-manylinux_2_28_x86_64", {"demo/_core.cpython-314t-x86_64-linux-gnu.so": shared_object()}),
        ExpectedWheel(python="3.14t"),
    ),
    "arm": (
        made("cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64", {"demo/_core.so": shared_object("aarch64")}),
        ExpectedWheel(platform="linux/arm64", plat="manylinux_2_28_aarch64", max_glibc="2.28"),
    ),
    "ctypes library": (made("py3-none-manylinux_2_28_x86_64", {"demo/libdemo.so": shared_object()}), FULL),
    "own libstdc++": (
        made(
            files={
                EXTENSION: shared_object(versions={"libstdc++.so.6": ["GLIBCXX_3.4.32"]}),
                "demo.libs/libstdc++-0a1b2c3d.so.6": shared_object(soname="libstdc++-0a1b2c3d.so.6"),
            }
        ),
        FULL,
    ),
    "device code beside": (
        made(files={EXTENSION: shared_object(), "demo/kernel.cubin": shared_object("cuda", kind=2)}),
        FULL,
    ),
    "musl with libgcc's version of glibc": (
        made(
            "cp311-cp311-musllinux_1_2_aarch64",
            {
                "demo/_core.so": shared_object(
                    "aarch64",
                    needed=["libgcc_s-1a2b3c4d.so.1", "libc.musl-aarch64.so.1"],
                    versions={"libgcc_s-1a2b3c4d.so.1": ["GCC_3.0", "GLIBC_2.0"]},
                    wanted=["memcpy"],
                ),
                "demo.libs/libgcc_s-1a2b3c4d.so.1": shared_object(
                    "aarch64", needed=["libc.musl-aarch64.so.1"], versions={}
                ),
            },
        ),
        ExpectedWheel(platform="linux/arm64", plat="musllinux_1_2_aarch64"),
    ),
    "musl": (
        made(
            "cp311-cp311-musllinux_1_2_x86_64",
            {"demo/_core.so": shared_object(needed=["libc.musl-x86_64.so.1"], versions={})},
        ),
        ExpectedWheel(platform="linux/amd64", plat="musllinux_1_2_x86_64"),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_wheel_has_no_findings(name: str, tmp_path: Path) -> None:
    make, expected = GOOD[name]
    report = audit_wheel(make(tmp_path), expected)
    assert {finding.check for finding in report.findings} <= {"exclude-unused"}
    assert report.ok


DEFECTS: dict[str, tuple[str, Make]] = {
    "wrong machine": ("elf-machine", holding(shared_object("aarch64"))),
    "mach-o in a Linux wheel": ("elf-foreign", holding(thin())),
    "broken ELF": ("elf-unreadable", holding(b"\x7fELF" + bytes(100))),
    "hidden section headers": ("elf-unreadable", holding(_without_sections(shared_object()))),
    "endless section headers": ("elf-unreadable", holding(_patched(shared_object(), 58, b"\0\0"))),
    "arm wheel in an amd64 cell": ("promised-platform", made("py3-none-manylinux_2_28_aarch64", {})),
    "bare linux tag": ("linux-tag", made("cp311-cp311-linux_x86_64")),
    "tag that no installer takes": ("tag-refused", made("cp311-cp311-win64", {})),
    "tag too new": ("promised-plat", made("cp311-cp311-manylinux_2_34_x86_64")),
    "glibc above the tag": ("glibc-floor", holding(shared_object(versions={"libc.so.6": ["GLIBC_2.34"]}))),
    "relative relocations need glibc 2.36": (
        "glibc-floor",
        holding(shared_object(versions={"libc.so.6": ["GLIBC_ABI_DT_RELR"]})),
    ),
    "libstdc++ above the tag": (
        "glibcxx-floor",
        holding(shared_object(versions={"libstdc++.so.6": ["GLIBCXX_3.4.25"]})),
    ),
    "glibc in a musl wheel": ("libc-family", made("cp311-cp311-musllinux_1_2_x86_64")),
    "musl in a manylinux wheel": ("libc-family", holding(shared_object(needed=["libc.musl-x86_64.so.1"], versions={}))),
    "bundled libcudart": (
        "bundled-library",
        holding(shared_object(soname="libcudart-1b2c3d4e.so.12"), "demo.libs/libcudart-1b2c3d4e.so.12.8.57"),
    ),
    "excluded by a near miss": ("exclude-near-miss", with_lz4),
    "relocatable device code that was not linked": (
        "device-link",
        holding(
            shared_object(
                needed=["libcudart.so.12", "libc.so.6"], wanted=["__cudaRegisterLinkedBinary_1a2b_4_a_cu_5f6e_7"]
            )
        ),
    ),
    "excluded library in the package": (
        "bundled-library",
        holding(shared_object(soname="libwidget.so.2"), "demo/lib/widget.so"),
    ),
    "wrong Python": ("promised-python", made("cp312-cp312-manylinux_2_28_x86_64", {})),
    "free-threaded for a plain Python": ("promised-python", made("cp311-cp311t-manylinux_2_28_x86_64", {})),
    "stable ABI of a later Python": ("promised-python", made("cp312-abi3-manylinux_2_28_x86_64", {})),
    "Requires-Python refuses": (
        "promised-python",
        made(metadata="Name: demo\nVersion: 1.0\nRequires-Python: >=3.8,<3.11\n"),
    ),
    "Requires-Python is nonsense": (
        "promised-python",
        made(metadata="Name: demo\nVersion: 1.0\nRequires-Python: three\n"),
    ),
    "Requires-Python against the tag": (
        "requires-python",
        made(metadata="Name: demo\nVersion: 1.0\nRequires-Python: >=3.12\n"),
    ),
    "Requires-Python below a stable ABI": (
        "requires-python",
        made("cp311-abi3-manylinux_2_28_x86_64", {}, metadata="Name: demo\nVersion: 1.0\nRequires-Python: <3.11\n"),
    ),
    "extension of another Python beside the right one": (
        "extension-abi",
        made(files={EXTENSION: shared_object(), EXTENSION.replace("311", "310"): shared_object()}),
    ),
    "extension of PyPy beside the right one": (
        "extension-abi",
        made(files={EXTENSION: shared_object(), "demo/_core.pypy310-pp73-x86_64-linux-gnu.so": shared_object()}),
    ),
    "extension with the name of another machine": (
        "extension-abi",
        holding(shared_object(), EXTENSION.replace("x86_64", "aarch64")),
    ),
    "extension of another Python": (
        "extension-abi",
        holding(shared_object(), "demo/_core.cpython-310-x86_64-linux-gnu.so"),
    ),
    "stable ABI in name only": ("extension-abi", made("cp311-abi3-manylinux_2_28_x86_64")),
    "not a wheel's name": ("wheel-filename", made(filename="demo.whl")),
    "another project": ("promised-name", made(filename=f"other-1.0-{TAG}.whl")),
    "another version": ("promised-version", made(filename=f"demo-2.0-{TAG}.whl")),
    "METADATA names another project": ("metadata-name", made(metadata="Name: other\nVersion: 1.0\n")),
    "METADATA has another version": ("metadata-version", made(metadata="Name: demo\nVersion: 1.0.1\n")),
    "renamed to another tag": (
        "metadata-tags",
        made("cp311-cp311-linux_x86_64", filename="demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
    ),
    "Tag line is none": ("metadata-tags", made(wheel="Root-Is-Purelib: false\nTag: cp311\n")),
    "build tag differs": ("metadata-build", made(filename=f"demo-1.0-7-{TAG}.whl")),
    "no Root-Is-Purelib": ("root-is-purelib", made(wheel=f"Wheel-Version: 1.0\nTag: {TAG}\n")),
    "machine code under any": ("any-tag", made("py3-none-any", {"demo/libdemo.so": shared_object()})),
    "two dist-info folders": ("dist-info", made(unlisted={"other-1.0.dist-info/METADATA": b""})),
    "no RECORD": ("dist-info", lambda folder: without(write_wheel(folder), f"{INFO}/RECORD")),
    "LFS pointer as data": ("lfs-pointer", made(files={"demo/data.npz": POINTER})),
    "LFS pointer as a library": ("lfs-pointer", holding(POINTER, "demo/lib/libx.so.1")),
    "empty library": ("library-content", holding(b"")),
    "text as a library": ("library-content", holding(b"../lib/libx.so.1", "demo/libx.so")),
    "data of another project": ("data-folder", made(files={"other-1.0.data/scripts/run": b""})),
    "data of another version": ("data-folder", made(files={"demo-1.1.data/scripts/run": b""})),
    "data in no scheme": ("data-folder", made(files={"demo-1.0.data/bin/run": b""})),
    "data without a scheme": ("data-folder", made(files={"demo-1.0.data/run": b""})),
    "missing licence": (
        "license-file",
        made(metadata=NEW + "License-File: LICENSE\n", files={f"{INFO}/LICENSE": b"at the place of old tools"}),
    ),
    "missing licence of old metadata": (
        "license-file",
        made(metadata=NEW.replace("2.4", "2.1") + "License-File: COPYING\n"),
    ),
    "entry points are no table": ("entry-points", made(files={f"{INFO}/entry_points.txt": b"demo = demo:main\n"})),
    "command without a function": (
        "entry-points",
        made(files={f"{INFO}/entry_points.txt": b"[console_scripts]\ndemo = demo\n"}),
    ),
    "entry point with a dash": (
        "entry-points",
        made(files={f"{INFO}/entry_points.txt": b"[plug.ins]\ndemo = my-demo:run\n"}),
    ),
    "wheel 2.0": ("wheel-version", made(wheel=f"Wheel-Version: 2.0\nRoot-Is-Purelib: false\nTag: {TAG}\n")),
    "field newer than the metadata": (
        "metadata-field",
        made(metadata=NEW.replace("2.4", "2.3") + "License-Expression: MIT\n"),
    ),
    "dynamic before 2.2": ("metadata-field", made(metadata=NEW.replace("2.4", "2.1") + "Dynamic: Requires-Dist\n")),
    **{
        f"version {version}": ("fallback-version", of_version(version))
        for version in ("0", "0.0.0", "0.0", "0.1.dev3", "0.0.1.dev4", "0.0.0.post1.dev0")
    },
    **{
        line.partition(":")[0] + str(number): (
            "index-refuses",
            made(metadata=f"{NEW}{line}\n"),
        )
        for number, line in enumerate(
            (
                "Requires-Dist: other @ https://example.org/other-1.0.tar.gz",
                "Summary: " + "long " * 110,
                "Classifier: Private :: Do Not Upload",
                "Project-URL: a label that has more than 32 characters, https://example.org",
                "Project-URL: Home, example.org",
                "Home-page: example.org",
                "Author-email: somebody@nowhere",
            )
        )
    },
    "missing RECORD line": ("record-unlisted", made(edit_record=lambda text: text.partition("\n")[2])),
    "unlisted file": ("record-unlisted", made(unlisted={"demo/more.py": b"1"})),
    "listed twice": ("record-duplicate", made(edit_record=lambda text: text.partition("\n")[0] + "\n" + text)),
    "listed but absent": ("record-absent", made(edit_record=lambda text: f"demo/gone.py,sha256=x,1\n{text}")),
    "absolute path in RECORD": ("record-path", made(edit_record=lambda text: f"/etc/passwd,sha256=x,1\n{text}")),
    "wrong hash": ("record-hash", made(edit_record=lambda text: text.replace("sha256=", "sha256=A", 1))),
    "wrong size": ("record-size", made(edit_record=lambda text: text.replace(",0\n", ",7\n", 1))),
    "RECORD is no table": ("record-malformed", made(edit_record=lambda text: "x\n")),
    "path leads out": ("archive-path", made(files={"../evil.py": b""})),
    "absolute path": ("archive-path", made(files={"/tmp/evil.py": b""})),
    "backslash path": ("archive-path", made(files={"demo\\evil.py": b""})),
    "symbolic link": (
        "archive-link",
        made(files={"demo/link": b"/etc/passwd"}, modes={"demo/link": stat.S_IFLNK | 0o777}),
    ),
    "device": ("archive-link", made(files={"demo/dev": b""}, modes={"demo/dev": stat.S_IFCHR | 0o600})),
    "setuid": ("archive-mode", made(files={"demo/run": b""}, modes={"demo/run": 0o104755})),
    "world-writable": ("archive-mode", made(files={"demo/run": b""}, modes={"demo/run": 0o100666})),
    "same path twice": ("archive-duplicate", lambda folder: _doubled(write_wheel(folder))),
    "bad checksum": ("archive-damaged", lambda folder: _corrupted(write_wheel(folder))),
    "encrypted": ("archive-encrypted", edited(_flagged)),
    "lzma": ("archive-compression", lambda folder: _lzma(write_wheel(folder))),
    "zip bomb": ("archive-bomb", edited(_bomb)),
    "truncated": ("archive-unreadable", edited(lambda data: data[:-40])),
    "garbage": ("archive-unreadable", edited(lambda data: b"PK" * 999)),
    "empty": ("archive-unreadable", edited(lambda data: b"")),
    "bytes after the archive": ("archive-layout", edited(lambda data: data + b"x")),
    "bytes before the archive": ("archive-layout", edited(lambda data: b"#!/bin/sh\n" + data)),
    "member that the table lacks": ("archive-layout", edited(_hiding)),
    "header with another size": ("archive-layout", edited(lambda data: _patched(data, 18, b"\1\0\0\0"))),
    "too large": ("size-limit", edited(lambda data: bytes(2 << 20) + data)),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_an_error_with_its_id(name: str, tmp_path: Path) -> None:
    check, make = DEFECTS[name]
    report = audit_wheel(make(tmp_path), FULL)
    assert check in {finding.check for finding in report.findings if finding.severity is Severity.ERROR}
    assert not report.ok
    assert {finding.check for finding in report.findings} <= check_ids().keys()


def test_every_check_id_is_planted() -> None:
    elsewhere = {"auditwheel-policy", "external-library", "promised-abi3", "promised-pure", "device-arch-variant"}
    for name in ("bar", "device", "source", "systems", "undefined"):
        (path,) = Path(__file__).parents[1].glob(f"*/test_audit_{name}.py")
        table = runpy.run_path(str(path))["DEFECTS"]
        elsewhere |= {check for check, *_ in table.values()}
    elsewhere |= {"audit-limit", "audit-failed"}  # test_hostile_wheels.py
    elsewhere |= {"exclude-unused", "requirement-absent"}  # below
    elsewhere |= {
        "extra-undeclared",
        "no-machine-code",
        "device-folder-absent",
        "native-absent",
    }  # test_a_folder_of_compiled_files…, test_what_only_warns, test_a_platform_without_machine_code, test_each_folder_…
    elsewhere |= {"promised-torch-abi"}  # test_audit_torch.py
    elsewhere |= {"variant-file", "variant-label", "variant-property"}  # test_variant.py
    contents = {check for check in check_ids() if check.startswith("wheel-contents")}  # test_audit_tools.py
    assert {check for check, _ in DEFECTS.values()} | elsewhere | contents == check_ids().keys()


def _hashed(algorithm: str, text: str) -> str:
    """Return RECORD with the digests of another algorithm, for the empty file and the module."""
    for data in (b"", shared_object()):
        other = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
        text = text.replace(f"sha256={digest(data)}", f"{algorithm}={other}")
    return text


@pytest.mark.parametrize(
    ("edit", "is_right"),
    [
        (partial(_hashed, "sha384"), True),
        (partial(_hashed, "sha512"), True),
        (partial(_hashed, "sha1"), False),
        (partial(_hashed, "md5"), False),
        (lambda text: _hashed("sha512", text).replace("sha512=", "sha384="), False),
        (lambda text: text.replace(",0\n", ",\n"), True),
    ],
)
def test_what_record_may_have(tmp_path: Path, edit: Callable[[str], str], is_right: bool) -> None:
    assert ids(write_wheel(tmp_path, edit_record=edit), FULL) == (set() if is_right else {"record-hash"})


@pytest.mark.parametrize(
    ("name", "build", "is_right"),
    [
        ("01cu128", "01cu128", True),
        ("1cu128", "01cu128", True),
        ("0", "00", True),
        ("01", "10", False),
        ("1a", "1b", False),
    ],
)
def test_build_tags_are_compared_as_installers_do(tmp_path: Path, name: str, build: str, is_right: bool) -> None:
    text = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nBuild: {build}\nTag: {TAG}\n"
    path = write_wheel(tmp_path, filename=f"demo-1.0-{name}-{TAG}.whl", wheel=text)
    assert ids(path) == (set() if is_right else {"metadata-build"})


@pytest.mark.parametrize("version", ["0.0.1", "0.1", "0.1.0.dev1", "0.0.2.dev1", "0.2.dev1", "1.0+local"])
def test_a_small_version_is_no_fallback(tmp_path: Path, version: str) -> None:
    assert "fallback-version" not in ids(of_version(version)(tmp_path))


@pytest.mark.parametrize("version", ["0", "0+unknown", "0.1.dev3+g1a2b3c4", "1.0+unknown", "0+untagged.4.g1a2b3c4"])
def test_without_a_public_index_a_fallback_version_only_warns(tmp_path: Path, version: str) -> None:
    findings = audit_wheel(of_version(version)(tmp_path)).findings
    assert [item.severity for item in findings if item.check == "fallback-version"] == [Severity.WARNING]


def test_what_installers_take(tmp_path: Path) -> None:
    points = "[console_scripts]\nDemo.run = demo:main\nother = elsewhere.cli:run [fast]\n[x.y]\na = demo\n# comment\n"
    files = {
        EXTENSION: shared_object(),
        "demo-1.0.data/scripts/run": b"",
        "demo-1.0.data/data/share/x": b"",
        "demo/libx.so": b"/* GNU ld script */ INPUT(libx.so.1)",
        f"{INFO}/licenses/sub/LICENSE": b"",
        f"{INFO}/entry_points.txt": points.encode(),
    }
    metadata = NEW + "License-File: sub/LICENSE\nProvides-Extra: Fast_Path\nRequires-Dist: x; extra == 'fast-path'\n"
    assert not ids(write_wheel(tmp_path, files=files, metadata=metadata), FULL)
    # setuptools before 77
    metadata = NEW.replace("2.4", "2.1") + "License-File: sub/LICENSE\n"
    files = {EXTENSION: shared_object(), f"{INFO}/LICENSE": b""}
    assert not ids(write_wheel(tmp_path, files=files, metadata=metadata), FULL)


ARM = shared_object("aarch64")
HELPER = {"demo/data/helper_arm64.so": ARM}


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        ({EXTENSION: shared_object(), **HELPER}, Severity.WARNING),
        (HELPER, Severity.ERROR),
        ({"demo/libdemo.so": shared_object(), EXTENSION: ARM}, Severity.ERROR),
        ({"demo/libdemo.so": shared_object(), "demo/_c.so": shared_object("aarch64", defined=["PyInit__c"])}, Severity.ERROR),
        ({EXTENSION: shared_object(), "demo.libs/libz-1a2b3c4d.so.1": ARM}, Severity.ERROR),
        (
            {
                EXTENSION: shared_object(needed=["liba.so"]),
                "demo/liba.so": shared_object(needed=["libb.so"]),
                "demo/libb.so": ARM,
            },
            Severity.ERROR,
        ),
    ],
)  # fmt: skip
def test_what_is_for_another_machine(files: dict[str, bytes], severity: Severity, tmp_path: Path) -> None:
    for expected in (ExpectedWheel(), FULL):
        findings = audit_wheel(write_wheel(tmp_path, files=files), expected).findings
        assert [item.severity for item in findings if item.check == "elf-machine"] == [severity]


def test_what_only_warns(tmp_path: Path) -> None:
    files = {EXTENSION: shared_object(), f"{INFO}/entry_points.txt": b"[console_scripts]\nrun = demo.cli:main\n"}
    metadata = NEW + "Requires-Dist: x; extra == 'fast'\n"
    report = audit_wheel(write_wheel(tmp_path, files=files, metadata=metadata), FULL)
    assert {(f.check, f.severity) for f in report.findings if f.severity is not Severity.INFO} == {
        ("entry-points", Severity.WARNING),
        ("extra-undeclared", Severity.WARNING),
    }


@pytest.mark.parametrize("pattern", ["liblz4", "lz4*", "liblz4.so", "liblz4.so.2", "/usr/lib/liblz4.so.1", "LIBLZ4.so"])
def test_a_near_miss_of_an_exclude_pattern(tmp_path: Path, pattern: str) -> None:
    findings = audit_wheel(with_lz4(tmp_path), ExpectedWheel(excludes=(pattern,))).findings
    assert [(f.check, f.severity) for f in findings] == [("exclude-near-miss", Severity.ERROR)]
    assert repr(pattern) in findings[0].message


@pytest.mark.parametrize("pattern", ["libother.so.1", "liblz*.so.9", "liblz41.so"])
def test_an_exclude_pattern_without_a_match_is_a_note(tmp_path: Path, pattern: str) -> None:
    findings = audit_wheel(with_lz4(tmp_path, "libzstd-1a2b3c4d.so.1"), ExpectedWheel(excludes=(pattern,))).findings
    assert [(f.check, f.severity) for f in findings] == [("exclude-unused", Severity.INFO)]


def test_an_exclude_pattern_that_matches_a_needed_library(tmp_path: Path) -> None:
    path = holding(shared_object(needed=["libwidget.so.2", "libc.so.6"]))(tmp_path)
    assert not ids(path, ExpectedWheel(excludes=("libwidget.so*",)))


@pytest.mark.parametrize(
    ("library", "requires", "runpath", "is_found"),
    [
        ("libcudart.so.12", "", "", True),
        ("libcublas.so.12", "numpy", "", True),
        ("libcudart.so.12", "nvidia-cuda-runtime-cu12>=12.8", "", False),
        ("libcudart.so.12", "torch==2.11.*", "", False),
        ("libcudnn.so.9", "jax[cuda12]", "", False),
        ("libcudart.so.12", "cupy_cuda12x", "", False),
        ("libcudart.so.12", "", "$ORIGIN/../nvidia/cuda_runtime/lib", False),
        ("libcuda.so.1", "", "", False),
        ("libtensorflow_framework.so.2", "", "", True),
        ("libtensorflow_framework.so.2", "tensorflow==2.20.*", "", False),
        ("libarrow.so.2100", "numpy", "", True),
    ],
)
def test_what_brings_the_libraries_of_others(
    tmp_path: Path, library: str, requires: str, runpath: str, is_found: bool
) -> None:
    metadata = NEW + (f"Requires-Dist: {requires}\n" if requires else "")
    files = {EXTENSION: shared_object(needed=[library, "libc.so.6"], runpath=runpath)}
    findings = audit_wheel(write_wheel(tmp_path, files=files, metadata=metadata)).findings
    said = [(f.check, f.severity) for f in findings if f.check == "requirement-absent"]
    assert said == [("requirement-absent", Severity.WARNING)] * is_found


def test_a_platform_without_machine_code(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "py3-none-manylinux_2_28_x86_64", {"demo/data.json": b"{}"})
    findings = audit_wheel(path, FULL).findings
    assert [(f.check, f.severity) for f in findings] == [("no-machine-code", Severity.WARNING)]
    # Code for a GPU is no code of this machine, and its file may be the purpose of the wheel.
    kernels = write_wheel(tmp_path, "py3-none-manylinux_2_28_x86_64", {"demo/k.cubin": shared_object("cuda")})
    assert not ids(kernels)


def test_an_amd64_build_in_an_arm64_cell_is_caught(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "cp311-cp311-manylinux_2_28_aarch64", {"demo/_core.so": shared_object()})
    assert ids(path, ExpectedWheel(platform="linux/arm64")) == {"elf-machine"}
    assert ids(write_wheel(tmp_path), ExpectedWheel(platform="linux/arm64")) == {"elf-machine", "promised-platform"}


def test_a_stable_abi_wheel_can_be_refused_or_demanded(tmp_path: Path) -> None:
    stable = write_wheel(tmp_path, "cp311-abi3-manylinux_2_28_x86_64", {"demo/_core.abi3.so": shared_object()})
    assert ids(stable, ExpectedWheel(python="3.11", abi3=False)) == {"promised-abi3"}
    assert ids(write_wheel(tmp_path), ExpectedWheel(python="3.11", abi3=True)) == {"promised-abi3"}
    assert ids(stable, ExpectedWheel(python="3.13t")) == {"promised-python"}
    assert not ids(stable, ExpectedWheel(python="3.11", abi3=True, pythons=("3.11", "3.14")))
    assert ids(stable, ExpectedWheel(python="3.11", abi3=True, pythons=("3.9", "3.11"))) == {"promised-python"}


def test_purity_against_the_promise(tmp_path: Path) -> None:
    assert ids(write_wheel(tmp_path), ExpectedWheel(pure=True)) == {"promised-pure"}
    assert ids(write_wheel(tmp_path, "py3-none-any", {}), ExpectedWheel(pure=False)) == {"promised-pure"}


def test_without_a_promise_a_linux_tag_only_warns(tmp_path: Path) -> None:
    report = audit_wheel(write_wheel(tmp_path, "cp311-cp311-linux_x86_64"))
    assert [(f.check, f.severity) for f in report.findings] == [("linux-tag", Severity.WARNING)]
    assert report.ok


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("demo/lib/libcudart.so.12", Severity.INFO),
        ("demo/lib/libcuda.so.1", Severity.ERROR),
        ("demo/libnvidia-ml.so.1", Severity.ERROR),
        ("demo/lib/stubs/libcuda.so", Severity.INFO),
        *(
            (f"demo.libs/{name}-1a2b3c4d.so.12", Severity.ERROR)
            for name in ("libnppc", "libnvjpeg", "libnvvm", "libcufftMp", "libnvblas")
        ),
    ],
)
def test_known_libraries_in_the_wheel(path: str, severity: Severity, tmp_path: Path) -> None:
    """In the project's own folder, another wheel's library is only mentioned; the driver's belongs to the machine."""
    findings = audit_wheel(holding(shared_object(), path)(tmp_path)).findings
    assert [(f.check, f.severity) for f in findings] == [("bundled-library", severity)]


def test_many_findings_of_one_check_are_cut(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, unlisted={f"demo/{number}.py": b"" for number in range(200)})
    findings = audit_wheel(path).findings
    assert len(findings) == 51
    assert findings[-1].message == "and 150 more findings of this kind"


def test_a_file_that_cannot_be_opened_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        audit_wheel(tmp_path / f"demo-1.0-{TAG}.whl")


@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_no_damage_to_the_archive_raises(tmp_path: Path, seed: int) -> None:
    path = write_wheel(tmp_path)
    sound = path.read_bytes()
    random = Random(seed)
    for _ in range(100):
        at, length = random.randrange(len(sound)), random.choice((1, 2, 4, 8))
        path.write_bytes(_patched(sound, at, random.randbytes(length)))
        json.dumps(audit_wheel(path, FULL).to_json())


@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_no_damage_to_an_object_raises(tmp_path: Path, seed: int) -> None:
    sound = shared_object(versions={"libc.so.6": ["GLIBC_2.17"], "libstdc++.so.6": ["GLIBCXX_3.4.20"]})
    random = Random(seed)
    for _ in range(100):
        at, length = random.randrange(len(sound)), random.choice((1, 2, 4, 8))
        path = holding(_patched(sound, at, random.choice((b"\xff", b"\0", b"\x7f")) * length))(tmp_path)
        json.dumps(audit_wheel(path, FULL).to_json())


class _Pipe(io.BytesIO):
    """A file that cannot be sought: zipfile writes sizes and checksums after the content."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    seek = None  # type: ignore[assignment]


@pytest.mark.parametrize("target", [io.BytesIO, _Pipe])
@pytest.mark.parametrize("large", [True, False])
def test_archives_of_all_kinds(tmp_path: Path, target: type[io.BytesIO], large: bool) -> None:
    path = write_wheel(tmp_path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy := target(), "w") as new:
        new.comment = b"made by a tool"
        new.writestr(zipfile.ZipInfo("demo/"), b"")
        for info in old.infolist():
            with new.open(info.filename, "w", force_zip64=large) as member:
                member.write(old.read(info))
    path.write_bytes(copy.getvalue())
    assert not ids(path)


@pytest.mark.parametrize("folder", ["src/demo/lib", "demo/lib", "lib"])
def test_a_folder_of_compiled_files_is_in_the_wheel(folder: str, tmp_path: Path) -> None:
    there = write_wheel(tmp_path, files={f"{folder.removeprefix('src/')}/libdemo.so": shared_object()})
    assert "native-absent" not in ids(there, ExpectedWheel(native=folder))
    lost = write_wheel(tmp_path, files={"demo/libdemo.so": shared_object()})
    assert "native-absent" in ids(lost, ExpectedWheel(native=folder))
