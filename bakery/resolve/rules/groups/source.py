"""The files of the source: what of them a build would not have, and what git does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from wheel_audit.text import listed, printable

_SHOWN = 5


def _some(names: Sequence[str]) -> str:
    return listed(map(printable, names), _SHOWN)


@rule("source-names", "The names of files are UTF-8")
def _names(subject: RuleSubject) -> Iterator[str]:
    if names := subject.project.source.names:
        yield f"the source has names that are not UTF-8: {_some(names)}"


@rule("source-beyond", "A build reads nothing outside of its source")
def _beyond(subject: RuleSubject) -> Iterator[str]:
    for place, path in subject.project.source.beyond:
        yield f"{place} names {path}, which is outside of the source folder {subject.project.folder}"


@rule("source-links", "Links of the source lead to files that are sent", severity=Severity.WARNING)
def _links(subject: RuleSubject) -> Iterator[str]:
    if links := subject.project.source.links:
        named = [f"{name} -> {target}" for name, target in links]
        yield f"links of the source lead to files that a build does not have: {_some(named)}"


@rule("tracked-results", "Files of the project do not look like results", severity=Severity.WARNING)
def _tracked_results(subject: RuleSubject) -> Iterator[str]:
    if names := subject.project.source.left_out:
        folder = subject.project.folder
        inside = [name if folder == "." else name.removeprefix(f"{folder}/") for name in names]
        back = ", ".join(f'"!{printable(name)}"' for name in inside[:_SHOWN])
        yield f"files of the project look like results and are not sent: {_some(names)}; to send them: source.ignore = [{back}]"


@rule("lfs-pointers", "The files of Git LFS are downloaded", severity=Severity.WARNING)
def _pointers(subject: RuleSubject) -> Iterator[str]:
    if names := subject.project.source.pointers:
        yield f"pointers of Git LFS are in place of files: {_some(names)}"


@rule("git-commit", "Git tells the commit of the source", severity=Severity.WARNING)
def _commit(subject: RuleSubject) -> Iterator[str]:
    problem, fix = subject.project.source.doubt
    if problem:
        epoch = subject.arguments.get("SOURCE_DATE_EPOCH", "")
        time = "" if "SOURCE_DATE_EPOCH" in subject.plan.given else f"SOURCE_DATE_EPOCH is {epoch}, "
        yield f"git does not tell the last commit of the source: {problem}; {time}and records may lack the commit. {fix}"


@rule("script-line-ends", "Scripts that the recipe calls have Unix line ends", severity=Severity.WARNING)
def _script_line_ends(subject: RuleSubject) -> Iterator[str]:
    if names := subject.project.source.scripts:
        yield f"the first line of a script ends with a carriage return: {_some(names)}"


@rule("file-times", "The wheel does not depend on the times of files", severity=Severity.WARNING)
def _file_times(subject: RuleSubject) -> Iterator[str]:
    if names := subject.project.source.timestamps:
        yield f"__TIMESTAMP__ makes each checkout another wheel: {_some(names)}"
