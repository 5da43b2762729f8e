"""Would a package index take the wheel, and is its version one that somebody chose?

The rules are those of PyPI (``warehouse/forklift`` of pypi/warehouse) and of twine, as far as ``packaging`` does not
have them. Another index may accept more, so they are errors for a public index only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.version import Version

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error, error_if
from wheel_audit.requirements import parse_requirement
from wheel_audit.wheel import Wheel

_LONGEST_SUMMARY = 512
_LONGEST_LABEL = 32
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+\.[^@\s<>]+")

_FALLBACK = re.compile(r"0\.(?:0\.)?1\.dev\d+(?:\+.*)?|.*\+(?:unknown|untagged|no-?tag)(?:\..*)?")
"""What tools write that find no tag: setuptools-scm ``0.1.dev4+g1a2b3c4``, pbr ``0.0.1.dev4``, versioneer
``0+unknown``. All of them have other ways to end at zero."""

_GROUPS = (
    "Development Status",
    "Environment",
    "Framework",
    "Intended Audience",
    "License",
    "Natural Language",
    "Operating System",
    "Programming Language",
    "Topic",
    "Typing",
)
"""The first parts of PyPI's classifiers (https://pypi.org/classifiers/, read 2026-11-25); it refuses all others."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield why a package index would refuse the wheel, and a version that nobody chose."""
    if not wheel.metadata.folder:
        return
    file = f"{wheel.metadata.folder}/METADATA"
    yield from _check_version(wheel.metadata.version, expected, file)
    if expected.public_index:
        for reason in _refusals(wheel):
            yield error("index-refuses", reason, file)


def _check_version(text: str, expected: ExpectedWheel, file: str) -> Iterator[Finding]:
    try:
        version = Version(text)
    except ValueError:  # also a number with more digits than Python reads
        return
    if not any(version.release) or _FALLBACK.fullmatch(str(version)):
        reason = f"has version {text}, which tools write that find neither a tag nor a version"
        yield Finding("fallback-version", error_if(expected.public_index), reason, file)


def _refusals(wheel: Wheel) -> Iterator[str]:
    metadata = wheel.metadata
    for text in (*metadata.requires_dist, *metadata.fields.get("provides-dist", ())):
        requirement = parse_requirement(text)
        if requirement and requirement.url:
            yield f"requires {requirement.name} from a URL, and PyPI takes names and versions only: {text}"
    for summary in metadata.fields.get("summary", ()):
        if len(summary) > _LONGEST_SUMMARY:
            yield f"Summary has {len(summary)} characters, more than {_LONGEST_SUMMARY}"
    for text in metadata.fields.get("classifier", ()):
        if text.partition(" :: ")[0] not in _GROUPS:
            yield f"the classifier {text!r} is none of PyPI's"
    yield from _wrong_addresses(metadata.fields)
    for tag in wheel.platforms:
        if tag.system == "other" and not re.match(r"(?:android|ios|pyodide|pyemscripten)_", tag.text):
            yield f"PyPI does not know the platform tag {tag.text}"


def _wrong_addresses(fields: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for text in fields.get("project-url", ()):
        label, _, url = (part.strip() for part in text.partition(","))
        if not label or len(label) > _LONGEST_LABEL or not _is_url(url):
            yield f"Project-URL {text!r} is not a label of at most {_LONGEST_LABEL} characters, a comma and a URL"
    for name in ("home-page", "download-url"):
        for url in fields.get(name, ()):
            if url not in ("", "UNKNOWN") and not _is_url(url):
                yield f"{name.capitalize()} {url!r} is not a URL"
    for name in ("author-email", "maintainer-email"):
        for text in fields.get(name, ()):
            address = text.split(",")[0]
            if "@" in address and not _EMAIL.search(address):
                yield f"{name.capitalize()} {text!r} is not an e-mail address"


def _is_url(text: str) -> bool:
    return re.match(r"https?://[^\s/]", text, re.IGNORECASE) is not None
