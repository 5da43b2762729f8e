"""The tables [builder] and [wheel] of a draft."""

from __future__ import annotations

from bakery.init.bases import DEFAULT
from bakery.init.device import Device
from bakery.init.findings import is_requirement, plain, requirement_name
from bakery.init.project import Project
from bakery.init.read_native import BUILDER
from bakery.init.stable_abi import one_wheel
from bakery.init.tree import TABLES
from bakery.init.write import Draft
from bakery.resolve.device_promises import torch_list
from bakery.resolve.rules.subject import ARCH_LISTS
from bakery.toolchains import facts

_PACKAGES = "builder.system-packages"
_LIBRARY = {
    "cusparselt": "libcusparseLt.so.*",
    "nvjitlink": "libnvJitLink.so.*",
    "nvml": "libnvidia-ml.so.*",
}
"""Component of CUDA → its library, if that has another name."""

_UNSTABLE = ("torch/extension.h", "torch/all.h", "torch/torch.h", "torch/library.h", "ATen/", "c10/")
"""Headers of torch that have no stable ABI."""

_TORCH_LIST = "TORCH_CUDA_ARCH_LIST"


def set_builder(draft: Draft, project: Project, device: Device) -> None:
    """Set the base, what it gets, and the environment."""
    other = '"debian" for machines that reach no image registry' if project.base.value == DEFAULT else ""
    draft.set("builder.base", project.base.value, other)
    if device.framework:
        draft.set(f"matrix.{device.framework}", list(device.releases), device.releases_reason)
        draft.set("builder.framework", device.framework, str(device.framework_place))
    if device.cuda:
        draft.set("matrix.cuda", list(device.cuda), device.cuda_reason)
        draft.set("builder.toolkit", "cuda", str(device.cuda_place))
        _architectures(draft, project, device)
        if device.framework == "torch":
            # A kernel of flash-attn takes 5 GB (tests/engine/test_real_cuda_projects.py); its workflow runs at most 2 in 16 GB.
            memory = "8 GB" if project.built.includes("cutlass/", "cute/") else "4 GB"
            draft.set("builder.job-memory", memory, "guess: of one nvcc", optional=True)
        # The option decides, and the backend of the project can be given it.
        if (option := project.cmake.cuda_option) and project.metadata.backend.text == "scikit-build-core":
            draft.extend("wheel.config-settings", {f"cmake.define.{option.text}": "ON"}, f"{option.place}: it is off")
    if device.components:
        places = ", ".join(str(place) for _, place in device.components[:2])
        draft.set("builder.components", [name for name, _ in device.components], places)
    _requirements(draft, project, device)
    _system_packages(draft, project)
    _network(draft, project)
    for name, place in project.metadata.setup.strings.items():
        # Some would download a finished wheel, as flash-attn and its relatives do.
        if name.endswith("_FORCE_BUILD"):
            draft.extend("builder.environment", {name: "TRUE"}, f"guess: {place}: compile, and download no wheel")
    _version(draft, project)


def _requirements(draft: Draft, project: Project, device: Device) -> None:
    """Add what the build backend requests when it runs, and what a setup.py without [build-system] imports."""
    metadata, setup, key = project.metadata, project.metadata.setup, "builder.requirements"
    backend, cmake = metadata.backend.text, project.cmake

    def add(requirements: list[str], reason: str) -> None:
        missing = [text for text in requirements if not metadata.needs(requirement_name(text)) and is_requirement(text)]
        draft.extend(
            key,
            [
                f"cmake>={cmake.minimum.text}" if cmake.minimum and text.startswith("cmake") else text
                for text in missing
            ],
            reason,
        )

    add(TABLES["requests"].get(backend, "").split(), f"{backend} requests them when it runs")
    if metadata.is_legacy:
        add(["setuptools", "wheel"], "no [build-system] names them")
    draft.extend(
        key, [text for text, _ in setup.keywords.get("setup_requires", ()) if is_requirement(text)], "setup_requires"
    )
    if metadata.is_legacy:
        draft.extend(
            key,
            [name for module, name in TABLES["imports"].items() if module in setup.imports],
            "setup.py imports them",
        )
    if "cmake" in setup.strings or ("skbuild" in setup.imports and cmake.file):
        add(["cmake>=3.15", "ninja"], "guess: setup.py runs CMake")
    # With the requirements that it states, pip builds a project that tries to import Cython without it.
    is_optional = "Cython" in setup.optional and "Cython" not in setup.imports and not metadata.is_legacy
    if project.sources.uncompiled and "cython" not in draft.texts(key) and not is_optional:
        add(["cython"], f"guess: {project.sources.uncompiled}")
    if device.framework == "torch" and "torch" in setup.imports:
        add(["ninja"], "torch compiles in parallel with it")


