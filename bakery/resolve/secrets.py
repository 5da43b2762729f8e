"""What a recipe's steps are told in confidence, and what the recipe asks of the machine that bakes it."""

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


def networked(settings: Settings) -> tuple[Phase, ...]:
    """Return the steps of a project's own commands that the recipe gives the network."""
    flags = {
        Phase.NATIVE: settings.text("native.command") and settings.flag("native.network"),
        Phase.COMPILE: settings.flag("builder.network"),
        Phase.TEST: settings.text("test.command") and settings.flag("test.network"),
    }
    return tuple(phase for phase, asked in flags.items() if asked)


def wants(settings: Settings, secrets: Sequence[Secret]) -> tuple[str, ...]:
    """Return what a recipe asks of the machine that bakes it, in the words of ``--allow``.

    What a person said with ``--set`` or in the environment is no wish of the recipe.
    """
    found = [*(want for secret in secrets for want in secret.wants), *_cache_wants(settings)]
    if leaves(settings.text("output.directory")):
        found.append(f"fs.write={settings.text('output.directory')}")
    return tuple(dict.fromkeys(found))


def _cache_wants(settings: Settings) -> tuple[str, ...]:
    """Return what a recipe asks for its layer cache.

    BuildKit takes over what a cache says, for all builds of the engine: whoever writes the cache decides what a step made.
    So a person names its place. GitHub's has none: the environment leads to it.
    """
    text = settings.text
    match text("cache.backend"):
        case CacheBackend.LOCAL if not settings.is_given("cache.directory"):
            folder = text("cache.directory")
            # Whoever allows a folder elsewhere has named it.
            return (f"fs.write={folder}", *(() if leaves(folder) else (f"cache={folder}",)))
        case CacheBackend.REGISTRY | CacheBackend.INLINE if text("cache.ref") and not settings.is_given("cache.ref"):
            return (f"cache={text('cache.ref')}",)
        case CacheBackend.S3:
            return (f"cache={text('cache.s3.endpoint') or 's3:/'}/{text('cache.s3.bucket')}",)
    return ()
