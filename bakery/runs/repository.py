"""Describes the repository of the checkout that a run builds from, for steps whose build asks git.

``bakery/toolchains/programs/repository.py`` describes; here it uses the git of `bakery.core.git`, which runs no program of
the repository's configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bakery.core import git, git_command
from bakery.core.errors import OutputError, reported
from bakery.core.files import write
from bakery.core.inside import Inside
from bakery.plan.dockerfile import Run
from bakery.plan.model import Plan
from bakery.resolve.asking import again
from bakery.runs.kept_logs import lines
from bakery.toolchains.program_mounts import GIT_CONTEXTS, REPOSITORY
from bakery.toolchains.programs import repository
from wheel_audit.plain_files import read_plain

_MAX_RULES = 1 << 20
"""Bytes of an ignore file."""


def write_repository(root: Path, plan: Plan, state: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Write the description for a run into its folder ``state``; return the ``--set`` values that make steps use it.

    ``root``: what paths in the plan are relative to. Raises OutputError if a file cannot be written.
    """
    source = source_folder(plan)
    if source is None:
        return ()
    folder = (state / "git" / REPOSITORY).absolute()
    texts = description(root / plan.context / source, environment)
    with reported(f"cannot write {folder}"):
        for name in ("", "state", "rules"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(0o755)
        write(folder, texts)
        for name in texts:
            (folder / name).chmod(0o644)
    contexts = (f"*.contexts.{name}={folder.parent}" for name in plan.names_of(REPOSITORY))
    return (*contexts, *(f"*.contexts.{name}=" for name in GIT_CONTEXTS))


def repository_digest(root: Path, plan: Plan, environment: Mapping[str, str]) -> str:
    """Return a digest of the description of the repository that a plan builds from; empty if there is none."""
    source = source_folder(plan)
    texts = {} if source is None else description(root / plan.context / source, environment)
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest() if texts else ""


_REFUSED = """\
git does not tell the files or the history of the checkout.
  `git fsck` and `git ls-files` say more. For a version without git, set SETUPTOOLS_SCM_PRETEND_VERSION, or what the
  build backend has for it, in builder.environment, and build an unpacked archive (`git archive`).
"""
"""Why a build that asks git ends, as a sentence that begins with it."""

_ANSWER = re.compile(r"bakery: git was (not )?asked")
"""A line of ``with_repository.py``."""

_STEP = re.compile(r"# \[(?:.* )?(\S+) \d+/\d+\] RUN ")


def was_asked(log: Path) -> bool | None:
    """Return whether the build asked git, by the log of its target; None if a step that may ask did not run."""
    steps: set[str] = set()
    cached: set[str] = set()
    answers: dict[str, bool] = {}
    step = ""
    with contextlib.suppress(OutputError):
        for line in lines(log):
            if title := _STEP.match(line):
                step = title[1]
                steps.add(step)
            elif line.strip() == "# CACHED":
                cached.add(step)
            elif answer := _ANSWER.search(line):
                answers[step] = not answer[1]
    if True in answers.values():
        return True
    # A step that may ask has another one that runs the same with the repository.
    unknown = any(again(name) in steps for name in cached - answers.keys())
    return None if unknown or not answers else False


def source_folder(plan: Plan) -> str | None:
    """Return the folder of the source in the build context; None if the source is not there, or nothing is built."""
    if not any(stage.name == REPOSITORY for stage in plan.stages):
        return None
    steps = (step for stage in plan.stages for step in stage.steps if isinstance(step, Run))
    return next(mount.source for step in steps for mount in step.mounts if mount.target == "/src" and not mount.from_)


def description(source: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return path → text of the files that describe the repository of a source folder; empty if it is in none."""
    top = git.top_of(source)
    if top is None:
        return {}
    prefix = source.resolve().relative_to(top).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    head = (git_command.git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") or "").strip()
    changed = git.differing(top, head, for_version=True) if head else None
    if changed:
        listed = git_command.git(top, "ls-files", "-t", "-z")
        absent = {name for name in changed if not os.path.lexists(top / name)}
        # Without those that a sparse checkout does not have. If git does not tell, the contents do.
        sparse = {entry[2:] for entry in (listed or "").split("\0") if entry[:2] == "S "}
        changed = None if listed is None else changed - (absent & sparse)
    described = repository.describe(lambda *words: git_command.git(top, *words), changed, prefix)
    folders = [*reversed((source.resolve().relative_to(top)).parents)] if prefix else []
    parents = [
        ("" if folder == Path() else f"{folder.as_posix()}/", _text(Inside(top), (folder / ".gitignore").as_posix()))
        for folder in folders
    ]
    refused = f"{repository.RULES}/{repository.REFUSED}"
    return {
        **({repository.STATE: repository.encoded(described)} if described else {refused: _REFUSED}),
        **repository.rules(_ignore_files(top, environment), parents, prefix),
    }


def _ignore_files(top: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts of the ignore files of a checkout that are no part of it: its own, and the user's."""
    own = git_command.git(top, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
    if own:
        yield _text(Inside(Path(own.strip()).parents[1]), "info/exclude")
    # Not the repository's own setting: it could name any file of this user.
    users = git_command.git(top, "config", "--global", "--type=path", "--get", "core.excludesFile")
    config = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
    with contextlib.suppress(OSError):
        path = Path(users.strip() if users else f"{config}/git/ignore")
        yield read_plain(path, _MAX_RULES, follow=True).decode(errors="replace")


def _text(inside: Inside, name: str) -> str:
    # A link would bring any file of this user into the build; git does not follow it, either.
    try:
        return inside.read(name, _MAX_RULES).decode(errors="replace")
    except OSError:
        return ""
