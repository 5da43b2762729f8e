"""Plan → a workflow for GitHub Actions; ``templates/wheels.yml.j2`` is its skeleton.

Cells are baked in jobs on machines of their platform. Then one job checks all wheels together, and further jobs attest
and publish them. Every job has the permissions that it needs and no more.

A skeleton (a Jinja template) is the workflow with ``<%= value %>`` in the places of values, because GitHub itself uses
braces. Every value is written as YAML: text of a recipe cannot become structure, and text that GitHub would evaluate is
refused unless it is an `Expression`. Steps get text of recipes by ``env:`` only, never as part of a script.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery.core.errors import PlanError, UnavailableError
from bakery.core.names import SYSTEMS, CacheBackend
from bakery.core.target_kinds import Kind
from bakery.emit.quoting import unicode_escape
from bakery.plan.delivery import Ci, Repository
from bakery.plan.model import Plan
from bakery.plan.pull_request import for_pull_request
from bakery.plan.shards import CellGroup, job_groups
from bakery.toolchains.disk_space import cached, disk
from bakery.toolchains.facts import action, cache_service, runner_disk

if TYPE_CHECKING:
    from jinja2 import Environment

PYTHON = "3.13"
"""The Python that runs bakery in workflows."""

_PLAIN = re.compile(r"(?:\.|(?:[./]*[A-Za-z]|_)[A-Za-z0-9_./+-]*|(?:[a-z]+-)?\$\{\{ [A-Za-z0-9._]+ \}\})\Z")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan")
_SPECIAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML forbids, or reads as the end of a line."""

_EVALUATED = "${{"


class Expression(str):
    """Text that GitHub evaluates. It never contains text of a recipe."""

    __slots__ = ()


class Yaml(str):
    """Text that is YAML already."""

    __slots__ = ()


