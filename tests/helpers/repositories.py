"""Git repositories, made without the settings of the person who runs the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from file_trees import write_files

from bakery.core.git import Checkout, compare_files


def git(folder: Path, *words: str, at: int = 0) -> str:
    """Run git without the person's own settings; ``at`` is the time of a commit."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **({f"GIT_{who}_DATE": f"@{at} +0100" for who in ("AUTHOR", "COMMITTER")} if at else {}),
    }
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-C", folder, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(repository: Path, at: int = 0, **files: str) -> None:
    write_files(repository, {name.replace("__", "/").replace("_", "."): text for name, text in files.items()})
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "x", at=at)


def compared(folder: Path, names: Sequence[str], is_used: Callable[[str], bool] = lambda _: False) -> Checkout:
    """Compare files of a checkout with its commit; it must be one."""
    found = compare_files(folder, names, is_used)
    assert found is not None
    return found
