"""Settings → the options of a plan: layer cache, workflow, cibuildwheel, secrets, and the grants that they need."""

from __future__ import annotations

import posixpath
import urllib.parse
from collections.abc import Sequence

from bakery import __version__
from bakery.core import names
from bakery.core.durations import seconds_of
from bakery.core.errors import PlanError
from bakery.core.names import BASE_SECRETS, CacheBackend, Phase, size_mb
from bakery.plan.cells import Cell
from bakery.plan.model import leaves
from bakery.plan.options import Cache, Ci, Cibuildwheel, Secret, Variable
from bakery.plan.values import Value, literal, substitute
from bakery.recipe import models
from bakery.recipe.load import Loaded
from bakery.resolve.defaults import DEFAULTS
from bakery.resolve.naming import namings, tested_framework
from bakery.resolve.references import parse
from bakery.resolve.rust import DIST_SERVER
from bakery.resolve.settings import Settings, cache_backends, set_fields
from bakery.resolve.stage_inputs import Parts, folder
from bakery.toolchains.facts import runners
from bakery.toolchains.trusted_images import is_trusted

_BUCKET = {
    "bucket": "bucket",
    "region": "region",
    "prefix": "prefix",
    "endpoint": "endpoint_url",
    "path-style": "use_path_style",
}
"""Key of the recipe → attribute of a bucket in BuildKit."""

_RUST_SERVER = "https://static.rust-lang.org"
_ABOUT_CARGO = "A configuration file of cargo with registries, handed to the step that fetches crates as a secret"


def layer_cache(settings: Settings) -> Cache:
    """Return the plan's layer cache."""
    level, expected = settings.text("cache.compression-level"), settings.text("cache.expected-build")
    attributes = {name: settings.values.get(f"cache.s3.{key}") for key, name in _BUCKET.items()}
    return Cache(
        backend=CacheBackend(settings.text("cache.backend")),
        offered=cache_backends(settings.values),
        ref=settings.text("cache.ref"),
        mode=settings.text("cache.mode"),
        ignore_error=settings.flag("cache.ignore-error"),
        compression=settings.text("cache.compression"),
        compression_level=int(level) if level else None,
        timeout=settings.text("cache.gha.timeout"),
        limit_mb=size_mb(settings.text("cache.gha.limit")),
        expected_s=seconds_of(expected, "cache.expected-build") if expected else 0,
        bucket={key: "true" if value is True else str(value) for key, value in attributes.items() if value},
    )


def workflow_settings(settings: Settings) -> Ci:
    """Return the settings of a recipe's workflow; PlanError if it publishes, and every wheel has a local version."""
    free = settings.values["ci.free-disk"]
    publish = settings.text("ci.publish")
    if publish and all(naming.local for naming in namings(settings)):
        raise PlanError(
            "ci.publish: every wheel has a local version, and public package indexes accept none",
            hint="set ci.pages = true for an index of your own, or name one of the wheels with clean = true",
        )
    if settings.text("ci.gpu-runner") and not settings.flag("test.gpu"):
        raise PlanError("ci.gpu-runner: no test needs a GPU", hint="set gpu = true in [test]")
    return Ci(
        branches=settings.texts("ci.branches"),
        tags=settings.texts("ci.tags"),
        runners={**runners(), **settings.mapping("ci.runners")},
        gpu_runner=settings.text("ci.gpu-runner"),
        max_jobs=int(settings.text("ci.max-jobs")),
        timeout=int(settings.text("ci.timeout")),
        install=settings.texts("ci.install") or (f"wheel-bakery[audit]=={__version__}",),
        cache=settings.text("ci.cache"),
        compiler_cache=settings.text("ci.compiler-cache"),
        free_disk=None if free is None else bool(free),
        attest=settings.flag("ci.attest"),
        publish=publish,
        publish_url=settings.text("ci.publish-url"),
        github_release=settings.flag("ci.github-release"),
        pages=settings.flag("ci.pages"),
    )


def workflow_alone(written: models.Ci) -> Ci:
    """Return the settings of a workflow that belongs to no recipe."""
    return workflow_settings(Settings({**DEFAULTS, **dict(set_fields(written, "ci."))}, (), {}, {}))


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
        system_packages=settings.texts("builder.system-packages"),
        requirements=(*map(parse, framework.build if framework else ()), *settings.parsed("builder.requirements")),
        config_settings=settings.pairs("wheel.config-settings"),
        environment={system: _environment(settings, system) for system in names.SYSTEMS},
        before_all={system: settings.text(f"{system}.before-all") for system in names.SYSTEMS},
        test_requirements=(*map(parse, tested_framework(settings)), *settings.parsed("test.requirements")),
        test_imports=settings.texts("test.imports"),
        test_command={system: _test_command(settings, system) for system in names.SYSTEMS},
        test_files=settings.texts("test.files"),
        test_gpu=_gpu(settings),
        load=settings.flag("test.load-shared-objects"),
        minimum_macos=settings.text("macos.minimum"),
        toolkit=settings.text("builder.toolkit"),
        native=bool(settings.text("native.command")),
        before_build=settings.text("builder.before-build.command"),
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


