"""The parts of a plan besides its stages and cells: variables, caches, secrets, the audit, the workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bakery.core.names import CacheBackend, secret_variable
from bakery.core.target_kinds import Phase
from bakery.plan.values import Value


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the bake file, and what its value must be: one of the choices, or matched as a whole by all patterns (RE2).
    ``expected`` describes a valid value.
    """

    name: str
    value: str
    description: str
    patterns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    expected: str = ""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The part of the project's folder that is sent to BuildKit.

    Attributes:
        folder: the source's folder in the build context; empty if nothing is sent.
        accepted: patterns of files that look like secrets but are harmless.
        expected_mb: the size in MB (10⁶ bytes) above which a build warns.
        has_ignore: the recipe sets ``source.ignore``.
        default_ignore: patterns of files that are not sent although the recipe does not say so.
    """

    folder: str = ""
    accepted: tuple[str, ...] = ()
    expected_mb: int = 0
    has_ignore: bool = False
    default_ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """The layer cache. Variable CACHE sets the backend, one of those offered; CACHE_REF, CACHE_DIR and CACHE_BRANCH its
    location. With CACHE_READ_ONLY nothing is written.

    Attributes:
        mode: ``min`` or ``max``.
        compression: empty for BuildKit's default, as is None for ``compression_level``.
        timeout: the time limit of an import or export with ``gha``, in Go's notation; empty for BuildKit's default.
        limit_mb: the size in MB (10⁶ bytes) that ``gha`` keeps for the repository.
        expected_s: the estimated seconds of the longest cell; 0 if unknown.
        bucket: the attributes of the ``s3`` bucket; empty for none.
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
    """How one wheel of a build is named. An empty local version label or build tag is the project's.

    Attributes:
        clean: the project's local version is removed.
        index: ``public``, ``private``, or empty if unknown.
        name: the name of the distribution; empty for the project's.
        meta: the name of the package that has an extra for the distribution; empty for none.
    """

    clean: bool = False
    local: Value = ()
    build_tag: Value = ()
    index: str = ""
    name: Value = ()
    meta: str = ""

    @property
    def parts(self) -> tuple[Value, Value, Value]:
        """The name, the local version label and the build tag."""
        return self.name, self.local, self.build_tag

    @property
    def words(self) -> Value:
        """The argument of ``finish.py --name``."""
        parts: list[Value] = [("name=", *self.name)] if self.name else []
        parts += [("clean",)] if self.clean else []
        parts += [("local=", *self.local)] if self.local else []
        parts += [("build-tag=", *self.build_tag)] if self.build_tag else []
        spaced = [piece for part in parts for piece in (" ", *part)]
        return tuple(spaced[1:]) or ("",)


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit expects of every wheel of the plan. Name and version are empty if only the built wheel has them.

    Attributes:
        plat: the manylinux policy without the machine, ``auto`` for any.
        excludes: globs of sonames that must stay outside the wheel.
        repaired: auditwheel sets the platform tag.
        stripped: debug information is removed.
        namings: the names of the wheels of a build; the first one is tested.
        requires: the requirements that METADATA must have.
        abi3: the lowest Python of stable-ABI wheels; empty for none.
        py3: the wheels are for every Python 3.
        max_size_mb: the largest wheel in MB (10⁶ bytes); 0 for PyPI's limit.
        native: the folder of the source with the result of the native step; none if it is merged.
        torch_abi: the oldest torch of wheels that keep to its stable ABI; empty for none.
        variant_label: the label of wheel variants; empty for one that names the properties.
        variant_properties: (``namespace :: feature``, value) that replace what the audit reads.
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
    torch_abi: str = ""
    max_size_mb: int = 0
    variant_label: Value = ("",)
    variant_properties: tuple[tuple[str, Value], ...] = ()
    py3: bool = False
    native: Value = ()


@dataclass(frozen=True, slots=True)
class Secret:
    """The source of a secret, never its value. One of ``env``, ``file`` and ``command`` is set.

    Attributes:
        name: the id of its mount.
        file: relative to the project, or absolute.
        command: the program that prints it, and its arguments.
        phases: the phases whose steps receive it.
        variable: the environment variable of these steps; empty for the file /run/secrets/NAME.
    """

    name: str
    env: str
    file: str
    command: tuple[str, ...]
    phases: tuple[Phase, ...]
    variable: str

    @property
    def holder(self) -> str:
        """The variable of the bake file that names the secret's file; empty for a secret of the environment."""
        return "" if self.env else secret_variable(self.name)

    @property
    def grants(self) -> tuple[str, ...]:
        """The grants that reading it needs, as ``--allow`` writes them."""
        if self.env:
            return (f"secret.env={self.env}",)
        return (f"secret.command={self.name}",) if self.command else (f"fs.read={self.file}",)

    @property
    def origin(self) -> str:
        """The source, in words."""
        if self.env:
            return f"environment variable {self.env}"
        return f"file {self.file}" if self.file else f"command {self.command[0]}"


