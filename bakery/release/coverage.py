"""Compares the file names of a package index with a plan: cells without a wheel, and releases that the matrix lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from bakery.core.errors import RecipeError, UnavailableError, UsageError
from bakery.core.names import axis_variable
from bakery.plan.model import Plan
from bakery.recipe.files import PYPROJECT
from bakery.recipe.toml_file import read
from bakery.release.verify import assigned, is_wheel_name
from bakery.toolchains.facts import manylinux_images, minor
from wheel_audit.wheel_names import parse_wheel_name

DISTRIBUTIONS = {"cuda": "cuda-toolkit", "torch": "torch", "jax": "jax"}
"""Axis → the distribution of the package index whose versions are its releases."""

AXES = ("python", *DISTRIBUTIONS)
"""Axes whose releases are known."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an index has of a plan.

    Attributes:
        version: the version of the project that was compared; empty if none is known.
        cells: the number of planned cells.
        missing: the cells without a wheel.
        newer: axis → the minor releases that are newer than all of the recipe.
    """

    recipe: str
    project: str
    version: str
    cells: int
    missing: tuple[str, ...]
    newer: Mapping[str, tuple[str, ...]]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or newer."""
        return not self.missing and not any(self.newer.values())


def named_project(plan: Plan, root: Path) -> str:
    """Return the distribution that a plan's source names; empty if only the built wheel has its name."""
    name = plan.audit.name or project_table(plan, root).get("name")
    return canonicalize_name(name) if isinstance(name, str) else ""


def project_of(plan: Plan, root: Path) -> str:
    """Return the distribution that a plan builds. Raises UsageError if only the built wheel has its name."""
    if name := named_project(plan, root):
        return name
    raise UsageError(
        f"recipe {plan.recipe}: pyproject.toml does not name the project",
        hint="name it: --project NAME",
    )


def project_table(plan: Plan, root: Path) -> Mapping[str, object]:
    """Return [project] of the pyproject.toml of a plan's source; empty if there is none, or the source is not in the project."""
    if not plan.source_context.folder:
        return {}
    file = root / plan.cibuildwheel.package / plan.facts.subdirectory / PYPROJECT
    try:
        table = read(file, PYPROJECT, root).data.get("project")
    except RecipeError:
        return {}
    return table if isinstance(table, dict) else {}


def coverage(
    plan: Plan,
    project: str,
    version: str,
    files: Iterable[str],
    releases: Callable[[str], Iterable[Version]],
    ignored: Sequence[tuple[str, str]] = (),
) -> Coverage:
    """Compare a plan with the ``files`` of its project's page.

    ``version`` is the version to compare; by default that of the recipe's sdist, else the newest on the page.
    ``releases`` returns the versions of another distribution; ``ignored`` has (axis, glob of its minor releases). Raises
    UnavailableError if a distribution whose versions are releases of an axis has none.
    """
    wheels = [Path(name) for name in files if is_wheel_name(name)]
    versions = {_version(path) for path in wheels}
    newest = max(versions, key=lambda item: (not item.is_prerelease, item), default="0")
    wanted = Version(version or plan.audit.version or str(newest)).public
    cells = (*plan.cells, *plan.cibuildwheel_cells)
    wheels_of, served, _, _ = assigned(plan, [path for path in wheels if _version(path).public == wanted])
    covered = {*wheels_of, *(cell.id for others in served.values() for cell in others)}
    return Coverage(
        plan.recipe,
        project,
        wanted if version or plan.audit.version or versions else "",
        len(cells),
        tuple(cell.id for cell in cells if cell.built_by not in covered),
        {axis: newer for axis in AXES if (newer := _newer(plan, axis, releases, ignored))},
    )


def _version(path: Path) -> Version:
    return parse_wheel_name(path.name)[1]


def _newer(
    plan: Plan, axis: str, releases: Callable[[str], Iterable[Version]], ignored: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """Return the minor releases that are newer than all values of an axis, or of its variable."""
    variables = {item.name: item.value for item in plan.variables}
    given = {cell.axes.get(axis, "") or variables.get(axis_variable(axis), "") for cell in plan.cells} - {""}
    if not given:
        return ()
    if axis == "python":
        # Those of the manylinux images, without free-threaded ones.
        offered = [python for row in manylinux_images() for python in row.pythons if not python.endswith("t")]
    else:
        offered = [str(item) for item in releases(DISTRIBUTIONS[axis]) if not item.is_prerelease]
        if not offered:
            raise UnavailableError(f"the package index has no {DISTRIBUTIONS[axis]}, whose versions are its releases")
    newest = max(Version(minor(value.removesuffix("t"))) for value in given)
    later = {item for text in offered if (item := Version(minor(Version(text).public))) > newest}
    globs = [glob for name, glob in ignored if name == axis]
    return tuple(str(item) for item in sorted(later) if not any(fnmatchcase(str(item), glob) for glob in globs))
