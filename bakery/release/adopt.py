"""Compares the last release of a project on a package index with a plan, or with new wheels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, canonicalize_name, parse_sdist_filename
from packaging.version import Version

from bakery.core.errors import UnavailableError
from bakery.engine.package_index import Link
from bakery.plan.model import Plan
from bakery.release.coverage import project_table
from bakery.release.verify import assigned, unversioned
from bakery.resolve.device_promises import device_promises
from bakery.resolve.rules.subject import subjects
from bakery.runs.audited import report_on
from bakery.runs.expectations import promises
from wheel_audit.auditor import WheelReport
from wheel_audit.compare import Change, compare
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.fatbin import sorted_archs
from wheel_audit.finding import Severity
from wheel_audit.requirements import parse_requirement
from wheel_audit.tags import oldest_tags, parse_platform, parse_release
from wheel_audit.text import listed
from wheel_audit.wheel_names import parse_wheel_name


@dataclass(frozen=True, slots=True)
class Published:
    """A release on an index: its wheels, and its other files."""

    version: str
    wheels: tuple[Link, ...]
    others: tuple[str, ...]


def release_on(links: Iterable[Link], project: str, wanted: str) -> Published:
    """Return a release: the ``wanted`` version, or the newest with a wheel that is not yanked.

    Raises UnavailableError if there is none.
    """
    known = ((link, _version(link.name)) for link in links if wanted or not link.yanked)
    versions = {link: version for link, version in known if version}
    wheels = {link for link in versions if link.name.endswith(".whl")}
    offered = {Version(versions[link].public) for link in wheels}
    releases = sorted(offered, key=lambda item: (not item.is_prerelease, item))
    if not releases or (wanted and Version(wanted) not in releases):
        raise UnavailableError(
            f"the package index has no wheel of {project}{f' {wanted}' if wanted else ''}",
            hint="name the index: --index URL",
            details=[f"it has wheels of {', '.join(map(str, releases[-8:]))}"] if releases else (),
        )
    newest = Version(wanted) if wanted else releases[-1]
    chosen = [link for link, version in versions.items() if Version(version.public) == newest]
    return Published(
        str(newest),
        tuple(link for link in chosen if link in wheels),
        tuple(link.name for link in chosen if link not in wheels),
    )


def _version(name: str) -> Version | None:
    if "/" in name:
        return None
    try:
        return parse_wheel_name(name)[1] if name.endswith(".whl") else parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a release differs from a plan.

    Attributes:
        wheels: the number of wheels that were read; ``bytes`` is their size.
        differences: one line each, with the cells whose wheels have it.
        unknown: what cannot be compared, and why.
    """

    wheels: int
    bytes: int
    differences: tuple[str, ...]
    unknown: tuple[str, ...]


