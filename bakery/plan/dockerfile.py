"""The Dockerfile of a plan: stages and their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TypeAlias

from bakery.plan.values import Ref, Value, expand


class Role(StrEnum):
    """What a stage is for, and whose programs a step mounts: ``dockerfiles/bin`` has a folder of this name.

    `ROOT` is the root file system that the stages of a cell start from, `FRAMEWORK` the layer of torch, `PREPARE` what only carries
    files; they have no programs of their own.
    """

    PREPARE = "prepare"
    ROOT = "root"
    SYSTEM = "system"
    PACKAGES = "packages"
    SOURCE = "source"
    CUDA = "cuda"
    RUST = "rust"
    FRAMEWORK = "framework"
    BACKEND = "backend"
    COMPILE = "compile"
    FINISH = "finish"
    TEST = "test"
    RECORDS = "records"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Mount:
    """One ``--mount`` of a `Run`. Unset parts are empty strings."""

    type: str
    target: str
    source: str = ""
    from_: str = ""
    id: str = ""
    sharing: str = ""
    env: str = ""
    writable: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Arg:
    """``ARG``: declares a build argument in a stage. Without a default here, the emitter takes that of the plan."""

    name: str
    default: Value = ()


@dataclass(frozen=True, slots=True)
class Env:
    """``ENV``: sets variables for the following steps and for the image."""

    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command as words. The emitter quotes each word, so none reaches the shell as syntax."""

    words: tuple[Value, ...]
    environment: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text that is written as it is: Bakery's own, or a command of the recipe."""

    text: str


@dataclass(frozen=True, slots=True)
class Resolves:
    """The packages that a step installs from the index.

    Attributes:
        place: the name of the set in a lock.
        words: requirements and options of pip; after ``-r`` a file that only exists during the build.
        direct: distributions that may come from a URL, and not only from the index.
    """

    place: str
    words: tuple[Value, ...]
    direct: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequirementsFile:
    """A requirements file that a step writes from the project's pyproject.toml.

    Attributes:
        path: inside the image.
        kind: ``build`` for those of [build-system], ``run`` for those of [project].
        without: distributions that are left out.
        extra: it has those of this extra alone.
    """

    path: str
    kind: str
    without: tuple[str, ...] = ()
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """``RUN``: commands in order, up to the first that fails; the packages that it resolves, and the requirements files that it
    writes (``lists``). ``programs``: it mounts Bakery's programs of this role.
    """

    commands: tuple[Command | Script, ...]
    mounts: tuple[Mount, ...] = ()
    programs: Role | None = None
    network: bool = True
    comment: str = ""
    resolves: Resolves | None = None
    lists: tuple[RequirementsFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """``COPY --from``; ``link``: its layer does not depend on the stage's base."""

    sources: tuple[str, ...]
    target: str
    from_: str
    link: bool = True


@dataclass(frozen=True, slots=True)
class Add:
    """``ADD`` of a git repository."""

    source: Value
    target: str


@dataclass(frozen=True, slots=True)
class Workdir:
    """``WORKDIR``."""

    path: str


@dataclass(frozen=True, slots=True)
class Cmd:
    """``CMD`` in exec form."""

    words: tuple[str, ...]


Step: TypeAlias = Arg | Env | Run | Copy | Add | Workdir | Cmd


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the Dockerfile.

    Attributes:
        base: may refer to global arguments.
        says: what its steps do, in words for displays; empty for its name.
        on_builder: it runs on the platform of the builder.
    """

    name: str
    base: Value
    steps: tuple[Step, ...] = ()
    comment: str = ""
    role: Role = Role.PREPARE
    says: str = "prepare"
    on_builder: bool = False

    @property
    def declared(self) -> list[str]:
        """The build arguments that its steps declare."""
        return [step.name for step in self.steps if isinstance(step, Arg)]

    @property
    def chosen_by(self) -> list[str]:
        """The build arguments that its base refers to, without their expansions."""
        return [part.variable for part in self.base if isinstance(part, Ref)]

    def dependencies(self, args: Mapping[str, str]) -> tuple[str, ...]:
        """Return the stages and images that it starts from, copies from and mounts, once each.

        ``args`` has the values of the build arguments that its base refers to.
        """
        sources = [expand(self.base, args)]
        for step in self.steps:
            if isinstance(step, Copy):
                sources.append(step.from_)
            elif isinstance(step, Run):
                sources += [mount.from_ for mount in step.mounts]
        return tuple(dict.fromkeys(filter(None, sources)))

    def context_paths(self) -> tuple[str, ...]:
        """Return the paths of the build context that its steps copy or mount."""
        paths: list[str] = []
        for step in self.steps:
            if isinstance(step, Copy) and not step.from_:
                paths += step.sources
            elif isinstance(step, Run):
                paths += [mount.source for mount in step.mounts if mount.type == "bind" and not mount.from_]
        return tuple(dict.fromkeys(PurePosixPath(path or ".").as_posix() for path in paths))