def _system_packages(draft: Draft, project: Project) -> None:
    """Add the packages with headers of libraries, and compilers that the base lacks."""
    manager, cmake, meson, setup = project.base.manager, project.cmake, project.meson, project.metadata.setup
    if not manager:
        return
    cargo = project.cargo

    def add(row: facts.rows.Package | None, reason: str) -> None:
        # Every builder has git and the headers of C.
        is_there = row is None or {"git", "libc"}.intersection(row.names)
        package = "" if is_there or row is None else row.apt if manager == "apt" else row.dnf
        draft.extend(_PACKAGES, [package] if package else [], reason)

    # A header that a build system looks for is not certain to be used; without one, includes are all there is.
    for header, place in (
        () if (cmake.file or meson.file or project.is_compiled_later) else project.sources.absent.items()
    ):
        add(facts.package_with(header), f"guess: {place}")
    for name, place in (*cmake.packages.items(), *meson.packages.items(), *setup.libraries):
        add(facts.package_of(name), f"guess: {place}")
    openssl = cargo.openssl if cargo and project.rust() else None
    if openssl:
        add(facts.package_of("openssl"), f"guess: {openssl}")
    if pkg_config := openssl or cmake.pkg_config or meson.pkg_config or setup.strings.get("pkg-config"):
        add(facts.package_of("pkg-config"), str(pkg_config))
    if fortran := project.language("fortran"):
        add(facts.package_of("gfortran"), str(fortran))


def _network(draft: Draft, project: Project) -> None:
    """Allow the network for builds that download while they run."""
    downloads = project.cmake.downloads or project.meson.downloads
    if rust := project.rust():
        draft.set("builder.rust", "auto", str(rust))
    if rust and not (project.cargo and project.cargo.is_locked):
        draft.set("builder.network", True, "no Cargo.lock: cargo chooses crates while it compiles")
    elif downloads:
        name = downloads.text if plain(downloads.text) else "a source"
        draft.set("builder.network", True, f"guess: {downloads.place} downloads {name[:30]}")


def _architectures(draft: Draft, project: Project, device: Device) -> None:
    """Set the GPUs to compile for."""
    carried = project.axes.get("archs")
    setup, settings = project.metadata.setup, project.cibuildwheel.values if project.cibuildwheel else {}
    force = next((name for name in setup.strings if name.startswith("FORCE_CUDA")), "")
    if any(key.endswith(ARCH_LISTS) for value, _ in settings.values() if isinstance(value, dict) for key in value):
        # They are carried over, and a second list would be another one.
        return
    if device.framework == "torch" and force:
        draft.extend("builder.environment", {force: "1"}, f"{setup.strings[force]}: compile without a GPU")
    elif device.framework == "torch" and setup.needs_gpu and "TORCH_CUDA_ARCH_LIST" not in setup.strings:
        draft.notes.append(
            f"{setup.needs_gpu} asks torch for a GPU, and a build has none: if no variable of the project forces CUDA, its wheel "
            "has no code for GPUs, and the audit refuses it; let setup.py look at TORCH_CUDA_ARCH_LIST, too"
        )
    own = next(iter(setup.archs), "")
    if own:
        default = setup.archs[own].text
        separator = next((char for char in ";, " if char in default), ";")
        variable, value = own, separator.join(("8.0", "9.0") if "." in default else ("80", "90"))
    elif device.framework == "torch":
        if not project.built.languages.get("cuda") and "CUDAExtension" not in setup.extensions:
            # It calls CUDA's libraries, and has no code for GPUs of its own.
            return
        flags = project.known.build_files.gpu_flags
        fixed = flags.code(device.cuda[0])
        if flags.place:
            what = "the list in the recipe is theirs" if fixed else "the recipe has no list"
            draft.notes.append(
                f"{flags.place} names GPUs in flags for nvcc, so torch ignores TORCH_CUDA_ARCH_LIST: {what}"
            )
        if fixed:
            draft.extend("builder.environment", {_TORCH_LIST: torch_list(fixed)}, f"the GPUs from {flags.place} on")
        if flags.place:
            return
        variable, value = _TORCH_LIST, "8.0;9.0+PTX"
    elif project.cmake.file:
        variable, value = "CUDAARCHS", "80;90"
    else:
        return
    reason = "guess: A100, H100, and PTX for newer ones" if "PTX" in value else "guess: A100 and H100"
    if carried and ("." in carried[0][0]) == ("." in value):
        value, reason = carried[0][0], str(carried[1])
    draft.set("variables.CUDA_ARCHS", value, reason)
    draft.extend("builder.environment", {variable: "${CUDA_ARCHS}"}, "")


