"""The secrets of a recipe, and the grants that it needs from the machine that builds it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from bakery.core.names import BASE_SECRETS, CacheBackend, Phase
from bakery.plan.model import leaves
from bakery.plan.options import Secret, Variable
from bakery.recipe.load import Loaded
from bakery.resolve.settings import Settings


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


def secret_variables(secrets: Sequence[Secret]) -> tuple[Variable, ...]:
    """Return the variables of the bake file that name secrets' files."""
    return (
        Variable(BASE_SECRETS["ca-bundle"], "", "A company's CA bundle (PEM file), handed to steps as a secret"),
        Variable(BASE_SECRETS["pip-conf"], "", "A pip configuration file, handed to steps as a secret"),
        *(
            Variable(
                item.holder, item.file, f"File with secret {item.name}; no image and no cache key holds what it says"
            )
            for item in secrets
            if item.holder
        ),
    )


def networked_phases(settings: Settings) -> tuple[Phase, ...]:
    """Return the phases whose commands may use the network."""
    flags = {
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


def _cache_grants(settings: Settings) -> list[str]:
    """Return the grants that the layer cache needs.

    BuildKit trusts the content of a layer cache, for all builds of the engine: whoever can write to the cache decides what
    a step produces. So the user must name its location. GitHub's cache has no location; the environment leads to it.
    """
    text = settings.text
    match text("cache.backend"):
        case CacheBackend.LOCAL if not settings.is_given("cache.directory"):
            folder = text("cache.directory")
            # Whoever allows a folder outside the project has named it.
            return [f"fs.write={folder}", *([] if leaves(folder) else [f"cache={folder}"])]
        case CacheBackend.REGISTRY | CacheBackend.INLINE if text("cache.ref") and not settings.is_given("cache.ref"):
            return [f"cache={text('cache.ref')}"]
        case CacheBackend.S3:
            return [f"cache={text('cache.s3.endpoint') or 's3:/'}/{text('cache.s3.bucket')}"]
    return []
