"""Whose is it: the credentials of this machine that a build would be given, and what the recipe chooses to run with them.

BuildKit gives a secret to every step that names it, also to one of a base image (ONBUILD). So a build with credentials takes
its images and servers from Bakery's tables or from the user, who names them with ``--allow``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.engine import image_triggers, package_index
from bakery.engine.client import Engine
from bakery.engine.index_credentials import CARGO, INDEX, PROXY, of_cargo, of_docker, of_index
from bakery.engine.package_index import Index
from bakery.engine.session import EngineSession
from bakery.plan.cells import Image
from bakery.plan.delivery import Secret
from bakery.plan.model import Plan
from bakery.runs.buildx.entitlements import Grants
from bakery.runs.run_options import Options


@dataclass(frozen=True)
class Credentials:
    """What a build would be given: the configurations of pip and cargo, and the secrets of the recipe that it needs.

    ``environ``: that of docker, whose configuration may have proxies.
    """

    index: Index
    cargo: Path | None
    secrets: Sequence[Secret] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, bytes]:
        """Name → the passwords and tokens in the configurations, one in a line; they are hidden as secrets are."""
        found = {INDEX: of_index(self.index), CARGO: of_cargo(self.cargo), PROXY: of_docker(self.environ)}
        return {name: value for name, value in found.items() if value}

    @property
    def names(self) -> tuple[str, ...]:
        """All of it, in words."""
        return (*(f"the {name}" for name in self.values), *(f"secret {item.name}" for item in self.secrets))


def credentials(plan: Plan, engine: EngineSession, needed: Sequence[Secret]) -> Credentials:
    """Return what a build of a plan would be given."""
    cargo = package_index.cargo_config(engine.environment) if "CARGO_CONFIG" in plan.values() else None
    return Credentials(engine.index, cargo, needed, engine.environment)


def check_grants(
    root: Path, plan: Plan, options: Options, given: Credentials, images: Collection[Image], *, baked: bool = True
) -> None:
    """Check that the user allows what a run needs; ``images`` are those that it builds from.

    cibuildwheel (not ``baked``) has no layer cache, and shows the password of the index to the build. Raises UsageError
    with all that is missing.
    """
    place = options.compiler_cache
    if isinstance(place, Path) and place.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"--compiler-cache {place} is inside the project, where a checkout may contain one",
            hint="name a folder outside the project",
        )
    unused = {text for secret in plan.secrets for text in secret.grants if secret not in given.secrets}
    if options.output:
        unused.add(f"fs.write={plan.output}")
    unused -= {text for secret in given.secrets for text in secret.grants}
    wanted = [grant for grant in plan.requested_grants if grant not in unused]
    if not baked:
        wanted = [grant for grant in wanted if not grant.startswith("cache=")]
        wanted += [f"index={given.index.address}"] if INDEX in given.values else []
    hint = "add these if you trust {} that far"
    if given.names and (foreign := _foreign(plan, images)):
        wanted += foreign
        hint += f": the build is given {', '.join(given.names)}"
    Grants.parse(options.allow).require(wanted, root, hint=hint)


def _foreign(plan: Plan, images: Collection[Image]) -> list[str]:
    used = {f"image={image.ref}" for image in images}
    return [grant for grant in plan.foreign if grant in used or not grant.startswith("image=")]


def check_triggers(
    plan: Plan, options: Options, engine: EngineSession, images: Collection[Image], given: Credentials
) -> None:
    """Refuse ONBUILD triggers of the images that the recipe chooses. Raises PlanError or UnavailableError."""
    foreign = [image for image in images if f"image={image.ref}" in plan.foreign]
    if not foreign:
        return
    environment = engine.environment
    remote = options.pull or bool(engine.nodes) or Engine(environment).driver(options.builder) != "docker"
    image_triggers.refuse(environment, foreign, options.builder, remote=remote, strict=bool(given.names))
