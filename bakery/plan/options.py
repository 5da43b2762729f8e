"""What a plan says beside its stages and cells: variables, caches, secrets, the audit, the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bakery.core.names import CacheBackend, Phase, secret_variable
from bakery.plan.values import Value


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the bake file.

    Attributes:
        value: what it is when nobody sets it.
        patterns: regular expressions for the whole value; all of them hold.
        choices: the values it may have, empty for any.
        expected: what to say when a value does not fit.
    """

    name: str
    value: str
    description: str
    patterns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent to the engine of the project's folder.

    Attributes:
        folder: the source's folder in the build context; empty where nothing is sent.
        accepted: patterns of files that look like secrets and are none.
        expected_mb: MB (10⁶ bytes) that it may have before a bake warns.
        chosen: the recipe says what is left out.
    """

    folder: str = ""
    accepted: tuple[str, ...] = ()
    expected_mb: int = 0
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Cache:
    """The layer cache. Variable CACHE chooses the backend, CACHE_REF, CACHE_DIR and CACHE_BRANCH its place; with
    CACHE_READ_ONLY nothing is written.

    Attributes:
        backend: the backend of this plan.
        offered: the backends that variable CACHE may name.
        mode: ``min`` or ``max``.
        compression: empty for BuildKit's own; ``compression_level`` is None for that.
        timeout: what an import or export of ``gha`` may take, in Go's notation; empty for BuildKit's own.
        limit_mb: MB (10⁶ bytes) that ``gha`` keeps for the repository.
        expected_s: seconds that the longest cell takes; 0 where nobody said.
        bucket: attributes that name the bucket of ``s3``; empty for none.
    """

    backend: CacheBackend
    offered: tuple[CacheBackend, ...]
    ref: str
    mode: str
    ignore_error: bool = True
    compression: str = ""
    compression_level: int | None = None
    timeout: str = ""
    limit_mb: int = 0
    expected_s: float = 0
    bucket: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Naming:
    """How one wheel of a build is named.

    Attributes:
        clean: the project's own local version is removed.
        local: the local version label; empty for none of the recipe's.
        build_tag: the build tag; empty for the project's own.
        index: ``public``, ``private``, or empty where nobody said where it goes.
    """

    clean: bool = False
    local: Value = ()
    build_tag: Value = ()
    index: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """What every wheel of the plan promises, beside what its cell says.

    Attributes:
        name: the normalised project name, empty when only the built wheel tells.
        version: the version, empty when only the built wheel tells.
        plat: the manylinux policy without the machine, ``auto`` for any.
        excludes: soname globs that must stay outside the wheel.
        repaired: auditwheel gave the wheel its platform tag.
        stripped: debug information was removed.
        namings: how the wheels of a build are named, the tested one first; each build gives one wheel for each.
        requires: what METADATA must require.
        abi3: the lowest Python that stable-ABI wheels serve; empty where there are none.
    """

    name: str
    version: str
    plat: str
    excludes: tuple[str, ...]
    repaired: bool
    stripped: bool = False
    namings: tuple[Naming, ...] = (Naming(),)
    requires: tuple[Value, ...] = ()
    abi3: str = ""


@dataclass(frozen=True, slots=True)
class Secret:
    """What steps are told in confidence. A plan knows where it is, and never what it is.

    Attributes:
        name: the id of its mount.
        env: the variable of bakery's environment that holds it; empty for none.
        file: the file that holds it, relative to the project or absolute; empty for none.
        command: the program that prints it, and its arguments; empty for none.
        phases: who is told.
        variable: the environment variable of the steps that are told; empty for the file /run/secrets/NAME.
    """

    name: str
    env: str
    file: str
    command: tuple[str, ...]
    phases: tuple[Phase, ...]
    variable: str

    @property
    def holder(self) -> str:
        """The variable of the bake file that names the file with it; empty where the environment holds it."""
        return "" if self.env else secret_variable(self.name)

    @property
    def wants(self) -> tuple[str, ...]:
        """What reading it asks of the machine, in the words of ``--allow``."""
        return (f"secret.command={self.name}",) if self.command else (f"fs.read={self.file}",) if self.file else ()

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        if self.env:
            return f"environment variable {self.env}"
        return f"file {self.file}" if self.file else f"command {self.command[0]}"


@dataclass(frozen=True, slots=True)
class Ci:
    """What the workflow does.

    Attributes:
        branches: globs of branches whose pushes are baked.
        tags: globs of tags that are releases.
        runners: platform → label of the runner.
        max_jobs: jobs that the cells are packed into at most.
        timeout: minutes that a job may take.
        install: what pip installs as bakery.
        cache: ``gha`` or ``none``; empty where an estimate decides.
        free_disk: whether space is made first; None where the estimate decides.
        attest: whether provenance is attested.
        publish: the GitHub environment of trusted publishing; empty for none.
        publish_url: the upload address; empty for PyPI's.
        pages: whether there is a static index on GitHub Pages.
    """

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    runners: Mapping[str, str]
    max_jobs: int
    timeout: int
    install: str
    cache: str
    free_disk: bool | None
    attest: bool
    publish: str
    publish_url: str
    pages: bool


@dataclass(frozen=True, slots=True)
class Cibuildwheel:
    """What cibuildwheel is told of a recipe, beside what the audit and the cells say.

    Attributes:
        frontend: ``build`` or ``uv``.
        package: the folder of the source in the project; empty where it is fetched.
        sdist: NAME==VERSION of the source archive; empty for other sources.
        git: address and reference of the repository; None for other sources.
        image: the recipe's base image; empty for none.
        system_packages: packages of the image's own manager, on Linux.
        requirements: packages beside those that the project lists.
        environment: system → variables of the build.
        before_all: system → the command that prepares its machine; empty for none.
        test_command: system → the command of the test; empty for none.
        load: every shared object is loaded before the imports.
        minimum_macos: the oldest macOS; empty for cibuildwheel's choice.
        toolkit: the recipe's CUDA, ``none`` for none.
        native: the recipe has a native step.
    """

    frontend: str = "build"
    package: str = "."
    sdist: str = ""
    git: tuple[str, str] | None = None
    image: Value = ()
    system_packages: tuple[str, ...] = ()
    requirements: tuple[Value, ...] = ()
    config_settings: tuple[tuple[str, Value], ...] = ()
    environment: Mapping[str, tuple[tuple[str, Value], ...]] = field(default_factory=dict)
    before_all: Mapping[str, str] = field(default_factory=dict)
    test_requirements: tuple[Value, ...] = ()
    test_imports: tuple[str, ...] = ()
    test_command: Mapping[str, Value] = field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    load: bool = True
    minimum_macos: str = ""
    toolkit: str = "none"
    native: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One override in bake's grammar, handed to buildx as it stands: ``pattern.key[+]=value``."""

    pattern: str
    key: str
    append: bool
    value: str

    def __str__(self) -> str:
        return f"{self.pattern}.{self.key}{'+' if self.append else ''}={self.value}"
