"""Plan → a workflow for GitHub Actions.

Cells are baked in jobs of their own machines, then all wheels are checked together, and what passed is attested and
published. Every job has the permissions that it needs and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from packaging.requirements import Requirement

from bakery.core.names import SYSTEMS, CacheBackend, Kind
from bakery.emit.quoting import comment
from bakery.emit.workflow_yaml import (
    Expression,
    bakery_steps,
    document,
    flow,
    job_block,
    listing,
    machine,
    permissions,
    run,
    scalar,
    uses,
)
from bakery.plan.model import Plan
from bakery.plan.options import Ci
from bakery.plan.shards import CellGroup, job_groups
from bakery.toolchains.disk_space import cached, disk
from bakery.toolchains.facts import cache_service, runner_disk

MARGIN = 15
"""Minutes between bakery's own end and its job's: what is finished is to be kept."""

OBJECTS = Expression("${{ runner.temp }}/compiler-cache")
"""The folder of compiler caches, which GitHub's cache keeps between runs. No checkout can bring one there."""

ENVIRONMENT = "bake"
"""The GitHub environment of jobs that are given secrets."""

_OBJECTS_OF_JOB = Expression("compiler-cache-${{ matrix.job }}-")
# What has a key is never written again: each run has a key of its own, and takes the newest of its job.
_KEY = {"path": OBJECTS, "key": Expression(_OBJECTS_OF_JOB + "${{ github.run_id }}-${{ github.run_attempt }}")}
_NO_RELEASE = "github.ref_type != 'tag'"
_NO_PULL = "github.event_name != 'pull_request'"

RESULTS = Expression("${{ runner.temp }}/bakery")
"""The folder with the wheels and the state of a job: not in the checkout, whose files are nobody's results."""

_WHEELS = Expression(f"{RESULTS}/wheels")

KEPT = 7
"""Days that GitHub keeps what only a rerun needs."""

UNUSED = (
    "/usr/local/lib/android",
    "/usr/share/dotnet",
    "/usr/share/swift",
    "/usr/local/.ghcup",
    "/opt/hostedtoolcache/CodeQL",
)
"""Folders of GitHub's runners that no bake uses; of these, those that take the most."""

_TAGGED = "startsWith(github.ref, 'refs/tags/')"


def workflow(plan: Plan, ci: Ci) -> str:
    """Return the text of the workflow."""
    jobs = job_groups([plan], ci.max_jobs)
    others = job_groups([part for system in SYSTEMS[1:] if (part := plan.for_system(system)).cells], ci.max_jobs)
    return document(
        plan.source_file,
        "the recipe",
        f"wheels of {plan.recipe}",
        ci,
        {"BAKERY_RECIPE": plan.recipe},
        [_bake(plan, ci, jobs), *([_build(plan, ci, others)] if others else []), *_after(plan, ci)],
    )


# --- jobs ----------------------------------------------------------------------------------------


def _bake(plan: Plan, ci: Ci, jobs: Sequence[CellGroup]) -> list[str]:
    cache = ci.cache or _fitting(plan)
    # Whoever wants no layers in GitHub's cache wants no objects there, either.
    compiles = ci.cache != CacheBackend.NONE and Kind.COMPILER_CACHE in plan.kinds
    own = {"BAKERY_COMPILER_CACHE": OBJECTS} if compiles else {}
    # Whoever commits the file allows what it names; a pull request cannot ask for more.
    # The workflow itself names the layer cache.
    named = [want for want in plan.required_grants if not want.startswith("cache=")]
    asked = {f"ALLOWED_{number}": want for number, want in enumerate(named, 1)}
    allowed = [f'--allow "${name}"' for name in asked]
    told = [item.env for item in plan.secrets_for((Kind.WHEEL, Kind.TEST)) if item.env]
    secrets = {name: Expression(f"${{{{ secrets.{name} }}}}") for name in told}
    steps = [
        *bakery_steps(ci),
        *(_free() if _is_tight(ci, jobs) else []),
        uses("Set up Buildx", "docker/setup-buildx-action", {"cache-binary": False}),
        *(_runtime() if cache == CacheBackend.GHA else []),
        _take_over(),
        *([_fetch_objects()] if compiles else []),
        run("Bake, audit and test", _full(ci, *allowed), {**secrets, **_layers(cache), **_CHOSEN, **own, **asked}),
        *([_keep_objects()] if compiles else []),
        *_keep(),
    ]
    # Whoever reviews deployments, or keeps secrets to some branches, does it by an environment.
    place = [f"environment: {ENVIRONMENT}"] if secrets else []
    return job_block("bake", [*place, *_cells("bake", ci, jobs)], steps)


def _build(plan: Plan, ci: Ci, jobs: Sequence[CellGroup]) -> list[str]:
    """Return the job of macOS and Windows, where the same command drives cibuildwheel."""
    head = [
        *_cells("build", ci, jobs),
        "defaults:",
        "  run:",
        "    # Windows' own shell takes other quotes.",
        "    shell: bash",
    ]
    install = Requirement(ci.install)
    install.extras.add("cibuildwheel")
    steps = [
        *bakery_steps(replace(ci, install=str(install))),
        _take_over(),
        run("Build, audit and test", _full(ci), _CHOSEN),
        *_keep(),
    ]
    return job_block("build", head, steps)


