"""``gh release …`` on a folder, with the options that GitHub's manual gives these commands; anything else is an error.

Usage: python gh.py FOLDER release COMMAND …     FOLDER has a folder for each release, and prereleases.json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

PRERELEASES = "prereleases.json"


def parser() -> argparse.ArgumentParser:
    """Return the commands as of gh 2.80 (cli.github.com/manual, read 2026-11-27); those that the workflows do not use are left out."""
    commands = argparse.ArgumentParser(prog="gh release", allow_abbrev=False)
    each = commands.add_subparsers(dest="command", required=True)
    options: dict[str, tuple[str, ...]] = {
        "create": ("--prerelease!", "--verify-tag!", "--generate-notes!", "--target", "--title", "--notes"),
        "delete-asset": ("--yes!",),
        "download": ("--pattern", "--dir"),
        "list": ("--exclude-drafts!", "--exclude-pre-releases!", "--json", "--jq"),
        "upload": ("--clobber!",),
        "view": ("--json", "--jq"),
    }
    for name, words in options.items():
        one = each.add_parser(name, allow_abbrev=False)
        if name != "list":
            one.add_argument("tag")
        if name in ("upload", "delete-asset"):
            one.add_argument("files", nargs="+")
        for word in words:
            one.add_argument(word.rstrip("!"), **({"action": "store_true"} if word.endswith("!") else {}))  # type: ignore[arg-type]
    return commands


def main() -> None:
    """Do what the words say."""
    assert os.environ["GH_TOKEN"]
    assert "/" in os.environ["GH_REPO"]
    folder, (word, *words) = Path(sys.argv[1]), sys.argv[2:]
    assert word == "release"
    asked = parser().parse_args(words)
    prereleases: list[str] = json.loads((folder / PRERELEASES).read_text())
    if asked.command == "list":
        assert asked.exclude_pre_releases
        assert (asked.json, asked.jq) == ("tagName", ".[].tagName")
        newest = sorted((path for path in folder.iterdir() if path.is_dir()), key=os.path.getmtime, reverse=True)
        print(*(path.name for path in newest if path.name not in prereleases), sep="\n")
    elif asked.command == "create":
        (folder / asked.tag).mkdir()
        (folder / PRERELEASES).write_text(json.dumps([*prereleases, *[asked.tag] * asked.prerelease]))
    elif (folder / asked.tag).is_dir():
        of_release(asked, folder / asked.tag)
    else:
        sys.exit("release not found")


def of_release(asked: argparse.Namespace, release: Path) -> None:
    """Do what is asked of a release that is there."""
    files = sorted(release.iterdir())
    if asked.command == "view":
        shown = {
            None: [asked.tag],
            ".assets[].name": [path.name for path in files],
            ".assets[] | [.updatedAt, .name] | @tsv": [f"{updated(path)}\t{path.name}" for path in files],
        }
        print(*shown[asked.jq], sep="\n")
    elif asked.command == "download":
        found = [path for path in files if fnmatchcase(path.name, asked.pattern)]
        if not found:
            sys.exit("no assets match the file pattern")
        Path(asked.dir).mkdir(exist_ok=True)
        for path in found:
            shutil.copyfile(path, Path(asked.dir, path.name))
    elif asked.command == "upload":
        for name in asked.files:
            assert asked.clobber or not (release / Path(name).name).exists(), "asset under the same name already exists"
            shutil.copyfile(name, release / Path(name).name)
    else:
        (release / asked.files[0]).unlink()


def updated(path: Path) -> str:
    """Return when a file was written, as GitHub's API says it."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main()
