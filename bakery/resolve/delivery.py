"""Settings → the options of a plan: layer cache, workflow, cibuildwheel, secrets, and the grants that they need."""

from __future__ import annotations

import posixpath
import urllib.parse
from collections.abc import Sequence

from bakery import __version__
from bakery.core import names
from bakery.core.durations import seconds_of
from bakery.core.errors import PlanError
from bakery.core.names import BASE_REGISTRY, BASE_SECRETS, CacheBackend, size_mb
from bakery.core.target_kinds import Phase
from bakery.plan.cells import Cell
from bakery.plan.delivery import Cache, Ci, Cibuildwheel, Secret, Variable
from bakery.plan.model import Plan, leaves
from bakery.plan.values import Value, literal, names_in, substitute
from bakery.recipe import models
from bakery.recipe.load import Loaded
from bakery.resolve.naming import tested_framework
from bakery.resolve.references import parse, parse_all, parse_table
from bakery.resolve.rust import DIST_SERVER
from bakery.resolve.settings import Settings, cache_backends
from bakery.resolve.stage_inputs import StageInputs, folder
from bakery.toolchains.facts import runners
from bakery.toolchains.trusted_images import is_trusted

_BUCKET = {
    "bucket": "bucket",
    "region": "region",
    "prefix": "prefix",
    "endpoint": "endpoint_url",
    "path_style": "use_path_style",
}
"""Field of the recipe → attribute of a bucket in BuildKit."""

_RUST_SERVER = "https://static.rust-lang.org"
_ABOUT_CARGO = "A configuration file of cargo with registries, handed to the step that fetches crates as a secret"


def layer_cache(settings: Settings) -> Cache:
    """Return the plan's layer cache."""
    cache = settings.recipe.cache
    attributes = {name: getattr(cache.s3, key) for key, name in _BUCKET.items()} if cache.s3 else {}
    return Cache(
        backend=cache.backend,
        offered=cache_backends(settings.recipe),
        ref=cache.ref,
        mode=cache.mode,
        ignore_error=cache.ignore_error,
        compression=cache.compression or "",
        compression_level=cache.compression_level,
        timeout=cache.gha.timeout or "",
        limit_mb=size_mb(cache.gha.limit),
        expected_s=seconds_of(cache.expected_build, "cache.expected-build") if cache.expected_build else 0,
        bucket={key: "true" if value is True else str(value) for key, value in attributes.items() if value},
    )


def check_publish(plan: Plan) -> None:
    """Raise PlanError if a workflow publishes, and every wheel of all cells has a local version."""
    if plan.ci and plan.ci.publish and all(naming.local for naming in plan.namings):
        raise PlanError(
            "ci.publish: every wheel has a local version, and public package indexes accept none",
            hint="remove ci.publish, and set ci.pages = true for an index of your own; or give the wheels a name without it, "
            "too: also-named = [{ clean = true }] in [wheel]",
        )


def workflow_settings(ci: models.Ci, *, gpu: bool = False) -> Ci:
    """Return the settings of a workflow; PlanError if they contradict each other. ``gpu``: the recipe's test needs a GPU."""
    if ci.test_publish and not ci.publish:
        raise PlanError("ci.test-publish: nothing is published after it", hint="set ci.publish, too, or remove it")
    if ci.nightly and not ci.schedule:
        raise PlanError("ci.nightly: no night builds wheels", hint='set ci.schedule, too, such as "17 3 * * *"')
    if ci.gpu_runner and not gpu:
        raise PlanError("ci.gpu-runner: no test needs a GPU", hint="set gpu = true in [test]")
    return Ci(
        branches=ci.branches,
        tags=ci.tags,
        pull_request=ci.pull_request,
        schedule=ci.schedule or "",
        nightly=ci.nightly or 0,
        sdist=ci.sdist,
        runners={**runners(), **ci.runners},
        gpu_runners=(ci.gpu_runner,) if isinstance(ci.gpu_runner, str) else ci.gpu_runner or (),
        max_jobs=ci.max_jobs,
        timeout=ci.timeout,
        install=ci.install or (f"wheel-bakery[audit]=={__version__}",),
        cache=ci.cache or "",
        compiler_cache=ci.compiler_cache or "",
        free_disk=ci.free_disk,
        attest=ci.attest,
        publish=ci.publish or "",
        publish_url=ci.publish_url or "",
        test_publish=ci.test_publish.environment if ci.test_publish else "",
        test_publish_url=ci.test_publish.url if ci.test_publish else "",
        github_release=ci.github_release,
        pages=ci.pages,
    )


