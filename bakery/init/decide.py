"""Findings → draft of a recipe: its name, its matrix and its test."""

from __future__ import annotations

import re
from itertools import groupby

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from bakery.core import names
from bakery.core.cell_ids import MACHINES
from bakery.core.errors import PlanError
from bakery.init.decide_build import set_builder, set_wheel
from bakery.init.device import LONGEST_SPECIFIER, Choose, Device, find_device
from bakery.init.findings import Rest
from bakery.init.project import Project
from bakery.init.tree import TABLES
from bakery.init.write import Draft
from bakery.toolchains import facts
from bakery.toolchains.registry import frameworks


def decide(project: Project, choose: Choose) -> Draft:
    """Return the recipe of a project.

    Raises:
        PlanError: the base has no Python that the project supports.
    """
    draft = Draft(notes=list(project.notes))
    device = find_device(project, choose)
    draft.title = _title(project, device)
    draft.notes += _left_out(project, device)
    _name(draft, project)
    if project.above:
        draft.set("source", {"path": ".", "subdirectory": project.folder}, project.above)
    elif project.folder != ".":
        draft.set("source", project.folder, "the folder of the project")
    _platforms(draft, project)
    _pythons(draft, project, device)
    set_builder(draft, project, device)
    set_wheel(draft, project, device)
    _test(draft, project, device)
    _own_tests(draft, project, device)
    if project.above and "test.files" in draft.entries:
        draft.set("test.files", [f"{project.folder}/{name}" for name in draft.texts("test.files")])
    _carry(draft, project)
    if device.framework == "torch" and device.cuda and not {"wheel.torch-abi", "wheel.py3"} & draft.entries.keys():
        # Last, so that a recipe that is too long loses it first.
        local = {"local": "cu${CUDA_TAG}torch${TORCH_MINOR}"}
        draft.set("wheel.naming", local, "bound to one torch and CUDA; not for PyPI", optional=True)
    return draft


def _platforms(draft: Draft, project: Project) -> None:
    """Set the platforms that the project states, of those that the image of the base is for."""
    carried = project.cibuildwheel
    # CIBW_ARCHS of a workflow outranks pyproject.toml.
    outranked = bool(project.workflow and project.workflow.states_archs and project.platforms)
    if carried and carried.platforms and not outranked:
        stated, reason = carried.platforms, f"{carried.place}: archs"
    elif project.platforms:
        stated, reason = project.platforms[0], str(project.platforms[1])
    else:
        return
    served = [platform for platform in stated if project.base.platform in ("", platform)]
    if served:
        draft.set("platforms", served, reason)
    if left := [platform for platform in stated if platform not in served]:
        draft.rest.append(Rest(f"{', '.join(left)} ({reason})", "the image of the base is for another platform"))


def _left_out(project: Project, device: Device) -> list[str]:
    """Return notes on what the recipe leaves out: sources that no build compiles, options that are off, built libraries."""
    sources, option = project.sources, project.cmake.cuda_option
    found = {
        "CUDA": None if device.cuda_place else sources.languages.get("cuda"),
        "torch": None if device.framework else sources.includes("torch/", "ATen/", "c10/"),
        "JAX": None if device.framework else sources.includes("xla/ffi/"),
    }
    notes = [
        f"{place} is for {name}, and no build file compiles it: the recipe has no {name}"
        for name, place in found.items()
        if place
    ]
    if option and not device.cuda_place:
        notes.append(
            f"{option.place}: the option {option.text} is off, so the recipe has no CUDA; for CUDA, set it "
            f'(wheel.config-settings or CMAKE_ARGS: {option.text}=ON), matrix.cuda and builder.toolkit = "cuda"'
        )
    if device.cuda and (static := project.cmake.static_cuda):
        notes.append(
            f"{static.place} links {static.text}, and NVIDIA's wheels have no static libraries: the compile fails unless the "
            'base is an image with CUDA (builder.toolkit = "image"), or CMake links the shared library'
        )
    notes += [
        f"{place} imports {name}, which the project does not require: the test loads the shared objects, and imports nothing; "
        "for that, add a wheel of it to test.requirements, and the module to test.imports"
        for name, place in project.companions
    ]
    if (
        device.framework == "torch"
        and (place := project.built.type_dispatch)
        and facts.number(facts.minor(device.releases[0])) >= (2, 6)
    ):
        notes.append(
            f"{place} gives AT_DISPATCH a tensor's type(), which torch 2.6 and newer refuse: the source must call scalar_type()"
        )
    if libraries := project.built_libraries:
        notes.append(
            f"{libraries[0]} and {len(libraries) - 1} more shared objects were built before: the wheel takes them as they "
            "are, and the audit refuses machine code in a wheel that is for any platform; build them from their source"
        )
    return notes


