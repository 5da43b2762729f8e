"""The ONBUILD triggers of base images.

BuildKit runs them as steps of the recipe's stage, before all others, with network and with the secrets that they name. An
image of the engine is asked for them; of one in a registry, its configuration is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bakery.core.errors import PlanError, UnavailableError
from bakery.engine.client import Engine, strings
from bakery.plan.cells import Image
from bakery.plan.values import Json
from wheel_audit.readers import json_of

_TIMEOUT_S = 30.0
_MOST_MANIFESTS = 256
_MOST_BYTES = 8 << 20
_READ = ("config", "digest", "manifests", "onbuild", "platform", "os", "architecture")


def refuse(
    environment: Mapping[str, str], images: Sequence[Image], builder: str | None, *, remote: bool, strict: bool
) -> None:
    """Check that base images have no ONBUILD triggers.

    ``remote``: builds ask the registry, not the engine, what a name is now. Raises PlanError if an image has some; with
    ``strict``, UnavailableError if its configuration cannot be read.
    """
    found = {(image.ref, image.platform): image for image in images}
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda image: _triggers(environment, image, builder, remote=remote), found.values())
        for image, triggers in zip(found.values(), answers, strict=True):
            if triggers:
                raise PlanError(
                    f"base image {image.ref} has ONBUILD triggers, which would run in the recipe's steps",
                    hint="use an image without them: a builder can make one with FROM and COPY --from",
                    details=[f"ONBUILD {text}" for text in triggers],
                )
            if triggers is None and strict:
                raise UnavailableError(
                    f"the configuration of base image {image.ref} cannot be read",
                    hint="pull it into the engine, or push it to a registry that this machine reaches: the build has "
                    "credentials, and the image may have ONBUILD triggers",
                )


def _triggers(environment: Mapping[str, str], image: Image, builder: str | None, *, remote: bool) -> list[str] | None:
    """Return the triggers of an image wherever a build may take it from; None if it is nowhere."""
    engine = Engine(environment)
    here = engine.image(image.ref, image.platform) or ({} if image.platform else engine.image(image.ref))
    config = here.get("Config")
    own = strings(config.get("OnBuild")) if isinstance(config, dict) else None
    if own or (own is not None and not remote):
        return own
    pushed = _in_registry(engine, image, builder)
    return own if pushed is None else pushed


def _in_registry(engine: Engine, image: Image, builder: str | None) -> list[str] | None:
    """Return the triggers of an image in a registry, of all that its platform may stand for; None if there is none."""
    name = image.ref.partition("@")[0]
    try:
        document = _read(engine, image.ref, builder)
        if document is None:
            return None
        manifests = [document]
        if isinstance(listed := document.get("manifests"), list):
            items = [item for item in listed[:_MOST_MANIFESTS] if isinstance(item, dict)]
            digests = [str(item.get("digest")) for item in items if _may_be(item, image.platform)]
            manifests = [read for digest in digests if (read := _read(engine, f"{name}@{digest}", builder))]
        triggers: list[str] = []
        for manifest in manifests:
            config = manifest.get("config")
            digest = str(config.get("digest")) if isinstance(config, dict) else ""
            content = _read(engine, f"{name}@{digest}", builder)
            if content is None:
                return None
            triggers += _listed(content)
    except (ValueError, AttributeError, RecursionError):
        return None
    return triggers if manifests else None


def _may_be(item: Mapping[str, Json], platform: str) -> bool:
    of = item.get("platform")
    return not isinstance(of, dict) or not platform or f"{of.get('os')}/{of.get('architecture')}" == platform


def _read(engine: Engine, ref: str, builder: str | None) -> dict[str, Json] | None:
    """Return a document of a registry; None if it cannot be read. Raises ValueError if it is another one, or no JSON.

    buildx prints a blob as it does a manifest, and reaches a registry with the user's credentials.
    """
    words = ["buildx", *([f"--builder={builder}"] if builder else []), "imagetools", "inspect", "--raw", ref]
    text = engine.run_or_empty(*words, timeout_s=_TIMEOUT_S)
    if not text:
        return None
    digest = ref.partition("@sha256:")[2]
    if len(text) > _MOST_BYTES or (digest and hashlib.sha256(text.encode()).hexdigest() != digest):
        raise ValueError(ref)
    document: Json = json_of(text, table=_folded)
    if not isinstance(document, dict):
        raise ValueError(ref)
    return document


def _folded(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object with keys as Go reads them: in any case. Raises ValueError if one comes twice."""
    folded: dict[str, Json] = {}
    for name, value in pairs:
        if (key := name.casefold()) in folded and key in _READ:
            raise ValueError(f"{key} comes twice")
        folded[key] = value
    return folded


def _listed(config: Mapping[str, Json]) -> Iterator[str]:
    inner = config.get("config")
    yield from strings(inner.get("onbuild")) if isinstance(inner, dict) else ()