def cibuildwheel(inputs: StageInputs) -> Cibuildwheel:
    """Return the settings of a recipe for cibuildwheel."""
    recipe, framework = inputs.recipe, inputs.settings.framework
    source, builder, test = recipe.source, recipe.builder, recipe.test
    # Without a GPU, only a command for the system alone is run; that of Linux is kept for `wheel-bakery gpu-test`.
    shared = None if test.gpu else test.command
    commands = {
        "linux": test.command,
        "macos": recipe.macos.test_command or shared,
        "windows": recipe.windows.test_command or shared,
    }
    before_all = {"linux": "", "macos": recipe.macos.before_all, "windows": recipe.windows.before_all}
    before_build = parse(builder.before_build.command if builder.before_build else "")
    return Cibuildwheel(
        frontend=recipe.wheel.frontend.value,
        package=folder(inputs) if source.path else "",
        sdist=source.sdist or "",
        git=(source.git, source.ref or "") if source.git else None,
        system_packages=builder.system_packages,
        requirements=parse_all((*(framework.build if framework else ()), *builder.requirements)),
        environment={system: _environment(recipe, system) for system in names.SYSTEMS},
        before_all={system: parse(text) for system, text in before_all.items()},
        before_build_variables=names_in((before_build,)),
        test_requirements=parse_all((*tested_framework(inputs.settings), *test.requirements)),
        test_command={system: parse(text) if text else () for system, text in commands.items()},
        test_gpu=_gpu(test),
        load=test.load_shared_objects,
        minimum_macos=recipe.macos.minimum or "",
        toolkit=builder.toolkit,
        native=recipe.native is not None,
    )


def _environment(recipe: models.Recipe, system: str) -> tuple[tuple[str, Value], ...]:
    variables = {"SOURCE_DATE_EPOCH": parse("${SOURCE_DATE_EPOCH}")}
    if jobs := recipe.builder.jobs:
        variables |= dict.fromkeys(("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"), literal(str(jobs)))
    if system == "macos" and (minimum := recipe.macos.minimum):
        variables["MACOSX_DEPLOYMENT_TARGET"] = literal(minimum)
    own = {"macos": recipe.macos.environment, "windows": recipe.windows.environment}
    return tuple((variables | dict(parse_table(recipe.builder.environment | own.get(system, {})))).items())


def _gpu(test: models.Test) -> bool:
    if test.gpu and not test.command:
        hint = "set test.command to a command that runs device code: imports need no GPU"
        raise PlanError("test.gpu: there is no test.command", hint=hint)
    return test.gpu


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
        for name, item in loaded.recipe.secrets.items()
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


def networked_phases(recipe: models.Recipe) -> tuple[str, ...]:
    """Return the phases and commands that may use the network."""
    before, native, test = recipe.builder.before_build, recipe.native, recipe.test
    flags = {
        "before-build": before is not None and before.network,
        Phase.NATIVE: native is not None and native.network,
        Phase.COMPILE: recipe.builder.network,
        Phase.TEST: bool(test.command) and test.network,
    }
    return tuple(phase for phase, has_network in flags.items() if has_network)


def requested_grants(settings: Settings, secrets: Sequence[Secret]) -> tuple[str, ...]:
    """Return the grants that a recipe needs from the machine that builds it, as ``--allow`` writes them.

    Values of ``--set`` and of the environment need no grant.
    """
    output = settings.recipe.output.directory
    grants = [grant for secret in secrets for grant in secret.grants] + _cache_grants(settings)
    return tuple(dict.fromkeys([*grants, *([f"fs.write={output}"] if leaves(output) else [])]))


def foreign(settings: Settings, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the images and servers that a recipe names and neither Bakery nor the user does, as ``--allow`` writes them.

    Their programs run before, or in, steps with credentials. Packages of a CUDA repository are NVIDIA's, unless the recipe
    names another key. Packages of a framework's own index run in the build, as those of the user's index do.
    """
    builder = settings.recipe.builder
    rust = builder.environment.get(DIST_SERVER) if builder.rust else None
    repository = builder.cuda_repository if builder.cuda_repository_key else None
    addresses = parse_all(filter(None, (rust, repository, builder.framework_index)))
    variables = {item.name: item.value for item in settings.variables}
    wanted: dict[str, None] = {}
    for cell in cells:
        values = names.with_derived(variables | dict(cell.args))
        wanted |= {f"server={_origin(substitute(address, values))}": None for address in addresses}
        if not settings.given.keys() & {BASE_REGISTRY, "BASE_DIGEST"}:
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
    cache, given = settings.recipe.cache, settings.given
    match cache.backend:
        case CacheBackend.LOCAL if "CACHE_DIR" not in given:
            # A grant for a folder outside the project already names it.
            return [f"fs.write={cache.directory}", *([] if leaves(cache.directory) else [f"cache={cache.directory}"])]
        case CacheBackend.REGISTRY | CacheBackend.INLINE if cache.ref and "CACHE_REF" not in given:
            return [f"cache={cache.ref}"]
        case CacheBackend.S3 if cache.s3:
            return [f"cache={cache.s3.endpoint or 's3:/'}/{cache.s3.bucket}"]
    return []