_CHOSEN = {
    "BAKERY_ONLY": Expression("${{ matrix.cells }}"),
    "BAKERY_OUTPUT": _WHEELS,
    "BAKERY_STATE_DIR": Expression(f"{RESULTS}/state"),
}


def _layers(cache: str) -> dict[str, str]:
    """Return the layer cache of a job: a release has none, and a pull request only reads."""
    if cache == CacheBackend.NONE:
        return {"BAKERY_CACHE": cache}
    return {
        "BAKERY_CACHE": Expression(f"${{{{ {_NO_RELEASE} && '{cache}' || 'none' }}}}"),
        "BAKERY_CACHE_READ_ONLY": Expression("${{ github.event_name == 'pull_request' }}"),
        # Every run is a machine of its own, which finds the layers of another one by the same key.
        "BAKERY_CACHE_KEY": Expression("${{ github.repository }}"),
    }


def _full(ci: Ci, *words: str) -> str:
    return " ".join([f"wheel-bakery full --progress plain --resume --timeout {ci.timeout - MARGIN}m", *words])


def _cells(does: str, ci: Ci, jobs: Sequence[CellGroup]) -> list[str]:
    """Return the head of a job whose matrix is job_groups of cells."""
    rows = [flow(_entry(job, ci)) for job in jobs]
    return [
        f"name: {does} ${{{{ matrix.job }}}}",
        "runs-on: ${{ matrix.runner }}",
        *comment(f"Bakery ends {MARGIN} minutes before; a rerun goes on with what is finished by then."),
        f"timeout-minutes: {ci.timeout}",
        *permissions({"contents": "read"}),
        "strategy:",
        "  fail-fast: false",
        "  matrix:",
        "    # What compiles once is in one job.",
        "    include:",
        *(f"      - {row}" for row in rows),
    ]


def _take_over() -> list[str]:
    return uses(
        "Take over what an earlier attempt finished",
        "actions/download-artifact",
        {"pattern": Expression("state-${{ matrix.job }}"), "path": RESULTS, "merge-multiple": True},
        condition="github.run_attempt > 1",
    )


def _keep() -> list[list[str]]:
    return [
        uses(
            "Keep what is finished for another attempt",
            "actions/upload-artifact",
            {
                "name": Expression("state-${{ matrix.job }}"),
                "path": RESULTS,
                "include-hidden-files": True,
                "if-no-files-found": "ignore",
                "overwrite": True,
                "retention-days": KEPT,
            },
            condition="failure() || cancelled()",
        ),
        uses(
            "Keep the wheels",
            "actions/upload-artifact",
            {
                "name": Expression("part-${{ matrix.job }}"),
                # With what each wheel was built from, in a folder whose name begins with a dot.
                "path": _WHEELS,
                "include-hidden-files": True,
                "if-no-files-found": "error",
                "overwrite": True,
                "compression-level": 0,
            },
        ),
    ]


def _after(plan: Plan, ci: Ci) -> list[list[str]]:
    """Return the jobs that follow: all wheels together, then attestation and the places they are published in."""
    wheels = ["wheels", *(["attest"] if ci.attest else [])]
    return [
        _wheels(plan, ci),
        *([_attest(plan)] if ci.attest else []),
        *([_publish(plan, ci, wheels)] if ci.publish else []),
        *([_pages(plan, ci, wheels)] if ci.pages else []),
    ]


def _wheels(plan: Plan, ci: Ci) -> list[str]:
    head = [
        "name: check all wheels",
        f"needs: {listing(['bake', 'build'])}" if plan.cibuildwheel_cells else "needs: bake",
        *machine(60),
        *permissions({"contents": "read"}),
        "outputs:",
        "  artifact: ${{ steps.name.outputs.artifact }}",
    ]
    steps = [
        *bakery_steps(ci),
        uses(
            "Fetch the wheels of all jobs",
            "actions/download-artifact",
            {"pattern": "part-*", "path": plan.output, "merge-multiple": True},
        ),
        run(
            "Check that every planned wheel is there and what it promises",
            'wheel-bakery verify -- "$OUTPUT"',
            {"OUTPUT": plan.output},
        ),
        [
            "- name: Name the result",
            "  id: name",
            "  # An artefact of an earlier attempt cannot be replaced.",
            '  run: echo "artifact=wheels-$GITHUB_RUN_ATTEMPT" >> "$GITHUB_OUTPUT"',
        ],
        uses(
            "Merge the wheels and remove the parts",
            "actions/upload-artifact",
            {
                "name": Expression("${{ steps.name.outputs.artifact }}"),
                "pattern": "part-*",
                "include-hidden-files": True,
                "delete-merged": True,
            },
            sub="/merge",
        ),
    ]
    return job_block("wheels", head, steps)


