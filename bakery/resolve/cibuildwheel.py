"""Settings → cibuildwheel's settings: the values of the Dockerfile, without its stages."""

from __future__ import annotations

from bakery.core import names
from bakery.plan.options import Cibuildwheel
from bakery.plan.values import Value, literal
from bakery.resolve.references import parse
from bakery.resolve.settings import Settings
from bakery.resolve.stage_inputs import Parts, folder


def cibuildwheel(parts: Parts) -> Cibuildwheel:
    """Return the settings of a recipe for cibuildwheel."""
    settings = parts.settings
    framework = settings.framework
    inside = settings.text("source.path")
    git = settings.text("source.git")
    return Cibuildwheel(
        frontend=settings.text("wheel.frontend"),
        package=folder(parts) if inside else "",
        sdist=settings.text("source.sdist"),
        git=(git, settings.text("source.ref")) if git else None,
        image=parse(settings.text("builder.base.image")) if settings.text("builder.base.image") else (),
        system_packages=settings.texts("builder.system-packages"),
        requirements=(*map(parse, framework.build if framework else ()), *settings.parsed("builder.requirements")),
        config_settings=settings.pairs("wheel.config-settings"),
        environment={system: _environment(settings, system) for system in names.SYSTEMS},
        before_all={system: settings.text(f"{system}.before-all") for system in names.SYSTEMS},
        test_requirements=(*map(parse, framework.test if framework else ()), *settings.parsed("test.requirements")),
        test_imports=settings.texts("test.imports"),
        test_command={system: _test_command(settings, system) for system in names.SYSTEMS},
        test_files=settings.texts("test.files"),
        load=settings.flag("test.load-shared-objects"),
        minimum_macos=settings.text("macos.minimum"),
        toolkit=settings.text("builder.toolkit"),
        native=bool(settings.text("native.command")),
    )


def _environment(settings: Settings, system: str) -> tuple[tuple[str, Value], ...]:
    variables = {"SOURCE_DATE_EPOCH": parse("${SOURCE_DATE_EPOCH}")}
    if jobs := settings.text("builder.jobs"):
        variables |= dict.fromkeys(("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"), literal(jobs))
    if system == "macos" and (minimum := settings.text("macos.minimum")):
        variables["MACOSX_DEPLOYMENT_TARGET"] = literal(minimum)
    variables |= dict(settings.pairs("builder.environment"))
    variables |= dict(settings.pairs(f"{system}.environment"))
    return tuple(variables.items())


def _test_command(settings: Settings, system: str) -> Value:
    text = settings.text(f"{system}.test-command") or settings.text("test.command")
    return parse(text) if text else ()