def render(template: str, values: Mapping[str, object], package: str = "bakery") -> str:
    """Return the text of a workflow.

    Args:
        template: the path of the skeleton in ``package``; it may include those of the package ``bakery``.

    Raises:
        PlanError: a value has text that GitHub would evaluate.
        UnavailableError: Jinja is not installed.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    # Imported here, because most commands write no workflow.
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise UnavailableError(
            "writing a workflow needs Jinja", hint="install it: python -m pip install 'wheel-bakery[ci]'"
        ) from None

    environment = Environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<%=",
        variable_end_string="%>",
        comment_start_string="<%#",
        comment_end_string="%>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_written,
        loader=ChoiceLoader([PackageLoader(name, ".") for name in dict.fromkeys((package, "bakery"))]),
    )
    environment.filters.update(flow=_flow, comment=_comment, json_rows=_rows_as_json)
    environment.globals.update(action=_action, python=PYTHON)
    return environment


def _written(value: object) -> str:
    if isinstance(value, Yaml):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _scalar(value)
    raise TypeError(f"{type(value).__name__} is no value of a workflow")


def _scalar(value: str) -> str:
    """Return text as YAML: plain if no reader takes it for anything else, otherwise in double quotes.

    Raises:
        PlanError: GitHub would evaluate the text, and it is no `Expression`.
    """
    if _EVALUATED in value and not isinstance(value, Expression):
        raise PlanError(
            f"{value[:200]!r} is not allowed in a workflow",
            hint=f"GitHub evaluates text after {_EVALUATED}: write the text without it",
        )
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    # JSON's strings are YAML's, except for characters that YAML wants escaped.
    return _SPECIAL.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    return unicode_escape(match[0])


def _flow(values: Mapping[str, str] | Iterable[str]) -> Yaml:
    """Return a list or a mapping on one line."""
    if isinstance(values, Mapping):
        return Yaml("{ " + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + " }")
    return Yaml("[" + ", ".join(map(_scalar, values)) + "]")


def _rows_as_json(rows: Sequence[Mapping[str, str]]) -> Yaml:
    """Return the rows of a matrix, one a line, for a string in an expression of GitHub's.

    Raises:
        PlanError: GitHub would evaluate a text.
    """
    for value in (value for row in rows for value in row.values()):
        _scalar(value)
    return Yaml(",\n          ".join(json.dumps(row).replace("'", "''") for row in rows))


def _comment(text: str) -> Yaml:
    """Return text for a comment: on one line."""
    return Yaml(re.sub(r"[\n\r]", _escaped, _SPECIAL.sub(_escaped, text)))


def _action(repository: str, folder: str = "") -> Yaml:
    """Return an action with the full hash of its pinned release; ``folder`` starts with a slash."""
    row = action(repository)
    return Yaml(f"{repository}{folder}@{row.commit} # {row.version}")


MARGIN = 15
"""Minutes between the end of bakery and the end of its job: time to keep what is finished."""


def in_folder(repository: Repository, workflow_file: str) -> dict[str, object]:
    """Return what the skeletons need to know of the repository; ``workflow_file`` is the one at its top."""
    folder = re.sub(r"[*?+!\[\]\\]", r"\\\g<0>", repository.folder)
    return {
        "repository": repository,
        "paths": [f"{folder}/**", repository.named(workflow_file)] if folder else (),
        "within": f" in {repository.folder}" if folder else "",
    }


def workflow(plan: Plan, ci: Ci, repository: Repository) -> str:
    """Return the text of the workflow.

    Raises:
        PlanError: the plan has text that GitHub would evaluate.
    """
    jobs, others = _jobs(plan, ci)
    # A pull request has the same jobs unless the recipe says otherwise.
    few = for_pull_request(plan)
    few_jobs, few_others = (jobs, others) if few is plan else _jobs(few, ci)
    name = f"{plan.recipe}.{repository.slug}".rstrip(".")
    compiler_key = f"compiler-cache-{name}-${{{{ matrix.job }}}}-"
    secrets = [secret.env for secret in plan.secrets_for((Kind.WHEEL, Kind.TEST)) if secret.env]
    return render(
        "emit/templates/wheels.yml.j2",
        dict(
            source=plan.source_file,
            title=f"wheels of {plan.recipe}",
            recipe=plan.reference,
            output=plan.output,
            artifact=posixpath.normpath(posixpath.join(repository.folder, plan.output)),
            **in_folder(repository, plan.workflow),
            # The version may come from a tag, and SOURCE_DATE_EPOCH is that of the commit that last changed the source.
            history=bool(plan.source_context.folder),
            cache_key=Expression("${{ github.repository }}" + f"/{repository.slug}" * bool(repository.folder)),
            ci=ci,
            margin=MARGIN,
            linux_jobs=_rows(jobs, ci),
            other_jobs=_rows(others, ci),
            is_narrowed=few is not plan,
            few_linux_jobs=_rows(few_jobs, ci),
            few_other_jobs=_rows(few_others, ci),
            has_other_systems=bool(plan.cibuildwheel_cells),
            secrets={name: Expression(f"${{{{ secrets.{name} }}}}") for name in secrets},
            # The workflow is committed, so it grants what the recipe needs: a pull request cannot ask for more.
            # It sets the layer cache itself.
            grants=[want for want in (*plan.required_grants, *plan.foreign) if not want.startswith("cache=")],
            cache=fitting_cache(plan, ci),
            # Without GitHub's cache for layers, there is none for compilers, either.
            compiles=ci.cache != CacheBackend.NONE and not ci.compiler_cache and Kind.COMPILER_CACHE in plan.kinds,
            compiler_key=Expression(compiler_key),
            compiler_run_key=Expression(f"{compiler_key}${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}"),
            # Its address has no quotes.
            store=Expression(
                f"${{{{ github.ref_type == 'tag' && runner.temp || '{ci.compiler_cache}' }}}}"
                "${{ github.ref_type == 'tag' && '/bakery/compiler-cache' || '' }}"
            )
            if ci.compiler_cache and Kind.COMPILER_CACHE in plan.kinds
            else "",
            frees_disk=is_tight(ci, jobs),
            # Only releases on GitHub can be asked for their wheels.
            has_baseline=plan.max_growth is not None and ci.github_release,
            **(_sdist(plan, ci) if ci.sdist else {}),
            metas=sorted({canonicalize_name(item.meta).replace("-", "_") for item in plan.namings if item.meta}),
            has_local_versions=any(naming.local for naming in plan.namings),
            install_with_cibuildwheel=tuple(map(_with_cibuildwheel, ci.install)),
        ),
    )


def _sdist(plan: Plan, ci: Ci) -> dict[str, object]:
    """Return what the job needs that builds the source distribution. Raises PlanError where none can be built and baked."""
    linux = [cell for cell in plan.cells if cell.built_by == cell.id]
    if plan.cibuildwheel.package != "." or not linux:
        raise PlanError(
            "ci.sdist: the archive of another source than the recipe's own folder cannot be baked",
            hint='set source = ".", and build for Linux, too; or remove ci.sdist',
        )
    # The archive has its own pyproject.toml. A recipe that others import is in the archive with them, or not found.
    own = [file for file in (plan.source_file, plan.lock) if file.endswith((".toml", ".lock"))]
    return {
        "sdist_cell": linux[0].id,
        "sdist_runner": ci.runners[linux[0].platform],
        "recipe_files": [file for file in own if posixpath.basename(file) != "pyproject.toml"],
    }


def _with_cibuildwheel(requirement: str) -> str:
    """Return the requirement of Bakery with the extra for cibuildwheel; others as they are."""
    wanted = Requirement(requirement)
    if canonicalize_name(wanted.name) != "wheel-bakery":
        return requirement
    wanted.extras.add("cibuildwheel")
    return str(wanted)


def _jobs(plan: Plan, ci: Ci) -> tuple[list[CellGroup], list[CellGroup]]:
    """Return the jobs that bake, and those of other systems."""
    others = [part for system in SYSTEMS[1:] if (part := plan.for_system(system)).cells]
    return job_groups([plan], ci.max_jobs), job_groups(others, ci.max_jobs)


def _rows(jobs: Sequence[CellGroup], ci: Ci) -> list[dict[str, str]]:
    return [
        {"job": job.name, "runner": ci.runners[job.platform], "cells": " ".join(cell.id for cell in job.cells)}
        for job in jobs
    ]


def is_tight(ci: Ci, jobs: Iterable[CellGroup]) -> bool:
    """Return whether the layers of a job may not fit on its runner; only GitHub's own runners are considered."""
    tight = any(0 < runner_disk(ci.runners[job.platform]) <= disk(job) for job in jobs)
    return tight if ci.free_disk is None else ci.free_disk


def fitting_cache(plan: Plan, ci: Ci) -> str:
    """Return the layer cache of the jobs; if the recipe names none, the one that an estimate of its layers allows."""
    size = cached(plan, cache_service("gha").packed) * 1000
    return ci.cache or (CacheBackend.GHA if size <= plan.cache.limit_mb else CacheBackend.NONE).value
