"""Findings → draft of a recipe."""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from bakery.core import names
from bakery.core.errors import PlanError
from bakery.init import decide_build, decide_test
from bakery.init.bases import BaseChoice
from bakery.init.draft import Draft
from bakery.init.findings import Fact, Rest
from bakery.init.frameworks import LONGEST_SPECIFIER, Choose, Device, find_device
from bakery.init.project import Project

_TITLES = (
    ("CUDA", ("cuda",)),
    ("Rust", ("rust",)),
    ("Cython", ("cython",)),
    ("Fortran", ("fortran",)),
    ("C++", ("cxx",)),
    ("C", ("c",)),
)


def decide(project: Project, choose: Choose) -> Draft:
    """Return the recipe of a project.

    Raises:
        PlanError: the base has no Python that the project supports.
    """
    base = project.base
    draft = Draft(notes=list(project.notes))
    device = find_device(project, choose)
    is_single = decide_build.single_python(project)
    draft.title = _title(project, device)
    _name(draft, project)
    if project.folder != ".":
        draft.set("source", project.folder, "the folder of the project")
    _platforms(draft, project)
    _pythons(draft, project, base, device, is_single)
    draft.set("builder.base", base.value)
    decide_build.set_device(draft, device)
    decide_build.set_builder(draft, project, base, device)
    decide_build.set_wheel(draft, project, device)
    decide_test.set_test(draft, project, device)
    _carry(draft, project)
    return draft


def _title(project: Project, device: Device) -> str:
    languages = [label for label, keys in _TITLES if project.language(*keys)]
    if "C++" in languages or "CUDA" in languages:
        languages = [label for label in languages if label != "C"]
    includes = project.sources.includes
    setup = project.metadata.setup
    libraries = [
        label
        for label, place in (
            ("torch", device.framework_place if device.framework == "torch" else None),
            ("XLA's FFI", device.framework_place if device.framework == "jax" else None),
            ("nanobind", includes("nanobind/") or project.cmake.packages.get("nanobind")),
            ("pybind11", includes("pybind11/") or project.cmake.packages.get("pybind11")),
        )
        if place
    ]
    kind = ", ".join(languages[:3]) or ("an extension" if setup and setup.extensions else "Python only")
    tools = f" with {' and '.join(libraries)}" if libraries else ""
    backend = project.metadata.backend
    return f"{kind}{tools}, built by {_plain_name(backend.text)} ({backend.place})"


def _plain_name(text: str) -> str:
    return text if re.fullmatch(r"[\w.-]{1,60}", text) else "its own backend"


def _name(draft: Draft, project: Project) -> None:
    found = project.metadata.name
    for text, reason in ((found.text if found else "", ""), (project.label, "guess: the name of the folder")):
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
        plain = f"py-{plain}" if plain[:1].isdigit() else plain
        if names.RECIPE.match(plain) and not names.is_device(plain):
            draft.set("name", plain, reason)
            return
    draft.set("name", "project", "guess: write the name of the project")


def _platforms(draft: Draft, project: Project) -> None:
    carried, bake = project.cibuildwheel, project.bake_file
    if carried and carried.platforms:
        draft.set("platforms", list(carried.platforms), f"{carried.place}: archs")
    elif bake and bake.platforms:
        draft.set("platforms", list(bake.platforms), str(bake.platforms_place))


def _pythons(draft: Draft, project: Project, base: BaseChoice, device: Device, is_single: str) -> None:
    """Set the Pythons: those of the base that the project supports."""
    supported, reasons = _supported(draft, project, base)
    if device.pythons and (fitting := [python for python in supported if python in device.pythons]):
        supported = fitting
        reasons.append(f"{device.framework} {device.releases[0]}")
    rust = dict(base.rust)
    minimum = project.cargo.rust if project.cargo else None
    if (
        minimum
        and decide_build.uses_rust(project)
        and (fitting := [item for item in supported if _number(rust.get(item, "9")) >= _number(minimum.text)])
    ):
        supported = fitting
        reasons.append(f"Rust {minimum.text} ({minimum.place})")
    if is_single:
        supported = [_common(supported)]
    reason = f"of {base.label}'s: {', '.join(reasons)}" if reasons else "guess: the project names no Python"
    draft.set("matrix.python", supported, is_single or reason)


