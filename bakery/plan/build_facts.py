"""What a recipe asks of its build, for those who judge a plan: rules, advice, estimates. They read no words of commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bakery.plan.values import Value


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The limits of parallel compilers: ``memory`` bytes of one, 0 if unknown; the recipe's number of ``jobs``, 0 for none."""

    memory: int = 0
    jobs: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words before a command that compiles; none without limits."""
        return ("with-jobs", f"{self.memory // 10**6}MB", str(self.jobs or "auto")) if self.memory or self.jobs else ()

    def needed(self, cores: int, memory: int) -> int:
        """Return the bytes that a cell's compilers need, as ``with-jobs`` counts them inside the container.

        ``memory``: bytes that the engine may use.
        """
        return self.memory and self.memory * (self.jobs or max(1, min(cores, memory // self.memory)))


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages that a table of the recipe lists, as it writes them."""

    requirements: tuple[str, ...] = ()
    system_packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What the recipe itself says of its packages, for advice that changes it.

    Attributes:
        packages: ``builder``, ``native`` or ``test`` → the packages of this table.
        components: the CUDA libraries.
        uses: which of ``toolkit``, ``framework``, ``rust`` and ``environment`` the builder has.
    """

    packages: Mapping[str, Packages] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """The facts about a build, with references to variables.

    Attributes:
        subdirectory: the folder of the package inside the source; ``.`` for its top.
        requirements: the Python packages that the recipe and its framework require, for the builder and the native step.
        framework_index: the address of the framework's own index; empty for none.
        packages: the system packages that the recipe names.
        config_settings: options of the build backend.
        environment: that of the compile step and, with precedence, of the native step.
        declared: the build arguments that these steps declare.
        compilers: CUDA major, or an empty text for the only toolkit → the program that compiles CUDA.
        before_build: the shell command that changes the builder; empty for none.
        picks_host: a toolkit installs a host compiler that its release supports.
        limits: those of parallel compilers.
        test_command: the shell command of the test; empty for none.
        test_files: the files that the test gets, relative to the source.
        test_imports: the modules that the test imports.
        test_requirements: the Python packages of the test.
        written: what the recipe says of its packages, in its own words.
    """

    subdirectory: str = "."
    requirements: tuple[Value, ...] = ()
    framework_index: Value = ()
    packages: tuple[str, ...] = ()
    config_settings: tuple[tuple[str, Value], ...] = ()
    environment: tuple[tuple[str, Value], ...] = ()
    declared: tuple[str, ...] = ()
    compilers: Mapping[str, str] = field(default_factory=dict)
    before_build: str = ""
    picks_host: bool = False
    limits: JobLimits = field(default_factory=JobLimits)
    test_command: str = ""
    test_files: tuple[str, ...] = ()
    test_imports: tuple[str, ...] = ()
    test_requirements: tuple[Value, ...] = ()
    written: Written = field(default_factory=Written)
