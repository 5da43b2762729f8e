"""Settings → what cibuildwheel is told: the same values as the Dockerfile's, without its stages."""

from __future__ import annotations

from bakery.core import names
from bakery.core.errors import PlanError
from bakery.core.names import is_baked
from bakery.plan.cells import Cell
from bakery.plan.options import Cibuildwheel
from bakery.plan.values import Value, literal
from bakery.resolve.references import parse
from bakery.resolve.settings import Settings
from bakery.resolve.stage_inputs import Parts, folder
from bakery.toolchains.registry import frameworks


def check_some_baked(platforms: set[str]) -> None:
    """Raise PlanError where no platform is of Linux: there is nothing to bake then."""
    if not any(map(is_baked, platforms)):
        raise PlanError(
            f"no platform of Linux: {', '.join(sorted(platforms))}",
            hint="bakery bakes on Linux, and its other wheels follow that recipe: add linux/amd64 or linux/arm64",
        )


def cibuildwheel(parts: Parts) -> Cibuildwheel:
    """Return what cibuildwheel is told of a recipe."""
    settings = parts.settings
    framework = frameworks()[name] if (name := settings.text("builder.framework")) else None
    inside = settings.text("source.path")
    git = settings.text("source.git")
    return Cibuildwheel(
        frontend=settings.text("wheel.frontend"),
        package=folder(parts) if inside else "",
        sdist=settings.text("source.sdist"),
        git=(git, settings.text("source.ref")) if git else None,
        image=parse(settings.text("builder.base.image")) if settings.text("builder.base.image") else (),
        system_packages=settings.texts("builder.system-packages"),
        requirements=_values((*(framework.build if framework else ()), *settings.texts("builder.requirements"))),
        config_settings=_pairs(settings.mapping("wheel.config-settings")),
        environment={system: _environment(settings, system) for system in names.SYSTEMS},
        before_all={system: settings.text(f"{system}.before-all") for system in names.SYSTEMS},
        test_requirements=_values((*(framework.test if framework else ()), *settings.texts("test.requirements"))),
        test_imports=settings.texts("test.imports"),
        test_command={system: _test_command(settings, system) for system in names.SYSTEMS},
        test_files=settings.texts("test.files"),
        load=settings.flag("test.load-shared-objects"),
        minimum_macos=settings.text("macos.minimum"),
        toolkit=settings.text("builder.toolkit"),
        native=bool(settings.text("native.command")),
    )


def split(cells: tuple[Cell, ...]) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Return the cells that are baked, and the others."""
    return (
        tuple(cell for cell in cells if is_baked(cell.platform)),
        tuple(cell for cell in cells if not is_baked(cell.platform)),
    )


def _environment(settings: Settings, system: str) -> tuple[tuple[str, Value], ...]:
    found = {"SOURCE_DATE_EPOCH": parse("${SOURCE_DATE_EPOCH}")}
    if jobs := settings.text("builder.jobs"):
        found |= dict.fromkeys(("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"), literal(jobs))
    if system == "macos" and (minimum := settings.text("macos.minimum")):
        found["MACOSX_DEPLOYMENT_TARGET"] = literal(minimum)
    found |= dict(_pairs(settings.mapping("builder.environment")))
    found |= dict(_pairs(settings.mapping(f"{system}.environment")))
    return tuple(found.items())


def _test_command(settings: Settings, system: str) -> Value:
    text = settings.text(f"{system}.test-command") or settings.text("test.command")
    return parse(text) if text else ()


def _values(texts: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple(map(parse, texts))


def _pairs(table: dict[str, str]) -> tuple[tuple[str, Value], ...]:
    return tuple((key, parse(value)) for key, value in table.items())
