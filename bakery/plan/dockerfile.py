"""The Dockerfile of a plan: stages and their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bakery.plan.values import Value


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
    """``ARG``: declares a build argument in a stage.

    Attributes:
        default: a value that follows from other arguments; empty where the emitter takes it from the plan.
    """

    name: str
    default: Value = ()


@dataclass(frozen=True, slots=True)
class Env:
    """``ENV``: sets variables for what follows in the stage and for the image."""

    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command as words; each word is quoted by the emitter, so no word reaches the shell as syntax."""

    words: tuple[Value, ...]
    environment: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text that is taken as it stands: bakery's own, or a command that the recipe's author wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Resolves:
    """What a step resolves to packages of the index.

    Attributes:
        place: what the set is called in a lock.
        words: requirements and options of pip; after ``-r`` a file that only the build knows.
        direct: distributions that may come from an address, and not only from the index.
    """

    place: str
    words: tuple[Value, ...]
    direct: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """``RUN``: its commands one after the other, stopping at the first that fails.

    Attributes:
        resolves: what it finds out about packages; None for other steps.
    """

    commands: tuple[Command | Script, ...]
    mounts: tuple[Mount, ...] = ()
    network: bool = True
    comment: str = ""
    resolves: Resolves | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """``COPY --from``."""

    source: str
    target: str
    from_: str


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
    """``CMD`` in its JSON form."""

    words: tuple[str, ...]


Step: TypeAlias = Arg | Env | Run | Copy | Add | Workdir | Cmd


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the Dockerfile. ``base`` may refer to global arguments.

    Attributes:
        on_builder: it stands on an image for whoever builds, not for the cell's platform.
    """

    name: str
    base: Value
    steps: tuple[Step, ...] = ()
    comment: str = ""
    on_builder: bool = False