def _title(project: Project, device: Device) -> str:
    languages = [label for key, label in TABLES["titles"].items() if project.language(key)]
    if "C++" in languages or "CUDA" in languages:
        languages = [label for label in languages if label != "C"]
    packages, includes = project.cmake.packages, project.sources.includes
    libraries = {
        "torch": device.framework == "torch",
        "XLA's FFI": device.framework == "jax",
        "nanobind": includes("nanobind/") or packages.get("nanobind"),
        "pybind11": includes("pybind11/") or packages.get("pybind11"),
    }
    tools = " and ".join(label for label, place in libraries.items() if place)
    kind = ", ".join(languages[:3]) or _without_language(project)
    backend = project.metadata.backend
    known = backend.text if re.fullmatch(r"[\w.-]{1,60}", backend.text) else "its own backend"
    return f"{kind}{' with ' if tools else ''}{tools}, built by {known} ({backend.place})"


def _without_language(project: Project) -> str:
    """Return how to call a project whose build shows no language."""
    if project.is_compiled_later:
        what = "CUDA" if project.sources.languages.get("cuda") else "sources"
        return f"Python, and {what} for run time"
    if project.is_native:
        return "an extension"
    return "Python, and libraries that are built already" if project.built_libraries else "Python only"


def _name(draft: Draft, project: Project) -> None:
    declared = project.metadata.name
    for text, reason in ((declared.text if declared else "", ""), (project.label, "guess: the name of the folder")):
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
        plain = f"py-{plain}" if plain[:1].isdigit() else plain
        if names.RECIPE.match(plain) and not names.is_device(plain):
            draft.set("name", plain, reason)
            return
    draft.set("name", "project", "guess: write the name of the project")


def _single_python(project: Project) -> str:
    """Return why one wheel serves all Pythons; empty if each Python has its own."""
    metadata = project.metadata
    for fact in (
        metadata.pyproject.fact("tool", "scikit-build", "wheel", "py-api"),
        metadata.pyproject.fact("tool", "maturin", "bindings"),
    ):
        if fact and fact.text in ("py3", "py2.py3", "bin", "cffi", "uniffi"):
            return f"one wheel for every Python ({fact.place})"
    is_native = (
        project.language("c", "cxx", "cuda", "fortran", "cython", "rust")
        or (project.is_native and not project.is_compiled_later)
        or (metadata.needs("cffi") or metadata.needs("mypy"))
    )
    return "" if is_native else "guess: nothing here is compiled, so one wheel serves every Python"


def _pythons(draft: Draft, project: Project, device: Device) -> None:
    """Set the Pythons: those of the base that the project supports."""
    supported, reasons = _supported(draft, project, device)
    fitting = [python for python in supported if python in device.pythons]
    if fitting:
        supported = fitting
        reasons.append(f"{device.framework} {device.releases[0]}")
    single = _single_python(project)
    if single:
        # The newest may be of a release of Debian that is not out yet.
        plain = [python for python in supported if not python.endswith("t")] or supported
        supported = [next((python for python in ("3.13", "3.12", "3.11") if python in plain), plain[-1])]
    reason = ", ".join((project.base.label, *reasons)) if reasons else "guess: the project names no Python"
    draft.set("matrix.python", supported, single or reason)


def _supported(draft: Draft, project: Project, device: Device) -> tuple[list[str], list[str]]:
    """Return the base's Pythons that the project supports, and where it says so.

    Raises:
        PlanError: there is none.
    """
    required, supported = project.metadata.requires_python, [*project.base.pythons, *project.base.free_threaded]
    supported.sort(key=lambda python: (_number(python), python))
    if required is None:
        return _narrowed(draft, project, device, supported, [])
    try:
        # Longer ones have numbers that Python refuses to convert.
        specifiers = SpecifierSet(required.text if len(required.text) <= LONGEST_SPECIFIER else "?")
    except InvalidSpecifier:
        draft.notes.append(f"{required.place}: requires-python cannot be read")
        return _narrowed(draft, project, device, supported, [])
    # A minor version stands for its newest release.
    supported = [python for python in supported if specifiers.contains(f"{python.rstrip('t')}.99")]
    if not any(python in supported for python in project.base.pythons):
        raise PlanError(
            f"base {project.base.label} has none of the Pythons that the project supports",
            hint=f"it has {', '.join(project.base.pythons)}; name another one: wheel-bakery init --base BASE",
            details=[f"{required.place}: requires-python {required.text[:80]}"],
        )
    return _narrowed(draft, project, device, supported, [f"requires-python ({required.place})"])