def _gpu(settings: Settings) -> bool:
    needed = settings.flag("test.gpu")
    if needed and not settings.text("test.command"):
        hint = "set test.command to a command that runs device code: imports need no GPU"
        raise PlanError("test.gpu: there is no test.command", hint=hint)
    return needed


def _test_command(settings: Settings, system: str) -> Value:
    text = settings.text(f"{system}.test-command") or settings.text("test.command")
    return parse(text) if text else ()


def secrets_of(loaded: Loaded) -> tuple[Secret, ...]:
    """Return the secrets of a recipe, with files relative to the project."""
    return tuple(
        Secret(
            name,
            item.env or "",
            posixpath.normpath(posixpath.join(loaded.folder, item.file)) if item.file else "",
            item.command or (),
            item.steps,
            item.variable or "",
        )
        for name, item in (loaded.recipe.secrets or {}).items()
    )


def secret_variables(secrets: Sequence[Secret], *, rust: bool) -> tuple[Variable, ...]:
    """Return the variables of the bake file that name secrets' files."""
    return (
        Variable(BASE_SECRETS["ca-bundle"], "", "A company's CA bundle (PEM file), handed to steps as a secret"),
        Variable(BASE_SECRETS["pip-conf"], "", "A pip configuration file, handed to steps as a secret"),
        *([Variable(BASE_SECRETS["cargo-config"], "", _ABOUT_CARGO)] if rust else []),
        *(
            Variable(
                item.holder, item.file, f"File with secret {item.name}; no image and no cache key holds what it says"
            )
            for item in secrets
            if item.holder
        ),
    )


def networked_phases(settings: Settings) -> tuple[str, ...]:
    """Return the phases and commands that may use the network."""
    flags: dict[str, object] = {
        "before-build": settings.text("builder.before-build.command") and settings.flag("builder.before-build.network"),
        Phase.NATIVE: settings.text("native.command") and settings.flag("native.network"),
        Phase.COMPILE: settings.flag("builder.network"),
        Phase.TEST: settings.text("test.command") and settings.flag("test.network"),
    }
    return tuple(phase for phase, has_network in flags.items() if has_network)


def requested_grants(settings: Settings, secrets: Sequence[Secret]) -> tuple[str, ...]:
    """Return the grants that a recipe needs from the machine that builds it, as ``--allow`` writes them.

    Values of ``--set`` and of the environment need no grant.
    """
    grants = [grant for secret in secrets for grant in secret.grants] + _cache_grants(settings)
    if leaves(settings.text("output.directory")):
        grants.append(f"fs.write={settings.text('output.directory')}")
    return tuple(dict.fromkeys(grants))


def foreign(settings: Settings, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the images and servers that a recipe names and neither Bakery nor the user does, as ``--allow`` writes them.

    Their programs run before, or in, steps with credentials. Packages of a CUDA repository are NVIDIA's, unless the recipe
    names another key.
    """
    rust = dict(settings.pairs("builder.environment")).get(DIST_SERVER) if settings.text("builder.rust") else None
    addresses = [rust] if rust else []
    if settings.text("builder.cuda-repository-key"):
        addresses.append(parse(settings.text("builder.cuda-repository")))
    variables = {item.name: item.value for item in settings.variables}
    wanted: dict[str, None] = {}
    for cell in cells:
        values = names.with_derived(variables | dict(cell.args))
        wanted |= {f"server={_origin(substitute(address, values))}": None for address in addresses}
        if not (settings.is_given("builder.base.digest") or settings.is_given("builder.base.registry")):
            wanted |= {f"image={image.ref}": None for image in cell.images if not is_trusted(image.ref)}
    return tuple(grant for grant in wanted if grant != f"server={_RUST_SERVER}")


def _origin(address: str) -> str:
    """Return scheme and host of a URL; other addresses as they are."""
    parts = urllib.parse.urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else address


def _cache_grants(settings: Settings) -> list[str]:
    """Return the grants that the layer cache needs.

    BuildKit trusts the content of a layer cache for all builds of the engine, so everyone who can write to the cache
    decides what a step produces. The user must therefore name its location. GitHub's cache has none.
    """
    text = settings.text
    match text("cache.backend"):
        case CacheBackend.LOCAL if not settings.is_given("cache.directory"):
            folder = text("cache.directory")
            # A grant for a folder outside the project already names it.
            return [f"fs.write={folder}", *([] if leaves(folder) else [f"cache={folder}"])]
        case CacheBackend.REGISTRY | CacheBackend.INLINE if text("cache.ref") and not settings.is_given("cache.ref"):
            return [f"cache={text('cache.ref')}"]
        case CacheBackend.S3:
            return [f"cache={text('cache.s3.endpoint') or 's3:/'}/{text('cache.s3.bucket')}"]
    return []
