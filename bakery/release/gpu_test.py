"""Tests on a GPU, outside of bakes: prepares a folder for its program, and keeps the records that it writes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bakery.build.lock import lock_file
from bakery.build.lock.model import LockedFile, Materials
from bakery.build.records.buildkit import record_path
from bakery.core.errors import BakeError, OutputError, UnavailableError, UsageError
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json, substitute
from bakery.release.gpu_record import GPU_TEST, planned_test
from bakery.release.verify import assigned
from bakery.resolve.wheel_test import TEST
from bakery.toolchains import programs


def prepare(plans: Sequence[tuple[Path, Plan]], wheels: Sequence[Path], folder: Path) -> list[Path]:
    """Fill a folder with all that the tests need, and return the wheels to test: those of recipes with ``test.gpu``.

    ``plans`` are project roots and plans. Raises UsageError if no wheel belongs to such a recipe.
    """
    found: list[Path] = []
    jobs: list[Json] = []
    try:
        (folder / "wheels").mkdir(parents=True)
        for root, plan in plans:
            if not plan.cibuildwheel.test_gpu:
                continue
            _copy_files(root, plan, folder / "files" / plan.recipe)
            lock = lock_file.read(root / plan.lock, plan.lock)
            locked = lock_file.cells(lock) if lock else {}
            for cell, wheel in _wheels(plan, wheels):
                shutil.copy(wheel, folder / "wheels")
                found.append(wheel)
                jobs.append(_job(plan, cell, wheel, locked.get(cell.id)))
        (folder / "job.json").write_text(json.dumps(jobs, indent=1), encoding="utf-8")
        shutil.copy(Path(__file__).with_name("programs") / "gpu_test.py", folder / "run.py")
        (folder / "smoke.py").write_text(programs.text("smoke.py"), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    if not found:
        raise UsageError(
            "no wheel to test: none of them belongs to a recipe with test.gpu",
            hint="set gpu = true in [test], and name the folder of the wheels",
        )
    return found


def run(folder: Path, wheels: Sequence[Path], *, installed: bool) -> None:
    """Run the tests that a folder was prepared for, and put their records beside the wheels.

    Raises UnavailableError without a GPU, BakeError if a test fails.
    """
    done = subprocess.run([sys.executable, str(folder / "run.py"), *["--installed"] * installed], check=False)
    for wheel in wheels:
        record = folder / "records" / f"{wheel.name}{GPU_TEST}"
        if record.is_file():
            path = record_path(wheel, GPU_TEST)
            path.parent.mkdir(exist_ok=True)
            shutil.copy(record, path)
    if done.returncode == 2:
        raise UnavailableError(
            "this machine cannot test the wheels", hint="see the line above; --prepare makes a folder for another one"
        )
    if done.returncode:
        raise BakeError("a test on the GPU failed", hint="its output is above; the record says which step")


def _wheels(plan: Plan, wheels: Sequence[Path]) -> Iterator[tuple[Cell, Path]]:
    wheels_of = assigned(plan, wheels)[0]
    for cell in plan.cells:
        for wheel in wheels_of.get(cell.id, ()):
            yield cell, wheel


def _copy_files(root: Path, plan: Plan, folder: Path) -> None:
    settings = plan.cibuildwheel
    if settings.test_files and not settings.package:
        raise UnavailableError(
            f"{plan.recipe}: test.files are in a source that is not in this folder",
            hint="set source.path, or a test.command that needs no files",
        )
    for item in settings.test_files:
        source, target = root / settings.package / item, folder / item
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)


def _job(plan: Plan, cell: Cell, wheel: Path, locked: Materials | None) -> dict[str, Json]:
    values = plan.values_of_wheel(cell)
    packages = locked.packages.get(TEST) if locked else None
    return {
        "wheel": wheel.name,
        "python": cell.axes["python"],
        "requirements": [substitute(item, values) for item in plan.cibuildwheel.test_requirements],
        "locked": [_pinned(item) for item in packages.files.values()] if packages else [],
        "files": plan.recipe,
        "variables": {**values},
        "tests": planned_test(plan, values),
    }


def _pinned(file: LockedFile) -> str:
    if not file.sha256:
        raise UnavailableError(
            f"{file.name} is locked by its commit, and gpu-test installs wheels only", hint="require a release of it"
        )
    what = f"{file.name} @ {file.origin}" if file.origin else f"{file.name}=={file.version}"
    return f"{what} --hash=sha256:{file.sha256}"