def _narrowed(
    draft: Draft, project: Project, device: Device, supported: list[str], reasons: list[str]
) -> tuple[list[str], list[str]]:
    """Return the Pythons that other settings of the project select, too; free-threaded ones only if they name them."""
    carried, classifiers, every = project.cibuildwheel, project.metadata.classifiers, supported
    supported = [python for python in every if not python.endswith("t")]
    if carried and any(item.build or item.skip for item in carried.selections):
        tags = _tags(draft, project)
        selected = [python for python in every if carried.selects(python, tags)]
        missing = [python for python in carried.named if python not in selected]
        _name_missing(draft, project, every, missing, carried.selected_at)
        if selected:
            return selected, [*reasons, f"build and skip ({carried.selected_at})"]
        what = f"build and skip of cibuildwheel ({carried.selected_at})"
        draft.rest.append(Rest(what, f"they select none of the wheels that the base builds: {', '.join(tags)}"))
    elif "python" in project.axes and not _is_only_tested(project):
        values, place = project.axes["python"]
        _name_missing(draft, project, every, [python for python in values if python not in every], place)
        if selected := [python for python in every if python in values]:
            return selected, [*reasons, str(place)]
    elif classifiers and not device.framework:
        # Those of extensions of a framework are older than its releases, which decide.
        numbers = sorted(_number(fact.text) for fact in classifiers)
        selected = [python for python in supported if numbers[0] <= _number(python) <= numbers[-1]]
        if selected and selected != supported:
            return selected, [*reasons, f"classifiers ({classifiers[0].place})"]
    return supported, reasons


def _is_only_tested(project: Project) -> bool:
    """Whether cibuildwheel builds the wheels, and the matrix is that of a job that does not run it."""
    workflow = project.workflow
    is_built = project.cibuildwheel or (workflow and workflow.is_by_cibuildwheel is not None)
    is_of_job = bool(workflow) and not (project.bake_file and project.bake_file.axes)
    return bool(is_built and is_of_job and workflow and not workflow.is_by_cibuildwheel)


def _tags(draft: Draft, project: Project) -> list[str]:
    """Return the tags of the recipe's platforms, as cibuildwheel's identifiers have them."""
    policy = "musllinux" if "musllinux" in str(project.base.value) else "manylinux"
    platforms = draft.texts("platforms") or ["linux/amd64"]
    return [f"{policy}_{MACHINES[platform]}" for platform in platforms]


def _name_missing(draft: Draft, project: Project, every: list[str], missing: list[str], place: object) -> None:
    """List the Pythons that settings name and the recipe does not have, each with the reason."""
    there = (*project.base.pythons, *project.base.free_threaded)
    for reason, pythons in (
        ("not in the base", [python for python in missing if python not in there]),
        ("requires-python leaves it out", [python for python in missing if python in there and python not in every]),
        ("for no platform of the recipe", [python for python in missing if python in every]),
    ):
        if pythons:
            draft.rest.append(Rest(f"Python {', '.join(pythons)} ({place})", reason))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version)[:3])


def _test(draft: Draft, project: Project, device: Device) -> None:
    """Set what is imported, and what the import needs that the wheel does not bundle."""
    if device.cuda:
        _libraries(draft, project, device)
    if project.modules and not project.companions:
        modules = [fact.text for fact in project.modules]
        draft.set("test.imports", modules, f"guess: {project.modules[0].place}", optional=True)


