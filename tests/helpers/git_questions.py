"""What version tools and build backends ask git; as a program, asks in a folder.

git_questions.py FILE FOLDER    write question → answer as JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_TAGS = "%(refname) %(objecttype) %(*objecttype) %(objectname:short=1) %(creatordate:raw) %(*committerdate:raw) %(taggerdate:raw)"

QUESTIONS = (
    # setuptools-scm, hatch-vcs, vcs-versioning
    "describe --dirty --tags --long --match *[0-9]*",
    "describe --dirty --tags --long --abbrev=40 --match *[0-9]*",
    "rev-parse --verify --quiet HEAD",
    "rev-parse --abbrev-ref HEAD",
    "status --porcelain --untracked-files=no",
    "rev-list HEAD --count",
    "-c log.showSignature=false log -n 1 HEAD --format=%cI",
    # versioneer
    "describe --tags --dirty --always --long --match v[[:digit:]]*",
    "rev-list HEAD --left-right --count",
    "show -s --format=%ci HEAD",
    # dunamai (poetry-dynamic-versioning)
    "log -n 1 --format=%H%n%h%n%cI%n%ct%n%aI",
    f"for-each-ref refs/tags/** --merged HEAD --format {_TAGS}",
    "describe --long --dirty --tags --exact-match",
    "status --porcelain",
    "symbolic-ref --short HEAD",
    # pdm-backend, versioningit
    "describe --dirty --tags --long --first-parent",
    "describe --always --dirty --tags --long --candidates=1",
    "describe --long --dirty",
    "describe --tags --abbrev=0",
    "describe --tags --all --long",
    "rev-list --count --first-parent HEAD",
    # setuptools-git-versioning
    "tag --sort=-creatordate --merged HEAD",
    "tag --sort=-v:refname",
    "tag --points-at HEAD --sort=-creatordate",
    "tag --contains HEAD",
    "rev-parse HEAD",
    "rev-parse --short HEAD",
    "rev-parse --short=7 HEAD",
    "rev-parse --is-shallow-repository --is-inside-work-tree --show-prefix --show-object-format",
    # files
    "ls-files",
    "ls-files --others --exclude-standard",
    "ls-files --others --ignored --exclude-standard",
    "ls-files --deleted --modified",
    "ls-tree -r --name-only HEAD",
    "diff --name-status HEAD",
    "diff --name-status --cached",
    "diff-index --quiet HEAD",
    "diff --quiet",
    "grep -c data HEAD -- demo",
    "cat-file -t HEAD",
    "log -n 1 --decorate-refs-exclude=refs/remotes/* --format=%D",
)
"""A word of a question is no space; ``git`` stands before each."""

FOR_EACH_TAG = (
    "rev-list --count {}..HEAD",
    "rev-list --count --first-parent {}..HEAD",
    "rev-list --count {}",
    "log -n 1 --format=%ct {}",
)


def ask(question: str) -> str:
    """Return the exit status and the answer of git."""
    done = subprocess.run(["git", *question.split(" ")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return f"{done.returncode}\n{done.stdout.decode()}"


def main(target: str, folder: str) -> None:
    """Ask all."""
    path = Path(target).resolve()
    os.chdir(folder)
    tags = ask("tag --merged HEAD").split("\n")[1:-1]
    questions = [*QUESTIONS, *(question.format(tag) for tag in tags for question in FOR_EACH_TAG)]
    with path.open("w", encoding="utf-8") as stream:
        json.dump({question: ask(question) for question in questions}, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