def by_plan(
    plan: Plan, root: Path, release: Published, scratch: Path, download: Callable[[Link, Path], None]
) -> Comparison:
    """Compare a release with a plan: the names of its files, and what is in the wheels that the plan makes, too.

    These are downloaded to ``scratch``, one after the other. The audit compares them with what the plan promises.
    """
    links = {link.name: link for link in release.wheels}
    found, served, _, left = assigned(plan, [Path(name) for name in links])
    cells = {cell.id: cell for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    covered = {*found, *(cell.id for others in served.values() for cell in others)}
    device, libc = device_promises(plan), {name: subject.libc for subject in subjects(plan) for name in subject.cells}
    is_here = not (plan.cibuildwheel.git or plan.cibuildwheel.sdist)
    source = project_table(plan, root) if is_here else {}
    lacking, extra, about, unknown = (defaultdict[str, list[str]](list) for _ in range(4))
    for cell in cells.values():
        if cell.built_by not in covered:
            lacking[cell.platform].append(cell.id)
    for path in left:
        place, what = _short(path.name).rpartition("-")[::2]
        extra[what].append(place)
    size = 0
    for name, paths in found.items():
        expectations = promises(plan, cells[name], device.get(name), paths, served.get(name, ()))
        for path, promise in zip(paths, expectations, strict=True):
            file = scratch / path.name
            try:
                download(links[path.name], file)
                report = report_on(file, promise)
            finally:
                file.unlink(missing_ok=True)
            size += report.size
            told = (
                *_in_tags(report, promise, libc.get(name, ("", ""))),
                *_in_metadata(report, promise, source),
                *_in_content(report, promise),
            )
            for is_known, text in dict.fromkeys(told):
                (about if is_known else unknown)[text].append(name)
    read = sum(map(len, found.values()))
    version = source.get("version")
    if isinstance(version, str) and version != release.version:
        unknown[f"the project is at version {version}: some differences may be what changed since the release"] = []
    return Comparison(
        read,
        size,
        (
            *(f"planned, not published, for {platform}: {', '.join(ids)}" for platform, ids in lacking.items()),
            *(f"published, not planned, for {what}: {', '.join(sorted(items))}" for what, items in extra.items()),
            *(f"published, not made by `wheel`: {name}" for name in release.others),
            *(_line(text, ids, read) for text, ids in about.items()),
        ),
        (
            *(_line(text, ids, read) for text, ids in unknown.items()),
            "sizes, files, and which libraries the build bundles: `adopt --check dist/` compares built wheels",
        ),
    )


def _short(name: str) -> str:
    """Return the name of a wheel without project and version, but for the local one."""
    _, version, *rest = name.removesuffix(".whl").split("-")
    return "-".join((*version.partition("+")[2:], *rest)).removeprefix("-")


def _line(text: str, ids: Sequence[str], read: int) -> str:
    return text if not ids else f"{text} ({'all wheels' if len(ids) == read else listed(ids)})"


_Told = Iterator[tuple[bool, str]]
"""Pairs of a text and whether it is a difference; otherwise it says what is unknown."""


def _in_tags(report: WheelReport, promise: ExpectedWheel, libc: tuple[str, str]) -> _Told:
    """Compare the stable ABI, and the oldest system that a wheel is for."""
    stable = [f"{python}-{abi}" for python in report.pythons for abi in report.abis if abi.startswith("abi3")]
    if stable and not promise.abi3:
        yield True, f"is for the stable ABI ({', '.join(stable)}); the recipe has no wheel.abi3"
    elif stable and f"cp{promise.pythons[0].replace('.', '')}" not in report.pythons:
        yield True, f"is tagged {', '.join(stable)}; the recipe has wheel.abi3 = {promise.pythons[0]!r}"
    name, release = libc
    planned = parse_platform(promise.plat) if promise.plat else None
    system = planned.system if planned else "musllinux" if name == "musl" else "manylinux"
    tags = oldest_tags(map(parse_platform, report.platforms))
    if not tags:
        return
    tag = next((item for item in tags if item.system == system), tags[0])
    if planned:
        if (planned.system, planned.libc, planned.macos) != (tag.system, tag.libc, tag.macos):
            yield True, f"is tagged {tag.text}; the recipe promises {promise.plat}"
        return
    if not release or not tag.libc:
        yield False, f"the oldest system: the recipe names none, and the release is tagged {tag.text}"
    elif parse_release(release) != tag.libc:
        is_newer = parse_release(release) > tag.libc
        effect = f"a new wheel may need {name} {release}" if is_newer else "a new wheel runs on older systems, too"
        yield True, f"is tagged {tag.text}; the base has {name} {release}: {effect}"


def _in_metadata(report: WheelReport, promise: ExpectedWheel, source: Mapping[str, object]) -> _Told:
    """Compare Requires-Python and Requires-Dist with what pyproject.toml and the recipe state."""
    dynamic = source.get("dynamic", ())
    unstated = {"requires-python", "dependencies", "optional-dependencies"} if not source else set()
    unstated |= {str(item) for item in dynamic} if isinstance(dynamic, list) else set()
    required = str(source.get("requires-python", ""))
    if "requires-python" in unstated:
        yield False, f"Requires-Python {report.requires_python or '(none)'}: pyproject.toml does not state it"
    elif _specifiers(required) != _specifiers(report.requires_python):
        yield True, f"Requires-Python is {report.requires_python or 'absent'}; pyproject.toml has {required or 'none'}"
    stated: dict[object, str] = {}
    for extra, items in [("", source.get("dependencies")), *_pairs(source.get("optional-dependencies"))]:
        stated |= {_key(str(item), extra): f"{item}{f' (extra {extra})' * bool(extra)}" for item in _list(items)}
    has = {_key(text): text for text in report.requires_dist}
    by_recipe = {canonicalize_name(Requirement(text).name) for text in promise.requires}
    if left := {"dependencies", "optional-dependencies"} & unstated:
        listed_ones = ", ".join(report.requires_dist) or "none"
        yield (
            False,
            f"Requires-Dist: pyproject.toml does not state its {' and '.join(sorted(left))}; released: {listed_ones}",
        )
        return
    for key, text in has.items():
        item = parse_requirement(text)
        if key not in stated and not (item and canonicalize_name(item.name) in by_recipe):
            yield True, f"requires {text}; neither pyproject.toml nor wheel.requires does"
    yield from (
        (True, f"does not require {text}; pyproject.toml does") for key, text in stated.items() if key not in has
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _pairs(value: object) -> Iterable[tuple[str, object]]:
    return ((str(key), item) for key, item in value.items()) if isinstance(value, dict) else ()


def _specifiers(text: str) -> object:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return text


def _key(text: str, extra: str = "") -> object:
    """Return what two spellings of a requirement have in common: backends write extras and markers in their own ways."""
    item = parse_requirement(text)
    if item is None:
        return text
    parts = re.split(r" and ", re.sub("[()]", "", str(item.marker or "")))
    marks = frozenset(canonicalize_name(part) if part.startswith("extra") else part for part in parts if part)
    marks |= {canonicalize_name(f'extra == "{extra}"')} if extra else frozenset()
    return canonicalize_name(item.name), frozenset(item.extras), item.specifier, item.url, marks


_WARNED = ("device-arch-variant", "device-code-absent", "device-toolkit", "requirement-absent")
"""Warnings of the audit that a release is compared by."""


def _in_content(report: WheelReport, promise: ExpectedWheel) -> _Told:
    """Compare device code and libraries, and what else the audit would refuse."""
    archs = sorted_archs(arch for item in report.device_objects for arch in item.device_code.archs)
    if archs and not promise.cuda:
        yield True, f"has device code for {', '.join(archs)}; the recipe compiles no CUDA"
    elif promise.cuda and not promise.device_archs:
        yield False, f"GPU architectures: the recipe lists none; the release has {', '.join(archs) or 'none'}"
    for item in report.findings:
        is_warned = item.check in _WARNED and (item.severity is Severity.WARNING or item.check == "device-arch-variant")
        if item.severity is Severity.SKIPPED:
            yield False, item.message
        elif (item.severity is Severity.ERROR or is_warned) and item.check != "promised-plat":
            yield True, f"{item.message} [{item.check}]"


def by_content(
    release: Published, files: Sequence[Path], scratch: Path, download: Callable[[Link, Path], None]
) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """Yield each new wheel with what changed since that of the release in its place; a wheel on one side only is a change.

    A wheel of the release is downloaded to ``scratch`` when its turn comes, and removed.
    """
    left = list(release.wheels)
    for file in files:
        if _version(file.name) is None:
            yield file.name, (Change("file", "", "not the name of a wheel: it was not compared"),)
            continue
        # The same local version goes first: several wheels of a release may have the same tags.
        fitting = [link for link in left if unversioned(Path(link.name))[1:] == unversioned(file)[1:]]
        link = next(
            (item for item in fitting if unversioned(Path(item.name)) == unversioned(file)), next(iter(fitting), None)
        )
        if link is None:
            yield file.name, (Change("tags", "", "a wheel that the release does not have"),)
            continue
        left.remove(link)
        old = scratch / link.name
        try:
            download(link, old)
            reports = report_on(old), report_on(file)
            unread = (Change("file", "", f"{item.path.name} cannot be read") for item in reports if not item.files)
            yield file.name, (*unread, *compare(*reports))
        finally:
            old.unlink(missing_ok=True)
    yield from ((link.name, (Change("tags", "a wheel of the release", ""),)) for link in left)
