"""Commands on finished wheels: ``audit``, ``verify``, ``gpu-test``, ``reproduce``, ``index``."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections import ChainMap
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, has_step_summary, out, progress_display, say, write_step_summary
from bakery.cli.failures import leave
from bakery.cli.recipes import plans
from bakery.core.errors import AuditError, DifferentError, OutputError, UsageError
from bakery.core.text import count
from bakery.engine.ca_bundle import find_ca_bundle


def audit(
    wheels: Annotated[list[Path], typer.Argument(help="Wheel files.", metavar="WHEEL…")],
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Show the changes since this older wheel.", metavar="OLD")
    ] = None,
    size: Annotated[
        bool, typer.Option("--size", help="Show the bytes of each library, and of its code for each GPU architecture.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show each binary, and each finding of one kind.")
    ] = False,
    json: parameters.AsJson = False,
) -> None:
    """Inspect wheels: tags, machine, oldest glibc, GPU code, bundled libraries, RECORD, size.

    Example: wheel-bakery audit dist/*.whl --json
    """
    from wheel_audit.command import BadBaselineError, audit_files, reason

    try:
        outcome = audit_files(wheels, out, baseline=baseline, size=size, verbose=verbose, as_json=json)
    except OSError as error:
        raise OutputError(reason(baseline or Path(), error)) from error
    except BadBaselineError as error:
        raise UsageError(str(error), hint="--baseline names a wheel") from error
    out.file.flush()
    if outcome.unread:
        raise OutputError(
            "; ".join(outcome.unread), hint="name a file that ends in .whl, as `ls dist/*.whl` lists them"
        )
    if not outcome.passed:
        leave(AuditError.exit_code)


def verify(
    wheels: parameters.Wheels,
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    only: parameters.Only = None,
    skip: parameters.Skip = None,
    pull_request: parameters.PullRequest = False,
    gpu: Annotated[
        bool,
        typer.Option("--require-gpu-test", help="Demand a record of `gpu-test` for wheels of recipes with test.gpu."),
    ] = False,
    tag: Annotated[
        str,
        typer.Option(
            "--tag",
            help="Demand the version that this git tag names: v1.2.0rc1, v2026.11, my-pkg-v1.2. Empty for none.",
            metavar="TAG",
        ),
    ] = "",
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            "--baseline",
            help="Compare the sizes with these wheels of the release before; wheel.max-growth is the limit.",
            metavar="WHEEL|DIR",
        ),
    ] = None,
) -> None:
    """Compare all wheels of a release with the plan: each planned wheel is there and as planned, and no other is.

    Example: wheel-bakery verify --tag v1.2.0 dist/
    """
    from bakery.cli.tables.size import total
    from bakery.engine.paths import engine_paths
    from bakery.plan.pull_request import for_pull_request
    from bakery.release.coverage import named_project
    from bakery.release.verify import verify as check

    files, before = _wheel_files(wheels), _wheel_files(baseline or ())
    found = plans(recipe, set_)
    planned = [for_pull_request(plan) if pull_request else plan for _, plan in found]
    selected = [plan.filter_by_pattern(parameters.globs(only, skip)) for plan in planned]
    names = {plan.recipe: name for root, plan in found if (name := named_project(plan, root))}
    if gpu and not any(plan.cibuildwheel.test_gpu for plan in selected):
        raise UsageError("--require-gpu-test: no recipe has test.gpu", hint="set gpu = true in [test]")
    cache = engine_paths(os.environ).cache / "audited"
    release = check(selected, files, cache, gpu=gpu, tag=tag, baseline=before, names=names)
    lines = [f"{release.wheels} wheel{'s' * (release.wheels != 1)}: complete and as planned"]
    lines += [*map(total, release.projects), *release.growth]
    if baseline is not None:
        lines.append(f"{len(release.growth)} of {release.wheels} wheels compared with the release before")
    for line in lines:
        echo(line)
    if has_step_summary():
        write_step_summary("\n".join(f"- {line}" for line in lines))
    if baseline is None and any(plan.max_growth is not None for plan in selected):
        say("note: wheel.max-growth is not checked: --baseline names the wheels of the release before")


def gpu_test(
    wheels: parameters.Wheels,
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    installed: Annotated[
        bool, typer.Option("--installed", help="Use the packages of this Python; install nothing but the wheel.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--prepare",
            help="Only fill this new folder: `python DIR/run.py` then tests.",
            metavar="DIR",
            callback=parameters.written,
        ),
    ] = None,
) -> None:
    """Test wheels of recipes with test.gpu on the GPU of this machine. Needs Python and NVIDIA's driver, but no engine.

    Example: wheel-bakery gpu-test dist/
    """
    from bakery.release.gpu_test import prepare, run

    files = _wheel_files(wheels)
    selected = plans(recipe, set_)
    if folder:
        prepare(selected, files, folder)
        echo(f"{folder}: run `python {shlex.quote(str(folder / 'run.py'))}` on a machine with a GPU")
        return
    with tempfile.TemporaryDirectory(prefix="gpu-test-") as scratch:
        inside = Path(scratch) / "tests"
        tested = prepare(selected, files, inside)
        run(inside, tested, echo, installed=installed)
    echo(f"{len(tested)} wheel{'s' * (len(tested) != 1)} passed on the GPU")


def reproduce(
    wheel: Annotated[Path, typer.Argument(help="A wheel that bakery published.", exists=True, dir_okay=False)],
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="Use this recipe, not the one in the provenance.")
    ] = None,
    provenance: Annotated[
        Path | None,
        typer.Option("--provenance", help="Use this provenance, not the one next to the wheel.", metavar="FILE"),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Build nothing: compare with this wheel.", exists=True, dir_okay=False),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Build the project as it is now, whatever the wheel was built from.")
    ] = False,
    allow: parameters.Allow = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="A setting in addition to those of the provenance.", metavar="NAME=VALUE"),
    ] = None,
    ca_bundle: parameters.CaBundle = None,
    json: parameters.AsJson = False,
) -> None:
    """Build a wheel again from its provenance, without caches, and compare the two wheels byte for byte.

    Example: wheel-bakery reproduce dist/my_kernels-1.0-cp312-cp312-manylinux_2_34_x86_64.whl
    """
    from bakery.cli.engine import open_engine
    from bakery.release import reproduce as release
    from wheel_audit.report import render_differences

    if against:
        result = release.against(wheel, against)
    else:
        choices = release.RebuildOptions(recipe, provenance, here, tuple(set_ or ()), tuple(allow or ()))
        display = progress_display(os.environ.get("BAKERY_PROGRESS", "auto"))
        result = release.reproduce(wheel, Path.cwd(), choices, open_engine(ca_bundle), display)
    if json:
        echo_json(result.to_json())
    else:
        out.print(
            render_differences(wheel.name, result.differences, result.materials, result.taken, result.not_compared)
        )
    if not result.same:
        leave(DifferentError.exit_code)


def variants(
    wheels: parameters.Wheels,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder for the variants.", metavar="DIR", callback=parameters.written),
    ] = Path("dist/variants"),
    dialect: Annotated[
        str, typer.Option("--format", help="Format of variant.json: uv, or pep825 (the strict one of the standard).")
    ] = "uv",
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
) -> None:
    """Package wheels again as wheel variants (PEP 825), with the CUDA release and the GPUs that the audit reads in them.

    Labels and properties of [wheel.variants] in the recipe come first; what the wheel does not have is refused.

    Example: wheel-bakery variants dist/ --output dist/variants
    """
    from bakery.recipe.files import find_table
    from bakery.release.variants import declared_variants, make_variants
    from wheel_audit.variant import dialects

    files = _wheel_files(wheels, some=True)
    if dialect not in dialects():
        raise UsageError(f"--format: expected {' or '.join(dialects())}, got {dialect!r}")
    has_recipe = recipe or find_table(Path.cwd(), Path.cwd())
    declared = [declared_variants(plan, files) for _, plan in (plans(recipe, set_) if has_recipe else ())]
    for path in make_variants(files, output, Path.cwd(), dialect, ChainMap(*declared)):
        echo(str(path))


def meta(
    wheels: parameters.Wheels,
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    pull_request: parameters.PullRequest = False,
    if_any: Annotated[
        bool, typer.Option("--if-any", help="Write nothing, and succeed, if no recipe has wheel.naming.meta.")
    ] = False,
) -> None:
    """Write the meta package of wheels with a distribution for each CUDA release, beside the first of them.

    wheel.naming.meta has its name. `pip install my-kernels[cu13]` then installs my-kernels-cu13.

    Example: wheel-bakery meta dist/
    """
    from bakery.core.inside import Inside
    from bakery.plan.pull_request import for_pull_request
    from bakery.release.meta import extras, meta_packages
    from bakery.release.verify import assigned
    from bakery.runs.publish import publish

    files = _wheel_files(wheels)
    planned = [for_pull_request(plan) if pull_request else plan for _, plan in plans(recipe, set_)]
    named = [plan for plan in planned if extras(plan)]
    if not named and not if_any:
        raise UsageError(
            "no recipe has wheel.naming.meta", hint='set naming = { name = "x-cu${CUDA_MAJOR}", meta = "x" }'
        )
    for plan in named:
        own = [path for paths in assigned(plan, files)[0].values() for path in paths]
        made = meta_packages(plan, own)
        with tempfile.TemporaryDirectory(prefix="bakery-") as scratch:
            for name, content in made.items():
                Inside(Path(scratch)).write(name, content)
            for path in publish([Path(scratch) / name for name in made], own[0].parent, root=Path.cwd()):
                echo(str(path))


def index(
    wheels: parameters.Wheels,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The folder of the index. Its existing wheels are kept.",
            metavar="DIR",
            callback=parameters.written,
        ),
    ] = Path("site"),
    extend: Annotated[
        str | None,
        typer.Option("--extend", help="First copy the wheels of the published index at this address.", metavar="URL"),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="The address of the folder on the web, for addresses of attestations. Default: that of --extend.",
            metavar="URL",
        ),
    ] = None,
    ca_bundle: parameters.CaBundle = None,
) -> None:
    """Write a static package index for pip and uv. Any web server can serve the folder.

    Example: wheel-bakery index dist/ --output site/ && python -m http.server -d site
    """
    from bakery.release.index.fetch import take
    from bakery.release.index.store import NewWheel
    from bakery.release.index.store import extend as add

    files = _wheel_files(wheels, some=not extend)
    if extend and not extend.startswith(("http://", "https://")):
        raise UsageError(f"--extend: expected a URL, got {extend!r}", hint="such as https://owner.github.io/project/")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        output.mkdir(parents=True, exist_ok=True)
        # Next to the index: on the same file system, and with a name that no server chooses.
        scratch = tempfile.TemporaryDirectory(prefix=".bakery-", dir=output.absolute().parent)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror}") from error
    with scratch as folder:
        bundle = find_ca_bundle(ca_bundle, os.environ)
        published = take(extend, output, Path(folder), say, str(bundle or "")) if extend else []
        result = add(output, [*published, *(NewWheel(file, now) for file in files)], now, url or extend or "")
    for name in result.dropped:
        say(f"{name}: the file is missing and was removed from the index")
    for name in result.added:
        echo(f"added {name}")
    echo(
        f"{output / 'simple'}: {len(result.added)} added, {result.kept} kept, {count(len(result.projects), 'project')}"
    )


def _wheel_files(paths: Iterable[Path], *, some: bool = False) -> list[Path]:
    """Return the named files and the wheels in the named folders.

    Raises UsageError if a path does not exist, or ``some`` wheels must be there and are not.
    """
    paths = list(paths)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise UsageError(f"no such file or folder: {', '.join(missing)}", hint="expected wheels, or folders of wheels")
    files = [file for path in paths for file in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
    if some and not files:
        raise UsageError(f"no wheels in {', '.join(map(str, paths))}", hint="build some with `wheel-bakery wheel`")
    return files