def _attest(plan: Plan) -> list[str]:
    head = [
        "name: attest where they were built",
        "needs: wheels",
        "if: github.event_name != 'pull_request'",
        *machine(15),
        *permissions({"attestations": "write", "id-token": "write"}),
    ]
    steps = [
        _fetch(plan),
        uses("Attest", "actions/attest-build-provenance", {"subject-path": f"{plan.output}/*.whl"}),
    ]
    return job_block("attest", head, steps)


def _publish(plan: Plan, ci: Ci, needs: Sequence[str]) -> list[str]:
    head = [
        "name: publish to the package index",
        f"needs: {listing(needs)}",
        f"if: {_TAGGED}",
        *machine(30),
        f"environment: {scalar(ci.publish)}",
        *permissions({"id-token": "write"}),
    ]
    script = (
        "mkdir upload\n"
        """find "$OUTPUT" -name '*.whl' ! -name '*+*' -exec mv {} upload/ ';'\n"""
        'test -n "$(ls upload)"'
    )
    url = {"repository-url": ci.publish_url} if ci.publish_url else {}
    steps = [
        _fetch(plan),
        run("Choose the wheels without a local version", script, {"OUTPUT": plan.output}),
        uses("Publish", "pypa/gh-action-pypi-publish", {"packages-dir": "upload", **url}),
    ]
    return job_block("publish", head, steps)


def _pages(plan: Plan, ci: Ci, needs: Sequence[str]) -> list[str]:
    head = [
        "name: add to the index on Pages",
        f"needs: {listing(needs)}",
        f"if: {_TAGGED}",
        *machine(60),
        *comment("Two releases at once would each leave out what the other adds."),
        "concurrency:",
        "  group: pages",
        "  cancel-in-progress: false",
        "environment:",
        "  name: github-pages",
        "  url: ${{ steps.deploy.outputs.page_url }}",
        *permissions({"pages": "write", "id-token": "write"}),
    ]
    wheels = '"$OUTPUT"' + ("/*+*.whl" if any(naming.local for naming in plan.audit.namings) else "")
    steps = [
        *bakery_steps(ci, checkout=False),
        _fetch(plan),
        uses("Ask where the pages are", "actions/configure-pages", {}, name="pages"),
        run(
            "Extend the index",
            f'wheel-bakery index --extend "$SITE" --output site -- {wheels}',
            {"OUTPUT": plan.output, "SITE": Expression("${{ steps.pages.outputs.base_url }}")},
        ),
        uses(
            "Keep the index",
            "actions/upload-pages-artifact",
            {"name": Expression("pages-${{ github.run_attempt }}"), "path": "site"},
        ),
        uses(
            "Deploy the index",
            "actions/deploy-pages",
            {"artifact_name": Expression("pages-${{ github.run_attempt }}")},
            name="deploy",
        ),
    ]
    return job_block("pages", head, steps)


# --- steps ---------------------------------------------------------------------------------------


def _free() -> list[list[str]]:
    script = "sudo rm -rf \\\n" + " \\\n".join(f"  {folder}" for folder in UNUSED) + "\ndf -h /"
    return [run("Free disk space", script)]


def _runtime() -> list[list[str]]:
    step = uses("Give run steps the address and the token of the cache", "crazy-max/ghaction-github-runtime", {})
    return [step]


def _fetch(plan: Plan) -> list[str]:
    name = Expression("${{ needs.wheels.outputs.artifact }}")
    return uses("Fetch the wheels", "actions/download-artifact", {"name": name, "path": plan.output})


def _is_tight(ci: Ci, jobs: Iterable[CellGroup]) -> bool:
    """Whether a job's layers may not fit onto its runner; other runners than GitHub's are left as they are."""
    if ci.free_disk is not None:
        return ci.free_disk
    return any(0 < runner_disk(ci.runners[job.platform]) <= disk(job) for job in jobs)


def _fetch_objects() -> list[str]:
    fields = {**_KEY, "restore-keys": _OBJECTS_OF_JOB}
    return [
        *comment(
            "A release takes nothing that other runs compiled, and leaves nothing to them; a pull request leaves nothing."
        ),
        *uses("Fetch what compilers made", "actions/cache", fields, condition=_NO_RELEASE, sub="/restore"),
    ]


def _keep_objects() -> list[str]:
    condition = f"always() && {_NO_RELEASE} && {_NO_PULL}"
    return uses("Keep what compilers made", "actions/cache", _KEY, condition=condition, sub="/save")


def _fitting(plan: Plan) -> str:
    """Return the layer cache of the jobs where nobody named one."""
    size = cached(plan, cache_service("gha").packed) * 1000
    return (CacheBackend.GHA if size <= plan.cache.limit_mb else CacheBackend.NONE).value


def _entry(job: CellGroup, ci: Ci) -> dict[str, str]:
    return {
        "job": job.name,
        "runner": ci.runners[job.platform],
        "cells": " ".join(cell.id for cell in job.cells),
    }
