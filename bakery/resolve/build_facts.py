"""Settings and stages → the facts about a build."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.plan.build_facts import BuildFacts
from bakery.plan.dockerfile import Arg, Command, Run, Stage
from bakery.resolve.naming import required_texts, tested_framework
from bakery.resolve.references import parse
from bakery.resolve.stage_inputs import Parts, job_memory

_COMPILING = ("compile", "native")
"""The stages that compile. A native step compiles the code, so its environment takes precedence."""


def build_facts(parts: Parts, stages: Sequence[Stage]) -> BuildFacts:
    """Return the facts about the build of a recipe."""
    settings = parts.settings
    tables = ("image",) if settings.texts("image.requirements") else ("builder", "native")
    framework = map(parse, settings.framework.build if settings.framework else ())
    by_name = {stage.name: stage for stage in stages}
    steps = [step for name in _COMPILING if name in by_name for step in by_name[name].steps]
    commands = [item for step in steps if isinstance(step, Run) for item in step.commands if isinstance(item, Command)]
    programs = [(toolkit.majors, "nvcc" if toolkit.nvcc else "clang++") for toolkit in parts.toolkits]
    memory, jobs = job_memory(settings), int(settings.text("builder.jobs") or 0)
    return BuildFacts(
        requirements=(*framework, *(word for table in tables for word in settings.parsed(f"{table}.requirements"))),
        packages=tuple(name for table in tables for name in settings.texts(f"{table}.system-packages")),
        config_settings=settings.pairs("wheel.config-settings"),
        environment=tuple(pair for command in commands for pair in command.environment),
        declared=tuple(step.name for step in steps if isinstance(step, Arg)),
        compilers={
            major: name for majors, name in programs for major in (map(str, majors) if len(programs) > 1 else ("",))
        },
        before_build=settings.text("builder.before-build.command"),
        picks_host=any(toolkit.nvcc for toolkit in parts.toolkits),
        limits_jobs=bool(memory or jobs),
        job_memory=memory,
        jobs=jobs,
        test_command=settings.text("test.command"),
        test_files=settings.texts("test.files"),
        test_requirements=tuple(
            map(parse, (*tested_framework(settings), *required_texts(settings), *settings.texts("test.requirements")))
        ),
    )