def _libraries(draft: Draft, project: Project, device: Device) -> None:
    """Require the libraries of CUDA that are not bundled: in the wheel, if neither a framework nor the project does."""
    major = int(device.cuda[0].partition(".")[0])
    components = device.libraries
    brought = frameworks()[device.framework].brings if device.framework else ()
    rows = [row for row in facts.components() if major in row.majors and row.name in components]
    rows = [row for row in rows if row.name not in brought]
    extras = ",".join(sorted({"cudart", *(extra for row in rows for extra in row.extras)} - {*brought}))
    separate = [*dict.fromkeys(row.package for row in rows if row.package)]
    is_stated = any(fact.text.startswith(("nvidia-", "cuda-")) for fact in project.metadata.dependencies)
    is_required = bool(components) and not device.framework and not is_stated
    # The framework pins the release of the libraries that it brings, and others fit to it.
    release = "" if brought else "==${CUDA_MAJOR}.*" if is_required else "==${CUDA_VERSION}"
    if libraries := [*([f"cuda-toolkit[{extras}]{release}"] if extras else ()), *separate]:
        path = "wheel.requires" if is_required else "test.requirements"
        draft.set(path, libraries, "the libraries that are not bundled")
    if device.framework or not (is_required or (is_stated and not project.cmake.rpath)):
        return
    settings = project.cibuildwheel.values if project.cibuildwheel else {}
    stated, _ = settings.get("builder.environment", ({}, ""))
    has_flags = isinstance(stated, dict) and "LDFLAGS" in stated
    # From a module in the folder of its package. A package of its own, such as nvidia-nccl-cu13, has a folder of its own.
    folders = ["cu13/lib", *(f"{package.split('-')[1]}/lib" for package in separate)]
    rpaths = [f"$ORIGIN/../nvidia/{name}" for name in folders]
    source = "wheel.requires" if is_required else "the project's dependencies"
    reason = f"the loader finds the libraries of {source}"
    if major > 12 and project.metadata.backend.text == "setuptools" and not project.cmake.file and not has_flags:
        # setuptools gives the flags to the linker as they are; of CMake's, a shell would replace $ORIGIN.
        flags = " ".join(f"-Wl,-rpath,{path}" for path in rpaths)
        draft.extend("builder.environment", {"LDFLAGS": flags}, reason)
        return
    if major > 12 and project.metadata.backend.text == "scikit-build-core":
        draft.extend("wheel.config-settings", {"cmake.define.CMAKE_INSTALL_RPATH": ";".join(rpaths)}, reason)
        if not project.cmake.rpath:
            return
    # Wheels for CUDA 12 have a folder for each library.
    where = " and ".join(rpaths) if major > 12 else "$ORIGIN/../nvidia/NAME/lib"
    other = f" ({project.cmake.rpath} may set another)" if project.cmake.rpath else ""
    draft.notes.append(
        f"the libraries of CUDA come with {source}, and the loader does not search there: the package "
        f"must load them before its own modules, or link with the rpath {where}{other}"
    )


def _own_tests(draft: Draft, project: Project, device: Device) -> None:
    """Set the project's own tests, unless cibuildwheel's settings have a command."""
    tests, pyproject = project.tests, project.metadata.pyproject
    root = ("tool", "cibuildwheel")
    if tests is None or any(pyproject.get(*path, "test-command") for path in (root, (*root, "linux"))):
        return
    draft.rest += tests.rest
    if not tests.command:
        return
    if device.cuda or tests.uses_gpu or project.sources.languages.get("cuda"):
        draft.rest.append(Rest(f"the tests ({tests.place})", "they may need a GPU; see test.gpu"))
        return
    for place, required in groupby(tests.requirements, lambda fact: fact.place):
        draft.extend("test.requirements", [fact.text for fact in required], str(place), optional=True)
    draft.extend("test.files", tests.files, "", optional=True)
    draft.set("test.command", tests.command, f"guess: {tests.place}", optional=True)


def _carry(draft: Draft, project: Project) -> None:
    """Add what cibuildwheel's settings have, and list the rest: of them, of the bake file, and of a workflow."""
    carried = project.cibuildwheel
    draft.rest += [item for other in (carried, project.bake_file, project.workflow) if other for item in other.rest]
    for key, (value, place) in carried.values.items() if carried else ():
        is_test = key.startswith("test.")
        if isinstance(value, list) or (isinstance(value, dict) and key != "wheel.repair"):
            draft.extend(key, value, str(place), optional=is_test)
        elif key not in draft.entries:
            draft.set(key, value, str(place), optional=is_test)
        elif value is False:
            draft.rest.append(Rest(f"an empty repair-wheel-command ({place})", "the audit expects repaired wheels"))
