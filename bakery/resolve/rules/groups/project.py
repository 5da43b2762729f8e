"""The project's source folder: what a build and its test need of it."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from bakery.resolve.rules.project import programs
from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from wheel_audit.text import listed, printable


@rule("project-file", "The source folder is a Python project")
def _project_file(subject: RuleSubject) -> Iterator[str]:
    if not subject.project.has_build_file:
        key = "source.path" if subject.project.package == subject.project.folder else "source.subdirectory"
        yield f"{subject.plan.place(key)}: neither pyproject.toml nor setup.py is in {subject.project.package}"


@rule("test-files", "The files of the test exist")
def _test_files(subject: RuleSubject) -> Iterator[str]:
    linked = {path: (link, target) for path, link, target in subject.project.linked_files}
    for path, (link, target) in linked.items():
        # cp copies the link, not what it leads to.
        yield f"{subject.plan.place('test.files')}: {path!r}: {link!r} is a link; write {target!r}"
    for path in (path for path in subject.project.missing_files if path not in linked):
        yield f"{subject.plan.place('test.files')}: {path!r} is not in the source folder {subject.project.folder}"


@rule("test-program", "Something installs the program of the test's command")
def _test_program(subject: RuleSubject) -> Iterator[str]:
    yield from _programs(subject, certain=True)


@rule("test-program-unlisted", "The recipe names the program of the test's command", severity=Severity.WARNING)
def _test_program_unlisted(subject: RuleSubject) -> Iterator[str]:
    yield from _programs(subject, certain=False)


def _programs(subject: RuleSubject, *, certain: bool) -> Iterator[str]:
    project = subject.project
    if project.dependencies is None:
        return
    required = (*subject.test_requirements, *filter(subject.applies, project.dependencies))
    names = {canonicalize_name(item.name) for item in required}
    # Any other requirement may install one of them, too, and so may those of a source that is not known.
    if certain is (not names and bool(project.folder)):
        used = programs(subject.plan.facts.test_command)
        for name in (name for name, dist in used.items() if not any(item.startswith(dist) for item in names)):
            yield f"{subject.plan.place('test.command')}: nothing is known to install {name!r}: it is not in test.requirements"


@rule("git-submodules", "The git submodules of the source are checked out", severity=Severity.WARNING)
def _submodules(subject: RuleSubject) -> Iterator[str]:
    for path in subject.project.submodules:
        yield f"{path} of {subject.project.folder} is an empty git submodule"


@rule("missing-sources", "The source files that setup.py names exist", severity=Severity.WARNING)
def _missing_sources(subject: RuleSubject) -> Iterator[str]:
    by_place: dict[str, list[str]] = {}
    for place, path in subject.project.missing_sources:
        by_place.setdefault(place, []).append(path)
    for place, paths in by_place.items():
        yield f"{place} names {listed(map(printable, paths), 5)}, which the source does not have"


@rule("nightly-version", "Wheels of the night have a version of development", severity=Severity.WARNING)
def _nightly_version(subject: RuleSubject) -> Iterator[str]:
    version, place = subject.project.build_files.version
    if version and subject.plan.ci and subject.plan.ci.nightly and ".dev" not in version:
        yield f"{place}: version {printable(version)} is none of development, and ci.nightly publishes each night's wheels"
