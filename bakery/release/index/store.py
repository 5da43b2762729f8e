"""The index on disk: ``SITE/simple/PROJECT/`` has a project's pages, its wheels, their METADATA and attestations.

``SITE/cu128/`` has pages with the wheels for that release of CUDA alone, and ``SITE/index.html`` is for people.

It may be read at any time: files are renamed when they are complete, and pages are written after the files that they
name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from bakery.core.errors import OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.files import write
from bakery.release.index import choose, cuda, pages
from bakery.release.index.attestations import SUFFIX, provenance
from bakery.release.index.files import File, NotAWheel, read
from bakery.release.index.variants import describe
from bakery.runs.publish import publish
from wheel_audit.archive import TEXT_LIMIT
from wheel_audit.plain_files import read_plain
from wheel_audit.worker import LimitExceeded, call

SIMPLE = "simple"
"""The folder for installers: SITE/simple/."""


@dataclass(frozen=True, slots=True)
class NewWheel:
    """A wheel to add to the index; ``uploaded`` and ``yanked`` as in `File`."""

    path: Path
    uploaded: str
    yanked: str | bool = False


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """How an index changed: new wheels, the number of existing ones, names whose wheels were missing, all projects."""

    added: tuple[str, ...]
    kept: int
    dropped: tuple[str, ...]
    projects: tuple[str, ...]


def extend(site: Path, wheels: Sequence[NewWheel], now: str, url: str = "") -> IndexChanges:
    """Add wheels to the index in folder ``site``, or create it. ``now`` is the upload time of wheels that are on no
    page. ``url`` is the address of the site; addresses of attestations are relative without it.

    Raises OutputError if a file is not a wheel, if another file has its name (then nothing is changed), or if the
    folder cannot be written.
    """
    simple = site / SIMPLE
    try:
        simple.mkdir(parents=True, exist_ok=True)
        with locked_folder(simple):
            return _extend(site, simple, wheels, now, url)
    except OSError as error:
        raise OutputError(f"cannot write {site}: {error.strerror or error}") from error


def _extend(site: Path, simple: Path, wheels: Sequence[NewWheel], now: str, url: str) -> IndexChanges:
    problems: list[str] = []
    files, texts, dropped = _load_existing(simple, now, problems)
    before = set(files)
    sources: dict[str, list[Path]] = {}
    located = {name: (file, simple / file.project / name) for name, file in files.items()}
    for wheel in wheels:
        try:
            file, metadata = _read(wheel.path, wheel.uploaded)
            attested = provenance(wheel.path, file)
        except (NotAWheel, OSError) as error:
            problems.append(f"{wheel.path}: {error}")
            continue
        if attested:
            texts[f"{file.project}/{file.name}{SUFFIX}"] = attested
        other = files.get(file.name)
        if other is None:
            files[file.name] = replace(file, yanked=wheel.yanked)
            texts[f"{file.project}/{file.name}.metadata"] = metadata
            sources.setdefault(file.project, []).append(wheel.path)
            located[file.name] = file, wheel.path
        elif other.sha256 != file.sha256:
            problems.append(f"{file.name}: another file of this name has sha256 {other.sha256}, this one {file.sha256}")
        elif other.yanked is False:
            files[file.name] = replace(other, yanked=wheel.yanked)
    described = describe(located, problems)
    if problems:
        raise OutputError(
            f"{site} was not changed: {len(problems)} of the files cannot be added",
            details=problems,
            hint="the bytes of a name never change, since lock files have its hash: give a changed wheel another "
            "version or build tag",
        )
    projects: dict[str, list[File]] = {}
    for file in pages.in_order(files.values()):
        path = f"{file.project}/{file.name}{SUFFIX}"
        place = f"{url.rstrip('/')}/{SIMPLE}/{file.project}/" if url else ""
        has = path in texts or (simple / path).is_file()
        address = f"{place}{quote(file.name)}{SUFFIX}" if has else ""
        projects.setdefault(file.project, []).append(replace(file, provenance=address))
    # In this order: the files that a page names exist before the page.
    for project, paths in sources.items():
        publish(paths, simple / project, root=site)
    write(simple, texts)
    names = sorted(projects)
    for project, variants in described.items():
        write(simple / project, variants)
    _write_pages(simple, projects, described)
    for release in {*(path.name for path in site.glob("cu[0-9]*") if path.is_dir()), *cuda.releases(files.values())}:
        served = {name: cuda.served(projects[name], release) for name in names}
        _write_pages(site / release, {name: some for name, some in served.items() if some}, {})
    write(site, {pages.HTML: choose.html(projects)})
    return IndexChanges(tuple(sorted(set(files) - before)), len(before), tuple(dropped), tuple(names))


def _write_pages(
    folder: Path, projects: Mapping[str, Sequence[File]], variants: Mapping[str, Mapping[str, str]]
) -> None:
    """Write the pages of an index whose files are in ``simple``; ``variants`` has project → name → text."""
    # A project of an earlier run may have no wheel any more.
    there: dict[str, Sequence[File]] = {path.parent.name: () for path in folder.glob(f"*/{pages.JSON}")}
    for project, files in (there | {**projects}).items():
        place = "" if folder.name == SIMPLE else f"../../{SIMPLE}/{project}/"
        described = variants.get(project, {})
        write(folder / project, {pages.JSON: pages.project_json(project, files, described, place)})
        write(folder / project, {pages.HTML: pages.project_html(project, files, described, place)})
    names = sorted(name for name, files in projects.items() if files)
    write(folder, {pages.JSON: pages.root_json(names), pages.HTML: pages.root_html(names)})


def _load_existing(simple: Path, now: str, problems: list[str]) -> tuple[dict[str, File], dict[str, str], list[str]]:
    """Return the wheels of the index, METADATA files to write, and names without a file."""
    files: dict[str, File] = {}
    texts: dict[str, str] = {}
    dropped: list[str] = []
    for folder in sorted(path for path in simple.iterdir() if path.is_dir()):
        listed = {file.name: file for file in _listed(folder, problems)}
        wheels = {path.name: path for path in sorted(folder.glob("*.whl"))}
        dropped += sorted(set(listed) - set(wheels))
        for name, path in wheels.items():
            old = listed.get(name)
            if old and old.size == path.stat().st_size and _is(folder / f"{name}.metadata", old.metadata_sha256):
                files[name] = old
                continue
            try:
                file, text = _read(path, old.uploaded if old else now)
            except NotAWheel as error:
                problems.append(f"{path}: {error}")
                continue
            if file.project != folder.name:
                problems.append(f"{path}: a wheel of {file.project}")
            elif old and old.sha256 != file.sha256:
                problems.append(f"{path}: its page says sha256 {old.sha256}, and it has {file.sha256}")
            files[name] = replace(file, yanked=old.yanked if old else False)
            texts[f"{folder.name}/{name}.metadata"] = text
    return files, texts, dropped


def _read(path: Path, uploaded: str) -> tuple[File, str]:
    """Read a wheel in a process with limits. Raises NotAWheel, also if it cannot be opened."""
    try:
        return call(read, path.absolute(), uploaded, size=path.lstat().st_size)
    except LimitExceeded as error:
        raise NotAWheel(f"reading it was stopped: {error.message}") from None
    except OSError as error:
        raise NotAWheel(f"it cannot be read: {error.strerror or error}") from None


def _listed(folder: Path, problems: list[str]) -> tuple[File, ...]:
    page = folder / pages.JSON
    try:
        return pages.parse(read_plain(page, pages.LARGEST), folder.name)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        problems.append(f"{page}: {error}; if you remove it, its wheels are read again")
        return ()


def _is(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(read_plain(path, TEXT_LIMIT)).hexdigest() == digest
    except OSError:
        return False
