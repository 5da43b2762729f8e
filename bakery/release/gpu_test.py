"""Tests on a GPU, outside of bakes: prepares a folder for its program, and keeps the records that it writes."""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from bakery.core.environment import for_tool
from bakery.core.errors import BakeError, OutputError, UnavailableError, UsageError
from bakery.core.files import write
from bakery.core.inside import Inside
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json, substitute
from bakery.release.gpu_record import GPU_TEST, MAX_BYTES, planned_tests, tested_builds
from bakery.release.verify import assigned
from bakery.resolve.wheel_test import test_place
from bakery.runs.buildx.rawjson import lines_of
from bakery.runs.lock import lock_file
from bakery.runs.lock.model import LockedFile, Materials
from bakery.runs.records.buildkit import record_path
from bakery.toolchains import programs
from wheel_audit.plain_files import open_plain


def prepare(plans: Sequence[tuple[Path, Plan]], wheels: Sequence[Path], folder: Path) -> list[Path]:
    """Fill a folder with all that the tests need, and return the wheels to test: those of recipes with ``test.gpu``.

    ``plans`` are project roots and plans. Raises UsageError if no wheel belongs to such a recipe.
    """
    found: list[Path] = []
    jobs: list[Json] = []
    try:
        folder.mkdir(parents=True)
        inside = Inside(folder)
        for root, plan in plans:
            if not plan.cibuildwheel.test_gpu:
                continue
            _copy_files(root, plan, folder / "files" / plan.recipe)
            lock = lock_file.read(root / plan.lock, plan.lock)
            locked = lock_file.cells(lock) if lock else {}
            wheels_of = assigned(plan, wheels)[0]
            own = [(cell, wheel) for cell in plan.cells for wheel in wheels_of.get(cell.id, ())]
            for cell, wheel in own:
                with open_plain(wheel) as file:
                    inside.write(f"wheels/{wheel.name}", file)
                found.append(wheel)
                jobs.append(_job(plan, cell, wheel, locked.get(cell.id)))
        inside.write("job.json", json.dumps(jobs, indent=1).encode())
        inside.write("run.py", (files(__package__) / "programs" / "gpu_test.py").read_bytes())
        inside.write("smoke.py", programs.text("smoke.py").encode())
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise OutputError(f"cannot prepare {folder}: {what}") from error
    if not found:
        raise UsageError(
            "no wheel to test: none of them belongs to a recipe with test.gpu",
            hint="set gpu = true in [test], and name the folder of the wheels",
        )
    return found


def run(folder: Path, wheels: Sequence[Path], line: Callable[[str], object] = str, *, installed: bool) -> None:
    """Run the tests that a folder was prepared for, and put their records beside the wheels.

    ``line`` receives each line that they print; by default, nobody does. Raises UnavailableError without a GPU, BakeError if a test fails.
    """
    command = [sys.executable, str(folder / "run.py"), *["--installed"] * installed]
    with subprocess.Popen(command, env=for_tool(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as done:
        assert done.stdout is not None
        for text in lines_of(done.stdout):
            line(text)
    for wheel in wheels:
        path = record_path(wheel, GPU_TEST)
        # The tests may have made a link of that name, and the checkout one in the place of the record.
        try:
            record = Inside(folder).read(f"records/{wheel.name}{GPU_TEST}", MAX_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OutputError(f"cannot read {error.filename}: {error.strerror}") from error
        write(wheel.parent, {path.relative_to(wheel.parent).as_posix(): record.decode(errors="replace")})
    if done.returncode == 2:
        raise UnavailableError(
            "this machine cannot test the wheels", hint="see the line above; --prepare makes a folder for another one"
        )
    if done.returncode:
        raise BakeError("a test on the GPU failed", hint="its output is above; the record says which step")


def _copy_files(root: Path, plan: Plan, folder: Path) -> None:
    package = plan.cibuildwheel.package
    files = dict.fromkeys(path for facts in plan.all_facts for path in facts.test_files)
    if files and not package:
        raise UnavailableError(
            f"{plan.recipe}: test.files are in a source that is not in this folder",
            hint="set source.path, or a test.command that needs no files",
        )
    folder.mkdir(parents=True)
    source, target = Inside(root / package), Inside(folder)
    for item in map(posixpath.normpath, files):
        try:
            names = source.names("" if item == "." else item)
        except NotADirectoryError:
            names = [item]
        for name in names:
            if "__pycache__" not in name.split("/"):
                source.copy(name, target)


def _job(plan: Plan, cell: Cell, wheel: Path, locked: Materials | None) -> dict[str, Json]:
    own, values = plan.of(cell), plan.values_of_wheel(cell)
    tests: list[Json] = []
    for does, build in zip(planned_tests(plan, cell), tested_builds(plan), strict=True):
        packages = locked.packages.get(test_place(build)) if locked else None
        tests.append(
            {
                "does": does,
                "requirements": [substitute(item, values) for item in own.cibuildwheel.test_requirements],
                "locked": [_pinned(item) for item in packages.files.values()] if packages else [],
                "variables": {**values, **(build.args if build else {})},
            }
        )
    return {
        "wheel": wheel.name,
        "python": cell.axes["python"],
        "index": substitute(own.facts.framework_index, values),
        "files": plan.recipe,
        "tests": tests,
    }


def _pinned(file: LockedFile) -> str:
    if not file.sha256:
        raise UnavailableError(
            f"{file.name} is locked by its commit, and gpu-test installs wheels only", hint="require a release of it"
        )
    what = f"{file.name} @ {file.origin}" if file.origin else f"{file.name}=={file.version}"
    return f"{what} --hash=sha256:{file.sha256}"