def _common(pythons: list[str]) -> str:
    # The newest may be of a release of Debian that is not out yet.
    return next((python for python in ("3.13", "3.12", "3.11") if python in pythons), pythons[-1])


def _supported(draft: Draft, project: Project, base: BaseChoice) -> tuple[list[str], list[str]]:
    """Return the base's Pythons that the project supports, and where it says so.

    Raises:
        PlanError: there is none.
    """
    supported, reasons = list(base.pythons), []
    required = project.metadata.requires_python
    if required:
        try:
            # Longer ones have numbers that Python refuses to convert.
            specifiers = SpecifierSet(required.text if len(required.text) <= LONGEST_SPECIFIER else "?")
        except InvalidSpecifier:
            draft.notes.append(f"{required.place}: requires-python cannot be read")
        else:
            # A minor version stands for its newest release.
            supported = [python for python in supported if specifiers.contains(f"{python}.99")]
            reasons.append(f"requires-python ({required.place})")
    if not supported:
        assert required
        raise PlanError(
            f"base {base.label} has none of the Pythons that the project supports",
            hint=f"it has {', '.join(base.pythons)}; name another image: wheel-bakery init --base IMAGE",
            details=[f"{required.place}: requires-python {required.text[:80]}"],
        )
    return _narrowed(draft, project, supported, reasons)


def _narrowed(draft: Draft, project: Project, supported: list[str], reasons: list[str]) -> tuple[list[str], list[str]]:
    """Return the Pythons that other settings of the project select, too."""
    carried, bake = project.cibuildwheel, project.bake_file
    if carried and (carried.build or carried.skip):
        if selected := [python for python in supported if carried.selects(python)]:
            return selected, [*reasons, f"build and skip ({carried.place})"]
        draft.rest.append(
            Rest(f"tool.cibuildwheel.build and skip ({carried.place})", "the base has none of these Pythons")
        )
    elif bake and "python" in bake.axes:
        values, place = bake.axes["python"]
        if missing := [python for python in values if python not in supported]:
            draft.rest.append(
                Rest(f"Python {', '.join(missing)} ({place})", "not in the base, or not supported by the project")
            )
        if selected := [python for python in supported if python in values]:
            return selected, [*reasons, str(place)]
    elif classified := _classified(project.metadata.classifiers, supported):
        return classified, [*reasons, f"classifiers ({project.metadata.classifiers[0].place})"]
    return supported, reasons


def _classified(classifiers: tuple[Fact, ...], supported: list[str]) -> list[str]:
    """Return the Pythons between the oldest and the newest that classifiers name."""
    numbers = sorted(_number(fact.text) for fact in classifiers)
    selected = [python for python in supported if numbers and numbers[0] <= _number(python) <= numbers[-1]]
    return selected if selected != supported else []


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version)[:3])


def _carry(draft: Draft, project: Project) -> None:
    """Add what cibuildwheel's settings and the bake file have, and list the rest."""
    if project.cibuildwheel:
        draft.rest += project.cibuildwheel.rest
        for key, (value, place) in project.cibuildwheel.values.items():
            reason = str(place)
            if isinstance(value, list) or (isinstance(value, dict) and key != "wheel.repair"):
                draft.extend(key, value, reason, optional=key.startswith("test."))
            elif key not in draft.entries:
                draft.set(key, value, reason, optional=key.startswith("test."))
            elif value is False:
                draft.rest.append(Rest(f"an empty repair-wheel-command ({place})", "the audit expects repaired wheels"))
    if project.bake_file:
        draft.rest += project.bake_file.rest
