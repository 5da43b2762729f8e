"""The job files of a repository and their workflow: ``[tool.bakery-iree]`` in pyproject.toml, or ``bakery-iree.toml``."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from bakery.plan.delivery import Repository
from bakery.recipe.files import PYPROJECT, RecipeFile, exists, is_inside, shown_path
from bakery.recipe.models import Ci
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import WorkflowLine, distinct
from bakery.recipe.problems import Problem, describe, recipe_error, shorten
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_file import read
from bakery.recipe.toml_positions import line_of
from bakery.resolve.delivery import workflow_settings
from bakery.runs.buildx.entitlements import Grants
from bakery_iree.emit import PATH, module_workflow
from bakery_iree.job.load import load
from bakery_iree.job.resolve import resolve
from bakery_iree.plan import JobFile
from bakery_iree.tool_image import image_name

FILE = "bakery-iree.toml"
TABLE = ("tool", "bakery-iree")


class Workspace(Model):
    """IREE jobs in one repository."""

    jobs: Annotated[tuple[WorkflowLine, ...], Field(min_length=1, max_length=1000), AfterValidator(distinct)] = Field(
        examples=[["models/job.json"]]
    )
    """Job files, relative to this file."""
    ci: Ci | None = None
    """A workflow that compiles, validates and benchmarks their modules. It publishes nothing."""


def job_files(cwd: Path) -> Workspace | None:
    """Return the workspace in a folder; None without a table. Raises RecipeError if it is not valid."""
    root = cwd.absolute()
    source = _find(root)
    if source is None:
        return None
    source.check(find_problems(Workspace, source.data))
    workspace = Workspace.model_validate(source.data, by_alias=True, by_name=False)
    source.check(
        Problem(("jobs", index), f"'{shorten(entry)}' is not a file in the workspace", "name a job file")
        for index, entry in enumerate(workspace.jobs)
        if not is_inside(entry, root) or not (root / entry).is_file()
    )
    return workspace.model_copy(update={"jobs": tuple(PurePosixPath(entry).as_posix() for entry in workspace.jobs)})


def _find(root: Path) -> RecipeFile | None:
    for name in (FILE, PYPROJECT):
        if not exists(root / name):
            continue
        shown = shown_path(root / name, root)
        document = read(root / name, shown, root)
        if name == FILE:
            return RecipeFile(root / name, shown, (), document.data, document)
        tool = document.data.get(TABLE[0])
        if not isinstance(tool, dict) or TABLE[1] not in tool:
            continue
        data = tool[TABLE[1]]
        if not isinstance(data, dict):
            what = f"expected a table, found {describe(data, ())}"
            raise recipe_error(
                shown, [Problem(TABLE, what, "write [tool.bakery-iree]", line_of(document.lines, TABLE))]
            )
        return RecipeFile(root / name, shown, TABLE, data, document)
    return None


def workflow_files(folder: Path, repository: Repository) -> dict[str, str]:
    """Return path → text of the workflow; none without jobs or ``ci``. Raises BakeryError if a file is no job."""
    workspace = job_files(folder)
    if workspace is None or workspace.ci is None:
        return {}
    made = []
    for file in workspace.jobs:
        loaded = load(Path(file), file)
        hint = "a workflow can read files of the repository only: move the file there"
        Grants().require(loaded.required_grants(output=False), folder, who=file, hint=hint)
        made.append(JobFile(file, resolve(loaded, root=folder)))
    published = ("publish", "publish_url", "test_publish", "pages", "compiler_cache", "github_release", "gpu_runner")
    silent = workspace.ci.model_copy(update=dict.fromkeys(published))
    return {repository.named(PATH): module_workflow(made, workflow_settings(silent), image_name, repository)}
