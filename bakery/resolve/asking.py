"""A git repository for steps that run code of the project, which they get only if they ask for it.

Build backends ask git for the version, and which files are tracked or ignored. ``.git`` is never sent: it changes with each
commit, and contains the history and tokens. A step runs in an empty repository until something in it opens a file of that
repository. Then it stops, and a second step runs the same commands in a repository that ``with_repository.py`` makes from a
description of the checkout's. The second step gets the source and the description from the first one, which hands over
nothing if nobody asked: for a project that does not ask, no key changes with a commit, and the second step stays cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bakery.plan.delivery import Variable
from bakery.plan.dockerfile import Arg, Command, Copy, Mount, Role, Run, Stage
from bakery.plan.values import Ref, literal
from bakery.resolve.references import declarations
from bakery.resolve.stage_inputs import SCOPE, SCOPE_STAGE, StageInputs, Turn, folder, literals, source_mount, with_args
from bakery.toolchains import program_mounts
from bakery.toolchains.program_mounts import GIT_CHECKOUT, GIT_CONTEXTS, GIT_PREFIX, REPOSITORY

STAGE = "git"
"""The stage with the description: a copy, for the reason in `program_mounts.CONTEXT`."""

_FILES = "git-files"
_GIVEN, _RULES, _PRISTINE, _ASKED = "/run/repository", "/run/repository-rules", "/run/source", "/asked"
_EPOCH = Arg("SOURCE_DATE_EPOCH")
_ASKS = "If it asks git, it stops, and -again runs it with the repository."


def asking_stages(  # noqa: PLR0913
    inputs: StageInputs,
    name: str,
    base: str,
    result: str,
    run: Callable[[Turn], Run],
    comment: str,
    *args: Arg,
    role: Role,
    says: str,
    source: Mount | None = None,
    full: bool = False,
    is_dated: bool = True,
    given: str = "",
) -> tuple[Stage, ...]:
    """Return the stages of a step that may ask for the repository; one stage if the source is no folder of a checkout.

    Args:
        result: the file or folder that the step makes; empty in the stage whose step did not run to its end.
        run: returns the step.
        source: replaces the mount of the source.
        full: an empty result is an error (of the native command).
        is_dated: the step gets SOURCE_DATE_EPOCH.
        given: a stage before it that may ask; if it did, this one has the repository at once.
    """
    dated = (_EPOCH,) if is_dated else ()
    source = source or source_mount(inputs, writable=True)

    def stage(name: str, turn: Turn, comment: str, says: str, *more: Arg) -> Stage:
        steps = (run(turn),)
        own = (arg for arg in (*more, *args) if arg not in declarations(steps))
        return with_args(Stage(name, literal(base), steps, comment, role, says), *own)

    if not inputs.recipe.source.path:
        return (stage(name, Turn((), source), comment, says, *dated),)

    def turn(which: str, source: Mount, *mounts: Mount) -> Turn:
        words = literals(program_mounts.path("with_repository.py"), which, result, *["--full"] * full, "--")
        return Turn(words, source, (Mount("bind", _RULES, source="/rules", from_=STAGE), *mounts))

    def chosen(name: str) -> tuple[Mount, ...]:
        return (Mount("bind", _GIVEN, source="/repository", from_=f"{name}-asked"), SCOPE)

    pristine = Mount("bind", _PRISTINE, source=source.source, from_=source.from_)
    first = turn("first", source, pristine, *(chosen(given) if given else ()))
    handed = Mount("bind", "/src", source=f"{_ASKED}/source", from_=name, writable=True)
    epoch = Mount("bind", "/run/epoch", source=f"{_ASKED}/epoch", from_=name)
    second = turn("again", handed, epoch, *chosen(name))
    choice = (Copy(("/state/",), "/state/", STAGE), Copy((f"{_ASKED}/choice/",), "/", name, link=False))
    return (
        stage(name, first, f"{comment} {_ASKS}", says, *dated),
        Stage(f"{name}-asked", literal(SCOPE_STAGE), choice),
        stage(again(name), second, "", f"{says} with the repository"),
    )


def again(name: str) -> str:
    """Return the name of the stage that runs a step with the repository."""
    return f"{name}-again"


def results(inputs: StageInputs, name: str, result: str, target: str) -> tuple[Mount, ...]:
    """Return the mount of what the second step of a stage made; none if it has only one."""
    return (Mount("bind", target, source=result, from_=again(name)),) if inputs.recipe.source.path else ()


_SENT = ("HEA[D]", "inde[x]", "sharedinde[x].*", "packed-ref[s]", "shallo[w]", "commondi[r]", "inf[o]/exclud[e]")
"""What tells commits, tags and tracked files, beside the folders ``refs`` and ``objects``. No file must exist."""


def git_variables(stages: Sequence[Stage]) -> tuple[Variable, ...]:
    """Return the variables of the bake file that name the repository for a plain ``docker buildx bake``, if steps may ask."""
    checkout, directory = GIT_CONTEXTS.values()
    about = "Git directory, where GIT_CHECKOUT has none, or does not send it: `git rev-parse --git-dir`"
    return (
        Variable(checkout, ".", "Folder with the .git that build backends ask; empty: they have no git"),
        Variable(directory, "", about),
    ) * any(stage.name == _FILES for stage in stages)


def repository_stages(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stages with the description of the checkout's repository.

    In a run of Bakery, a build context replaces the stage `program_mounts.REPOSITORY`. Plain ``docker buildx bake``
    makes the description from the git directory. BuildKit sends only those files of a context that a stage names.
    """
    if not inputs.recipe.source.path:
        return ()
    program = (program_mounts.path("repository.py"), "/git", f"/{REPOSITORY}")
    words = (*literals(*program, folder(inputs)), (Ref(GIT_PREFIX),), (Ref(GIT_CHECKOUT),))
    describe = Run((Command(words),), (Mount("bind", "/git", from_=_FILES),), Role.SOURCE, network=False)
    copies = (
        Copy(tuple(f"{place}{name}" for name in names), f"/{name_of}/{target}", name_of)
        for name_of, place in zip(GIT_CONTEXTS, (".gi[t]/", ""), strict=True)
        for names, target in ((_SENT, ""), (("ref[s]",), "refs/"), (("object[s]",), "objects/"))
    )
    args = (Arg(GIT_PREFIX, literal("")), Arg(GIT_CHECKOUT, literal(".")))
    about = (
        "Git's commits, tags and tracked files, for a project that asks for them; empty, unless contexts have the first two names. "
        "No step sees configuration, hooks and logs."
    )
    return (
        *(Stage(name, literal("scratch"), comment="" if index else about) for index, name in enumerate(GIT_CONTEXTS)),
        Stage(_FILES, literal("scratch"), tuple(copies)),
        Stage(REPOSITORY, literal("base"), (*args, describe), "", Role.SOURCE, "describe the repository"),
        Stage(STAGE, literal("scratch"), (Copy((f"/{REPOSITORY}/",), "/", REPOSITORY),)),
    )
