"""Has the wheel the files that its source promises, and no others of the checkout?

The audit knows no packages: a folder of the wheel belongs to the folder of the source that has the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from wheel_audit.expected_wheel import ExpectedWheel, SourceFiles
from wheel_audit.finding import Finding, error, warning
from wheel_audit.text import listed
from wheel_audit.wheel import Wheel, installed_path, is_grafted

_EMPTY = hashlib.sha256(b"").hexdigest()

_DATA = re.compile(
    r"(?i)\.(?:bin|cfg|conf|crt|css|csv|dat|db|gif|gz|h5|hdf5|html?|ico|ini|j2|jinja2?|jpe?g|js|json|lark|mako|mo|model|np[yz]"
    r"|onnx|otf|parquet|pem|pkl|png|pyi?|sql|sqlite|svg|template|tmpl|toml|tpl|tsv|ttf|txt|typed|woff2?|xml|xs[dl]|ya?ml|zip)$"
)
"""Files that Python or a program reads at run time. Sources of other languages are compiled, and left out on purpose."""

_LEFT_OUT = re.compile(
    r"""(?x) (?:^|/) (?:
        \..* | _?(?:tests?|testing|testdata|test_.*|docs?|examples?|benchmarks?|bench|samples?|demos|tutorials?)
        | scripts? | tools? | dev | ci | third[_-]?party | vendor(?:ed)? | extern(?:al)? | subprojects | node_modules
        | build | csrc | cmake | fixtures
    ) /"""
)
"""Folders that projects leave out of their wheels on purpose."""

_BUILDS = re.compile(
    r"(?i)(?:^|/)(?:\.[^/]*|cmakelists\.txt|setup\.(?:py|cfg)|pyproject\.toml|(?:.*[-_])?requirements.*\.txt|conftest\.py"
    r"|test_[^/]*|[^/]*_tests?\.pyi?|tox\.ini|noxfile\.py|(?:_?build|_?generate|_?gen)(?:_[^/]*)?\.py|package(?:-lock)?\.json"
    r"|tsconfig[^/]*\.json|(?:ruff|mypy|pytest|pyrightconfig|towncrier)\.[^/]*|(?:readme|licen[cs]e|copying|notice|changelog|changes|authors|todo)[^/]*)$"
)
"""Files that build, test or describe a package."""

_LICENCE = re.compile(r"(?i)(?:licen[cs]e|copying|notice|authors)[^/]*$")
"""At the root of a source: what build backends take without being told (PEP 639)."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield files of the checkout that must not be in the wheel, and those that are missing in it."""
    source = expected.source
    if source is None or not wheel.archive.is_read:
        return
    members = {installed_path(entry.path): entry for entry in wheel.archive.entries if not entry.is_dir}
    digests = {path: entry.sha256 for path, entry in members.items()}
    yield from _check_ignored(digests, source)
    folders = _folders(digests, source)
    yield from _check_missing(digests, folders, source)
    yield from _check_links(digests, folders, source)
    if all(".dist-info/" in path for path in members):
        packages = sorted({str(PurePosixPath(path).parent) for path, _ in source.tracked if _is_package(path)})
        if packages:
            yield error("wheel-empty", f"has no file of the packages of its source: {listed(sorted(packages))}")


def _is_package(path: str) -> bool:
    parts = PurePosixPath(path).parts
    top = parts[1:] if parts[0] in ("src", "lib", "python") else parts
    return len(top) == 2 and top[1] == "__init__.py" and not _LEFT_OUT.search(f"{top[0]}/")


def _check_ignored(digests: Mapping[str, str], source: SourceFiles) -> Iterator[Finding]:
    """Yield the members that have the content of a file that git ignores, and of no other file of the source."""
    tracked = {digest for _, digest in source.tracked}
    ignored: dict[str, list[str]] = defaultdict(list)
    for path, digest in source.ignored:
        if digest not in tracked:
            ignored[digest].append(path)
    for path, digest in digests.items():
        name = path.rpartition("/")[2]
        origins = ignored.get(digest, ())
        if digest == _EMPTY:  # another empty file may be a file of the build
            origins = [item for item in origins if item.rpartition("/")[2] == name]
        if origins:
            yield error("ignored-file", f"is {origins[0]} of the checkout, which git ignores", path)


def _folders(digests: Mapping[str, str], source: SourceFiles) -> dict[str, set[str]]:
    """Return folder of the source → the folders of the wheel that have its files."""
    counts = Counter(digest for _, digest in source.tracked)
    origins: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, digest in source.tracked:
        folder, _, name = path.rpartition("/")
        origins[name, digest].append(folder)
    folders: dict[str, set[str]] = defaultdict(set)
    for path, digest in digests.items():
        inside, _, name = path.rpartition("/")
        if not inside or ".dist-info" in inside or is_grafted(path):
            continue
        for folder in origins.get((name, digest), ()):
            alike = folder == inside or folder.endswith(f"/{inside}")
            moved = counts[digest] == 1 and digest != _EMPTY and not _LEFT_OUT.search(f"{folder}/")
            if folder and (alike or moved):
                folders[folder].add(inside)
    return folders


def _check_missing(
    digests: Mapping[str, str], folders: Mapping[str, set[str]], source: SourceFiles
) -> Iterator[Finding]:
    """Yield the tracked files beside packaged ones that the wheel does not have, one finding for each folder."""
    known = frozenset(digests.values())
    projects = {
        path.rpartition("/")[0] for path, _ in source.tracked if path.endswith(("/pyproject.toml", "/setup.py"))
    }
    missing: dict[str, list[str]] = defaultdict(list)
    for path, digest in source.tracked:
        # The nearest folder above with files in the wheel.
        above = next((str(item) for item in PurePosixPath(path).parents if str(item) in folders), None)
        if above is None or (digest in known and digest != _EMPTY):
            continue
        inner = path.removeprefix(f"{above}/")
        if not _DATA.search(path) or _BUILDS.search(path) or _LEFT_OUT.search(inner):
            continue
        nested = any(str(item) in projects and len(str(item)) > len(above) for item in PurePosixPath(path).parents)
        if not nested and not any(f"{inside}/{inner}" in digests for inside in folders[above]):
            missing[path.rpartition("/")[0]].append(path)
    for names in missing.values():
        text = f"does not have {listed(sorted(names))}, which git tracks beside files that it has"
        yield warning("tracked-file-missing", text)


def _check_links(digests: Mapping[str, str], folders: Mapping[str, set[str]], source: SourceFiles) -> Iterator[Finding]:
    """Yield the links out of the source that leave something out: a licence, or a file beside packaged ones."""
    known = frozenset(digests.values())
    for path, target, digest in source.links:
        folder, _, name = path.rpartition("/")
        above = next((str(item) for item in PurePosixPath(path).parents if str(item) in folders), None)
        is_licence = _LICENCE.match(name) is not None and above is None and folder.count("/") == 0
        inner = path.removeprefix(f"{above}/")
        found = (digest and digest in known) or any(
            item == f"{inside}/{inner}" or item.startswith(f"{inside}/{inner}/")
            for inside in folders.get(above or "", ())
            for item in digests
        )
        if not found and (
            is_licence or (above is not None and not _LEFT_OUT.search(inner) and not _BUILDS.search(path))
        ):
            text = f"does not have {path}, a link to {target}, which is not sent to the build"
            yield error("source-link", text)
