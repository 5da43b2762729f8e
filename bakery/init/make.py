"""The recipe of a project, checked as `wheel-bakery check` does before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

from bakery.core.errors import PlanError
from bakery.init.bases import BaseChoice
from bakery.init.decide import decide
from bakery.init.device import Choose
from bakery.init.project import read_project
from bakery.init.tree import Tree
from bakery.init.write import Draft, Target
from bakery.plan.model import Plan
from bakery.recipe.load import load_text
from bakery.resolve.plan import resolve
from bakery.resolve.rules import judge
from bakery.resolve.rules.findings import refusal
from bakery.resolve.rules.rule import Finding, Severity


@dataclass(frozen=True)
class Checked:
    """A recipe that can be written, or shown.

    Attributes:
        text: what is written to the target.
        plan: the plan of the recipe.
        warnings: the rules that it does not keep to.
        refusal: why it is not written: rules refuse its plan.
    """

    draft: Draft
    text: str
    plan: Plan
    warnings: tuple[Finding, ...]
    refusal: PlanError | None = None


def make_recipe(
    tree: Tree, folder: str, target: Target, base: BaseChoice | None, choose: Choose, refused: str = ""
) -> Checked:
    """Return the checked recipe of the project in a folder of the tree.

    The image of cibuildwheel's settings and the versions of a bake file may be none that Bakery can build with. The
    recipe is then made without them.

    Args:
        folder: empty for the tree's own.
        base: the base; None for that of the project, or the default.
        refused: why the project's image and versions are not taken.

    Raises:
        RecipeError: pyproject.toml is not TOML.
        PlanError: the base has no Python that the project supports, or the recipe has no plan.
    """
    try:
        project = read_project(tree, folder, base, refused=refused)
        draft = decide(project, choose)
        text = target.text(draft)
        plan = resolve(load_text(target.whole(text), target.file))
        findings = judge(plan, project=project.known)
    except PlanError as error:
        if refused:
            raise
        return make_recipe(tree, folder, target, base, choose, error.details[0] if error.details else error.message)
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    if errors and not refused:
        return make_recipe(tree, folder, target, base, choose, errors[0].text)
    warnings = tuple(finding for finding in findings if finding not in errors)
    return Checked(draft, text, plan, warnings, refusal(plan.recipe, errors, len(plan.cells)) if errors else None)
