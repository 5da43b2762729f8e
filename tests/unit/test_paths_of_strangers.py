"""Only `bakery.core.inside` and `bakery.core.files` write files, copy, unpack, and open paths that a stranger may have named.

A line that does so elsewhere is in `ALLOWED`, with the reason: its folder is one that bakery made, and no stranger can
write there. A new one fails here: use `Inside`, `open_plain`, `read_plain` or `files.write` instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from own_sources import ROOT, nodes, trees

WRITES = {"write_text", "write_bytes", "extractall", "extract", "symlink_to", "hardlink_to"}
COPIES = {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move", "unpack_archive")}
OPENS = {"open", "os.open", "io.open"}
READS = {"read_text", "read_bytes"}

OWN = ("core/inside.py", "core/files.py", "wheel_audit/plain_files.py")
"""The modules themselves."""

ALLOWED = {
    "runs/audited.py": (1, "files of an installed package"),
    "runs/buildx/bake.py": (2, "the run's folder, in the state folder"),
    "runs/cibuildwheel/process.py": (2, "the run's folder"),
    "runs/cibuildwheel/run.py": (1, "the run's folder"),
    "runs/compiler_cache.py": (1, "the run's folder"),
    "runs/journal.py": (1, "the state folder"),
    "runs/lock/differences.py": (1, "a temporary folder"),
    "runs/lock/pins.py": (2, "the state folder"),
    "runs/publish.py": (2, "a folder without links (`refuse_links`), opened for its lock"),
    "runs/records/recorder.py": (1, "the run's folder"),
    "runs/run_folders.py": (4, "the state folder"),
    "runs/secrets/read.py": (2, "a private temporary folder, and a secret's file that the user allowed"),
    "cli/console.py": (1, "the summary file of GitHub's runner"),
    "cli/failures.py": (2, "the null device"),
    "cli/kept_runs.py": (1, "a file that the user names"),
    "core/file_locks.py": (5, "locks of the user's own folders, and /proc"),
    "core/git.py": (4, "a temporary folder"),
    "engine/ca_bundle.py": (1, "a file of the user or system"),
    "engine/cache_scope.py": (2, "the state folder"),
    "engine/debian_packages.py": (4, "a temporary folder"),
    "engine/debian_rootfs.py": (2, "a temporary folder"),
    "engine/doctor.py": (1, "a file of the user or system"),
    "engine/package_index.py": (1, "a temporary folder, and the name of a wheel, which has no folder"),
    "engine/host.py": (4, "/proc"),
    "engine/memory_peaks.py": (3, "/sys and /proc"),
    "engine/oci_layouts.py": (1, "the cache folder"),
    "engine/private_engine.py": (5, "the engine's own folders, and /proc"),
    "engine/private_engine_files.py": (4, "the engine's own folders"),
    "engine/qemu.py": (2, "the engine's own folders, and /proc"),
    "init/write.py": (1, "created with O_EXCL"),
    "bakery_iree/benchmark.py": (2, "what `container_io` wrote"),
    "bakery_iree/check_runs.py": (3, "what `container_io` wrote"),
    "bakery_iree/compiler.py": (1, "the run's folder"),
    "bakery_iree/container_io.py": (1, "a private folder; names are those that were asked for"),
    "bakery_iree/facts/__init__.py": (1, "a file of this package"),
    "bakery_iree/npy.py": (1, "what bakery wrote"),
    "bakery_iree/sandbox.py": (2, "/proc"),
    "release/index/fetch.py": (1, "a temporary folder"),
    "toolchains/facts/__init__.py": (1, "a file of this package"),
    "toolchains/facts/pin_images.py": (1, "a file of this package"),
    "wheel_audit/tag_reason.py": (1, "a file of an installed package"),
    "wheel_audit/wheel.py": (1, "in a temporary folder"),
    "wheel_audit/worker.py": (1, "the null device"),
}
"""File → how many such calls it has, and why they are safe."""


PACKAGE_FILES = ("files(", "__file__", "joinpath(", "importlib")
ARCHIVES = ("archive", "zipped", "tarfile", "zipfile", "source", "result", "inside", "opener")
"""Objects whose ``open`` opens a member of an archive, or is `Inside.open`."""


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call that may go through a link."""
    for node in (node for node in nodes(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(node.func)
        owner, _, last = name.rpartition(".")
        opens = name in OPENS or (last == "open" and owner and owner not in ARCHIVES)
        reads = last in READS and not any(word in name for word in PACKAGE_FILES)
        if last in WRITES or name in COPIES or opens or reads:
            yield node.lineno, name


def test_no_path_is_opened_or_written_around_the_module() -> None:
    found = {name: [*calls(tree)] for name, tree in trees().items() if name not in OWN}
    wrong = {name: rows for name, rows in found.items() if rows and len(rows) != ALLOWED.get(name, (0, ""))[0]}
    assert wrong == {}


def test_no_exception_is_left_over() -> None:
    assert all(name in trees() and reason for name, (_, reason) in ALLOWED.items())


@pytest.mark.parametrize(
    "text",
    [
        "(run / name).write_text('')", "path.write_bytes(b'')", "shutil.copy(a, b)", "shutil.copytree(a, b)", "open(folder / name)",
        "shutil.move(a, b)", "archive.extractall(folder)", "path.open('w')", "(folder / name).read_text()", "os.open(path, 0)",
        "path.symlink_to(x)",
    ],
)  # fmt: skip
def test_a_planted_one_is_found(text: str) -> None:
    assert len([*calls(ast.parse(text))]) == 1


@pytest.mark.parametrize(
    "text", ["Inside(run).write(name, b'')", "inside.open(name)", "open_plain(path)", "archive.open(member)"]
)
def test_the_ways_of_the_module_are_none(text: str) -> None:
    assert not [*calls(ast.parse(text))]


def test_programs_in_images_unpack_by_their_own_function() -> None:
    programs = {
        path: path.read_text()
        for path in (ROOT / "bakery/toolchains/programs").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    found = {path.name for path, text in programs.items() if re.search(r"\.extractall\(|unpack_archive\(", text)}
    # pip's own wheel, which Python brings.
    assert found == {"make_venv.py"}
