"""Folder of a project → the repository that it is in, as workflows need it. No git runs but to list files."""

from __future__ import annotations

import re
from pathlib import Path

from bakery.core.git_command import git
from bakery.core.inside import leads
from bakery.plan.delivery import Repository
from wheel_audit.plain_files import read_plain

_LARGEST = 1 << 20
_ATTRIBUTES = ".gitattributes"


def repository_of(root: Path) -> tuple[Path, Repository]:
    """Return the top of the repository that a project is in, and what workflows must know; ``root`` itself without one."""
    root = root.resolve()
    top = next((folder for folder in (root, *root.parents) if _is_top(folder)), root)
    folder = root.relative_to(top).as_posix().removeprefix(".")
    pairs = (line.partition("=") for line in text_of(top / ".gitmodules").splitlines())
    modules = [value.strip(' \t"') for key, _, value in pairs if key.strip() == "path"]
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", f"*{_ATTRIBUTES}") or ""
    above = [path / _ATTRIBUTES for path in (root, *root.parents) if path.is_relative_to(top)]
    below = [root / name for name in listed.split("\0") if name.endswith(f"/{_ATTRIBUTES}")]
    return top, Repository(
        folder,
        submodules=any(not folder or path.startswith(f"{folder}/") for path in modules),
        lfs=any(re.search(r"(?m)^[^#\n]*[ \t]filter=lfs(?!\S)", text_of(path)) for path in (*above, *below)),
    )


def _is_top(folder: Path) -> bool:
    marker = folder / ".git"
    # A file in work trees and submodules.
    return marker.is_file() or leads(marker / "HEAD")


def text_of(path: Path, most: int = _LARGEST) -> str:
    """Return the text of a file, also behind a link; empty for none, for what is no file, and above ``most`` bytes."""
    try:
        return read_plain(path, most, follow=True).decode(errors="replace")
    except OSError:
        return ""
