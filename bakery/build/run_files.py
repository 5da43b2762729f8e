"""The files of a run: bake file, Dockerfile and the programs that its steps run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.core.files import write
from bakery.emit.dockerfile import program_texts
from bakery.emit.files import run_texts
from bakery.plan.model import Plan
from bakery.toolchains.program_mounts import STAGE


def write_run_files(base: Path, plan: Plan, state: Path) -> str:
    """Write the files of a run; return the value of ``--set`` that makes its steps mount these programs.

    A checkout need not have the programs, and none that it has is run.

    Args:
        base: what the paths of the plan's files are relative to.
        state: the run's folder.

    Raises:
        OutputError: a file cannot be written.
    """
    programs = (state / "bin").absolute()
    write(base, run_texts(plan))
    write_programs(programs, program_texts(plan))
    return f"*.contexts.{STAGE}={programs}"


def write_programs(folder: Path, texts: Mapping[str, str]) -> None:
    """Write programs into a folder that steps mount them from.

    Raises:
        OutputError: a file cannot be written.
    """
    write(folder, texts)
    try:
        # The modes of the stage: they are part of BuildKit's cache key.
        for path in {folder, *(folder / name for name in texts), *((folder / name).parent for name in texts)}:
            path.chmod(0o755)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from error
