"""The files of the source: what of them a build would not have, and what git does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.source import SourceFacts
from bakery.resolve.rules.subject import RuleSubject
from wheel_audit.text import listed, printable

_WHEN = "This is checked by `check` and before a build."
_SHOWN = 5


def _facts(subject: RuleSubject) -> SourceFacts:
    return subject.project.source if subject.project else SourceFacts()


def _some(names: Sequence[str]) -> str:
    return listed(map(printable, names), _SHOWN)


@rule(
    "source-names",
    "The names of files are UTF-8",
    why="BuildKit's protocol carries text, so the transfer of the source fails: `grpc: failed to unmarshal the received "
    f"message: string field contains invalid UTF-8`, without the name of the file. {_WHEN}",
    fix="rename the file, or leave it out with source.ignore",
    source="moby/buildkit: fsutil's messages are protobuf strings",
)
def _names(subject: RuleSubject) -> Iterator[str]:
    if names := _facts(subject).names:
        yield f"the source has names that are not UTF-8: {_some(names)}"


@rule(
    "source-beyond",
    "A build reads nothing outside of its source",
    why="Only the folder that source names is sent, so the build fails in a container, after the whole image of the builder "
    f"was made. {_WHEN}",
    fix="set source to the folder that holds everything that it names, and subdirectory to that of the package: "
    'source = { path = ".", subdirectory = "pkg" }',
    source="the build context of Docker",
)
def _beyond(subject: RuleSubject) -> Iterator[str]:
    for place, path in _facts(subject).beyond:
        yield f"{place} names {path}, which is outside of the source folder {subject.project and subject.project.folder}"


@rule(
    "source-links",
    "Links of the source lead to files that are sent",
    why="A link is sent as it is. What it leads to is not in the build, so the wheel lacks the file or the build fails; pip "
    f"would have packaged the file. {_WHEN}",
    fix="replace the link by the file, or set source to a folder that holds both",
    source="the build context of Docker",
    severity=Severity.WARNING,
)
def _links(subject: RuleSubject) -> Iterator[str]:
    if links := _facts(subject).links:
        named = [f"{name} -> {target}" for name, target in links]
        yield f"links of the source lead to files that a build does not have: {_some(named)}"


@rule(
    "tracked-results",
    "Files of the project do not look like results",
    why="Some names are those of results of a build on this machine (dist, wheels, *.abi3.so), and their files are not sent. "
    f"If git tracks such a file, a package lacks it without an error. {_WHEN}",
    fix='send them: source.ignore = ["!NAME"]; or say that no build needs them: source.ignore = ["NAME"]',
    source="the ignore file that Bakery writes",
    severity=Severity.WARNING,
)
def _tracked_results(subject: RuleSubject) -> Iterator[str]:
    if names := _facts(subject).left_out:
        folder = subject.project.folder if subject.project else "."
        inside = [name if folder == "." else name.removeprefix(f"{folder}/") for name in names]
        back = ", ".join(f'"!{printable(name)}"' for name in inside[:_SHOWN])
        yield f"files of the project look like results and are not sent: {_some(names)}; to send them: source.ignore = [{back}]"


@rule(
    "lfs-pointers",
    "The files of Git LFS are downloaded",
    why="A pointer of some lines is sent in place of each file, and packaged as if it were the data or the library. "
    + _WHEN,
    fix="run: git lfs install && git lfs pull (in GitHub's actions/checkout: lfs: true)",
    source="git clone without git-lfs",
    severity=Severity.WARNING,
)
def _pointers(subject: RuleSubject) -> Iterator[str]:
    if names := _facts(subject).pointers:
        yield f"pointers of Git LFS are in place of files: {_some(names)}"


@rule(
    "git-commit",
    "Git tells the commit of the source",
    why="The record of a wheel names the commit, and SOURCE_DATE_EPOCH is the time of the last commit that changed the source: "
    f"without it, the same source gives other bytes here than in a full clone. {_WHEN}",
    fix="let git read the checkout and its history, or set the time yourself: --set SOURCE_DATE_EPOCH=SECONDS",
    source="git: safe.directory; git clone --depth",
    severity=Severity.WARNING,
)
def _commit(subject: RuleSubject) -> Iterator[str]:
    problem, fix = _facts(subject).doubt
    if problem:
        epoch = subject.arguments.get("SOURCE_DATE_EPOCH", "")
        time = "" if "SOURCE_DATE_EPOCH" in subject.plan.given else f"SOURCE_DATE_EPOCH is {epoch}, "
        yield f"git does not tell the last commit of the source: {problem}; {time}and records may lack the commit. {fix}"


@rule(
    "script-line-ends",
    "Scripts that the recipe calls have Unix line ends",
    why="The system looks for the interpreter `sh\\r`: the step ends with `not found`, although the script is there. "
    + _WHEN,
    fix="convert it (dos2unix FILE), and keep it so: add `*.sh text eol=lf` to .gitattributes",
    source="execve(2): interpreter scripts",
    severity=Severity.WARNING,
)
def _script_line_ends(subject: RuleSubject) -> Iterator[str]:
    if names := _facts(subject).scripts:
        yield f"the first line of a script ends with a carriage return: {_some(names)}"


@rule(
    "file-times",
    "The wheel does not depend on the times of files",
    why="__TIMESTAMP__ is the time of the source file, which is that of the checkout: the same commit gives other bytes in "
    f"another checkout. SOURCE_DATE_EPOCH does not change it. {_WHEN}",
    fix="use __DATE__ and __TIME__, which follow SOURCE_DATE_EPOCH, or neither",
    source="GCC's manual, Common Predefined Macros",
    severity=Severity.WARNING,
)
def _file_times(subject: RuleSubject) -> Iterator[str]:
    if names := _facts(subject).timestamps:
        yield f"__TIMESTAMP__ makes each checkout another wheel: {_some(names)}"
