"""Settings and stages → the facts about a build."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.plan.build_facts import BuildFacts, Packages, Written
from bakery.plan.dockerfile import Arg, Command, Run, Stage
from bakery.recipe.models import Recipe
from bakery.resolve.naming import required_texts, tested_framework
from bakery.resolve.references import parse, parse_all, parse_table
from bakery.resolve.stage_inputs import StageInputs, job_limits

_COMPILING = ("compile", "native")
"""The stages that compile. A native step compiles the code, so its environment takes precedence."""


def build_facts(inputs: StageInputs, stages: Sequence[Stage]) -> BuildFacts:
    """Return the facts about the build of a recipe."""
    settings, recipe = inputs.settings, inputs.recipe
    builder, tables = recipe.builder, ((recipe.image,) if recipe.image else (recipe.builder, recipe.native))
    framework = parse_all(settings.framework.build if settings.framework else ())
    by_name = {stage.name: stage for stage in stages}
    steps = [step for name in _COMPILING if name in by_name for step in by_name[name].steps]
    commands = [item for step in steps if isinstance(step, Run) for item in step.commands if isinstance(item, Command)]
    programs = [(toolkit.majors, "nvcc" if toolkit.nvcc else "clang++") for toolkit in inputs.toolkits]
    return BuildFacts(
        subdirectory=recipe.source.subdirectory or ".",
        requirements=(*framework, *(word for table in tables if table for word in parse_all(table.requirements))),
        framework_index=parse(builder.framework_index or ""),
        packages=tuple(name for table in tables if table for name in table.system_packages),
        config_settings=parse_table(recipe.wheel.config_settings),
        environment=tuple(pair for command in commands for pair in command.environment),
        declared=tuple(step.name for step in steps if isinstance(step, Arg)),
        compilers={
            major: name for majors, name in programs for major in (map(str, majors) if len(programs) > 1 else ("",))
        },
        before_build=builder.before_build.command if builder.before_build else "",
        picks_host=any(toolkit.nvcc for toolkit in inputs.toolkits),
        limits=job_limits(builder),
        test_command=recipe.test.command or "",
        test_files=recipe.test.files,
        test_imports=recipe.test.imports,
        test_requirements=parse_all(
            (*tested_framework(settings), *required_texts(settings), *recipe.test.requirements)
        ),
        written=_written(recipe),
    )


def _written(recipe: Recipe) -> Written:
    builder, native = recipe.builder, recipe.native
    uses = {
        "toolkit": builder.toolkit != "none",
        "framework": builder.framework,
        "rust": builder.rust,
        "environment": builder.environment,
    }
    packages = {"builder": Packages(builder.requirements, builder.system_packages)}
    packages |= {"native": Packages(native.requirements, native.system_packages)} if native else {}
    packages["test"] = Packages(recipe.test.requirements)
    used = frozenset(name for name, value in uses.items() if value)
    return Written(packages, builder.components, used)