@dataclass(frozen=True, slots=True)
class Ci:
    """The settings of the generated workflow.

    Attributes:
        branches: globs of branches whose pushes are built.
        tags: globs of tags that are releases.
        pull_request: ``all``, ``cover``, ``first`` or globs: the cells that a pull request builds.
        schedule: when the default branch is built, as cron writes it; empty for never.
        nightly: for how many days the pre-release ``nightly`` keeps these wheels; 0 for no such release.
        sdist: build the source distribution, too, and a wheel from it.
        runners: platform → label of the runner.
        gpu_runners: the labels of runners that test wheels on their GPUs.
        timeout: the time limit of a job in minutes.
        install: the requirements from which pip installs Bakery.
        cache: ``gha`` or ``none``; empty if an estimate decides.
        compiler_cache: the address of a store; empty for GitHub's cache.
        free_disk: remove preinstalled files first; None if an estimate decides.
        publish: the GitHub environment of trusted publishing; empty for none.
        publish_url: the upload URL; empty for PyPI's.
        test_publish: the GitHub environment of an index on which a release is tried first; empty for none.
        test_publish_url: its upload URL.
        github_release: attach the wheels to the GitHub release of a tag.
        pages: keep a static package index on GitHub Pages.
    """

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    pull_request: str | tuple[str, ...]
    schedule: str
    nightly: int
    sdist: bool
    runners: Mapping[str, str]
    gpu_runners: tuple[str, ...]
    max_jobs: int
    timeout: int
    install: tuple[str, ...]
    cache: str
    compiler_cache: str
    free_disk: bool | None
    attest: bool
    publish: str
    publish_url: str
    test_publish: str
    test_publish_url: str
    github_release: bool
    pages: bool


@dataclass(frozen=True, slots=True)
class Repository:
    """What a workflow must know of the repository that runs it.

    Attributes:
        folder: the project's folder in the repository; empty for its top.
        submodules: the project has git submodules.
        lfs: git-lfs has the content of some files.
    """

    folder: str = ""
    submodules: bool = False
    lfs: bool = False

    @property
    def slug(self) -> str:
        """The folder as a word, which no other folder has; empty for the top."""
        return re.sub(r"[^A-Za-z0-9_-]", lambda match: "." if match[0] == "/" else f"~{ord(match[0]):x}~", self.folder)

    def named(self, workflow: str) -> str:
        """Return the file of a workflow; no workflow of another project of the repository has the same."""
        return f"{workflow.removesuffix('.yml')}.{self.slug}.yml" if self.folder else workflow


AT_TOP = Repository()
"""A repository with a project at its top, and with nothing that a checkout must be asked for."""


@dataclass(frozen=True, slots=True)
class Cibuildwheel:
    """The recipe's settings for cibuildwheel, besides those of `BuildFacts`. Commands and variables are by system.

    Attributes:
        frontend: ``build`` or ``uv``.
        package: the folder of the source in the project.
        sdist: NAME==VERSION of a source distribution.
        git: URL and reference of the repository.
        requirements: build requirements beside those of the project.
        before_all: the command that prepares the machine.
        before_build_variables: what the command before the build refers to.
        test_gpu: the command of Linux runs on a machine with a GPU, in no build.
        load: load every shared object before the imports.
        toolkit: the CUDA toolkit, ``none`` for none.
        native: the recipe has a native step.
    """

    frontend: str = "build"
    package: str = "."
    sdist: str = ""
    git: tuple[str, str] | None = None
    system_packages: tuple[str, ...] = ()
    requirements: tuple[Value, ...] = ()
    environment: Mapping[str, tuple[tuple[str, Value], ...]] = field(default_factory=dict)
    before_all: Mapping[str, Value] = field(default_factory=dict)
    before_build_variables: tuple[str, ...] = ()
    test_requirements: tuple[Value, ...] = ()
    test_command: Mapping[str, Value] = field(default_factory=dict)
    test_gpu: bool = False
    load: bool = True
    minimum_macos: str = ""
    toolkit: str = "none"
    native: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One override in bake's grammar, passed to buildx: ``pattern.key[+]=value``."""

    pattern: str
    key: str
    append: bool
    value: str

    def __str__(self) -> str:
        return f"{self.pattern}.{self.key}{'+' if self.append else ''}={self.value}"