def _version(draft: Draft, project: Project) -> None:
    """Say where the version comes from that a tool reads from git: the build asks the same git, so no key is needed."""
    tool = project.metadata.version_tool
    if tool is None:
        return
    who = f"{tool.text} ({tool.place})"
    if project.is_checkout:
        newest = f"the newest is {project.release}" if project.release else "no tag names a release yet"
        draft.notes.append(f"{who} reads the version from git's tags, in the build as in the checkout; {newest}")
        return
    variable = TABLES["version-tools"][tool.text]
    other = f', or set {variable} in builder.environment: {{ {variable} = "1.0" }}' if variable else ""
    draft.notes.append(f"{who} reads the version from git, and this folder is no git checkout: build in one{other}")


def set_wheel(draft: Draft, project: Project, device: Device) -> None:
    """Set the stable ABI, and the libraries that are not bundled."""
    shared = one_wheel(project.metadata, project.meson, project.cargo)
    if shared and shared.text == "py3":
        draft.set("wheel.py3", True, str(shared.place))
    elif shared and (served := [item for item in draft.texts("matrix.python") if _minor(item) >= _minor(shared.text)]):
        # The tag that meson-python writes has the Python that builds, not limited_api.
        by_builder = shared is project.meson.abi3 or shared.text == BUILDER
        draft.set("wheel.abi3", min(served, key=_minor).rstrip("t") if by_builder else shared.text, str(shared.place))
    if device.framework == "torch" and (abi := project.metadata.setup.torch_abi or project.cmake.torch_abi):
        if unstable := project.cmake.torch_abi and project.built.includes(*_UNSTABLE):
            draft.notes.append(
                f"{abi.place} is for the stable ABI of torch {abi.text}, and {unstable} for one release of torch: if no module "
                f'of the wheel has the latter, set wheel.torch-abi = "{abi.text}"'
            )
        else:
            draft.set("wheel.torch-abi", abi.text, str(abi.place))
    excluded = ["libtorch*.so", "libc10*.so"] if device.framework == "torch" else []
    if device.cuda:
        excluded += [
            "libcudart.so.*",
            "libcuda.so.*",
            *(_LIBRARY.get(name, f"lib{name}*.so.*") for name in device.libraries),
        ]
    carried = project.cibuildwheel.values.get("wheel.repair") if project.cibuildwheel else None
    repair = dict(carried[0]) if carried and isinstance(carried[0], dict) else {}
    if excluded:
        excluded += [item for item in repair.get("exclude", ()) if item not in excluded]
        reason = "users have these" + (f"; {carried[1]}" if carried else "")
        draft.set("wheel.repair", {**repair, "exclude": excluded}, reason)


def _minor(python: str) -> int:
    return int(python.rpartition(".")[2].rstrip("t"))
