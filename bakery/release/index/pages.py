"""The pages of an index, as HTML (PEP 503) and as JSON (PEP 691): pure functions."""

from __future__ import annotations

import hashlib
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

from packaging.version import Version

from bakery.release.index.files import File
from wheel_audit.readers import json_of
from wheel_audit.wheel_names import parse_wheel_name, split_label

_T = TypeVar("_T")
API = "1.3"
"""The version of the interface, with sizes, times, versions (PEP 700) and provenance (PEP 740)."""

HTML = "index.html"
JSON = "index.v1_json"
"""The page of media type application/vnd.pypi.simple.v1+json, for servers with content negotiation."""

LARGEST = 16 << 20
"""Limit of a page, in bytes: a project with 20,000 wheels. Reading it needs twenty times as much memory."""


def project_html(project: str, files: Sequence[File], variants: Mapping[str, str], place: str = "") -> str:
    """Return the HTML page of a project; ``variants`` has the files that describe wheel variants, and their text.

    ``place`` is where the files are, seen from the page: empty for beside it.
    """
    links = [
        f'<a href="{place}{quote(name)}#sha256={_sha256(text)}">{html.escape(name)}</a>'
        for name, text in variants.items()
    ]
    return _page(f"Links for {project}", [*(_anchor(file, place) for file in files), *links])


def root_html(projects: Iterable[str]) -> str:
    """Return the HTML page that lists the projects."""
    return _page("Simple index", [f'<a href="{name}/">{name}</a>' for name in projects])


def project_json(project: str, files: Sequence[File], variants: Mapping[str, str], place: str = "") -> str:
    """Return the JSON page of a project, as `project_html`; the next run reads it."""
    others = [
        # PEP 700: each file has a size.
        {"filename": name, "url": place + quote(name), "hashes": {"sha256": _sha256(text)}, "size": len(text.encode())}
        for name, text in variants.items()
    ]
    versions = sorted({file.version for file in files}, key=Version)
    return _json({"name": project, "versions": versions, "files": [*(_entry(file, place) for file in files), *others]})


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def root_json(projects: Iterable[str]) -> str:
    """Return the JSON page that lists the projects."""
    return _json({"projects": [{"name": name} for name in projects]})


def in_order(files: Iterable[File]) -> list[File]:
    """Return files in the order of pages: oldest version first."""
    return sorted(files, key=lambda file: (Version(file.version), file.name))


def parse(text: str | bytes, project: str) -> tuple[File, ...]:
    """Return the files on a project's JSON page. Raises ValueError for other texts."""
    try:
        document = json_of(text)
        # The files that describe wheel variants are made from the wheels.
        items = (item for item in document["files"] if not str(item["filename"]).endswith("-variants.json"))
        return _once([_file(item, project) for item in items], lambda file: file.name)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a page of a project: {error!r}") from None


def parse_root(text: str | bytes) -> tuple[str, ...]:
    """Return the projects on the root's JSON page. Raises ValueError for other texts."""
    try:
        return _once([str(item["name"]) for item in json_of(text)["projects"]], str)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the page of an index: {error!r}") from None


def _once(items: Sequence[_T], name: Callable[[_T], str]) -> tuple[_T, ...]:
    """Return items whose names differ: each is fetched. Raises ValueError for others."""
    names = [name(item) for item in items]
    if len(set(names)) < len(names):
        raise ValueError(f"it lists {next(item for item, times in Counter(names).items() if times > 1)[:80]!r} twice")
    return tuple(items)


def _seen(address: str, place: str) -> str:
    return address if "://" in address else place + address


def _entry(file: File, place: str) -> dict[str, object]:
    return {
        "filename": file.name,
        "url": place + quote(file.name),
        "hashes": {"sha256": file.sha256},
        **({"requires-python": file.requires_python} if file.requires_python else {}),
        "core-metadata": {"sha256": file.metadata_sha256},
        "dist-info-metadata": {"sha256": file.metadata_sha256},
        "yanked": file.yanked,
        **({"provenance": _seen(file.provenance, place)} if file.provenance else {}),
        "size": file.size,
        "upload-time": file.uploaded,
    }


def _file(item: dict[str, object], project: str) -> File:
    name, hashes, metadata = str(item["filename"]), item["hashes"], item["core-metadata"]
    yanked, size = item.get("yanked", False), item["size"]
    if "/" in name or "\\" in name:
        raise ValueError(f"{name[:80]!r} is not a file name")
    if not (isinstance(hashes, dict) and isinstance(metadata, dict) and isinstance(size, int)):
        raise ValueError(f"{name}: no hash of the wheel or of its metadata, or no size")
    return File(
        name=name,
        project=project,
        version=str(parse_wheel_name(split_label(name)[0])[1]),
        sha256=str(hashes["sha256"]),
        size=size,
        requires_python=str(item.get("requires-python") or ""),
        metadata_sha256=str(metadata["sha256"]),
        uploaded=str(item["upload-time"]),
        yanked=yanked if isinstance(yanked, str | bool) else True,
        provenance=str(item.get("provenance") or ""),
    )


def _anchor(file: File, place: str) -> str:
    attributes = {
        "href": f"{place}{quote(file.name)}#sha256={file.sha256}",
        **({"data-requires-python": file.requires_python} if file.requires_python else {}),
        # PEP 714: older installers know only the second name.
        "data-core-metadata": f"sha256={file.metadata_sha256}",
        "data-dist-info-metadata": f"sha256={file.metadata_sha256}",
        **({"data-yanked": file.yanked if isinstance(file.yanked, str) else ""} if file.yanked is not False else {}),
        # PEP 740
        **({"data-provenance": _seen(file.provenance, place)} if file.provenance else {}),
    }
    words = " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items())
    return f"<a {words}>{html.escape(file.name)}</a>"


def _page(title: str, anchors: Iterable[str]) -> str:
    lines = "".join(f"{anchor}<br>\n" for anchor in anchors)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="pypi:repository-version" content="{API}">\n<title>{title}</title>\n</head>\n'
        f"<body>\n<h1>{title}</h1>\n{lines}</body>\n</html>\n"
    )


def _json(document: dict[str, object]) -> str:
    return json.dumps({"meta": {"api-version": API}} | document, indent=1, ensure_ascii=False) + "\n"
