"""A table ``[ci]`` → what its workflow does."""

from __future__ import annotations

from bakery import __version__
from bakery.core.errors import PlanError
from bakery.plan.options import Ci
from bakery.recipe.models import Ci as Written
from bakery.resolve.defaults import DEFAULTS
from bakery.resolve.naming import namings
from bakery.resolve.settings import Settings, leaves
from bakery.toolchains.facts import runners


def workflow_settings(settings: Settings) -> Ci:
    """Return what the workflow of a recipe does.

    Raises:
        PlanError: it is to publish, and every wheel has a local version.
    """
    free = settings.values["ci.free-disk"]
    publish = settings.text("ci.publish")
    if publish and all(naming.local for naming in namings(settings)):
        raise PlanError(
            "ci.publish: every wheel has a local version, and a public package index takes none",
            hint="set ci.pages = true for an index of your own, or name one of the wheels with clean = true",
        )
    return Ci(
        branches=settings.texts("ci.branches"),
        tags=settings.texts("ci.tags"),
        runners={**runners(), **settings.mapping("ci.runners")},
        max_jobs=int(settings.text("ci.max-jobs")),
        timeout=int(settings.text("ci.timeout")),
        install=settings.text("ci.install") or f"wheel-bakery[audit]=={__version__}",
        cache=settings.text("ci.cache"),
        free_disk=None if free is None else bool(free),
        attest=settings.flag("ci.attest"),
        publish=publish,
        publish_url=settings.text("ci.publish-url"),
        pages=settings.flag("ci.pages"),
    )


def workflow_of_jobs(written: Written) -> Ci:
    """Return what the workflow of IREE modules does; it publishes nothing."""
    silent = written.model_copy(update={"publish": None, "publish_url": None, "pages": None})
    return workflow_settings(Settings({**DEFAULTS, **dict(leaves(silent, "ci."))}, (), {}, {}))
