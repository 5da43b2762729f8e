"""Real projects: each is baked from what ``wheel-bakery init`` wrote, and compared with the wheel of ``pip wheel``.

They are source archives of the package index, and the test packages of build backends, where ``BAKERY_TEST_PACKAGES``
names a folder that has them.

``python tests/engine/real_projects.py [--no-test] RESULTS.json [NAME...]`` measures them; results that the file has are
kept.
``python tests/engine/real_projects_page.py`` writes their tables into docs/real-projects.md.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

import gpu_checks
from beside_pip import LIMIT_S, pip_wheel
from command import Done, bakery, shell
from gpu_checks import CHECKS
from wheel_differences import differences, read

from bakery.engine import debian_rootfs
from bakery.engine.discover import find
from bakery.toolchains.programs.packages import sdist
from bakery.toolchains.programs.packages.unpack import unpack

LIST = Path(__file__).with_suffix(".toml")
PYTHONS = ("3.11", "3.13", "3.14", "3.9")
"""The first of them that the recipe has is measured."""

GIT_SOURCES = "BAKERY_GIT_SOURCES"
"""The variable that names a folder with git repositories, as OWNER/NAME: what CMake would download from GitHub."""

PACKAGES = "BAKERY_TEST_PACKAGES"
"""The variable that names a folder with a folder of test packages for each backend."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project of the list.

    Attributes:
        version: of the source archive; empty for a test package.
        kinds: what it stands for.
        edits: text of the written recipe → its replacement, each of them one edit.
        isolated: whether pip makes an environment for the build; a project that imports torch in its setup.py without
            naming it is built by pip only in an environment that has torch.
        environment: assignments before the command of pip.
        git: whether it is built from a checkout with a tag; a source archive is without, unless the list says so.
        folder: of a test package.
    """

    name: str
    version: str = ""
    kinds: tuple[str, ...] = ()
    edits: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    isolated: bool = True
    environment: str = ""
    git: bool = False
    folder: Path | None = None

    @property
    def key(self) -> str:
        """Its name in the results."""
        return f"{self.name} (git)" if self.git and not self.folder else self.name


@dataclass(slots=True)
class Result:
    """What was found; empty texts and None for what was not reached.

    Attributes:
        pip_refused: why pip builds no wheel; ``refused``: why bakery builds none.
        differences: how the wheel differs from that of pip.
    """

    name: str
    version: str
    kinds: tuple[str, ...]
    python: str = ""
    lines: int = 0
    edits: int = 0
    why: str = ""
    pip_refused: str = ""
    wheel: str = ""
    differences: list[str] | None = None
    tested: str = ""
    refused: str = ""


def _listed() -> dict[str, Any]:
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def projects() -> dict[str, Project]:
    """Return the projects of the package index by key: source archives, and some of them as checkouts, too."""
    listed = _listed()
    archives = [Project(**{**item, "kinds": tuple(item["kinds"])}) for item in listed["project"]]
    checkouts = [replace(item, git=True) for item in archives if item.name in listed["checkouts"]]
    return {item.key: item for item in (*archives, *checkouts)}


@dataclass(frozen=True, slots=True)
class CudaProject:
    """A CUDA project of the list.

    Attributes:
        upstream: what its own workflow sets.
        needed: what a first recipe needs that is not in every one.
        verdict: on the recipe as `init` writes it: ``right`` or ``said``.
        has: dotted key → its value in the recipe; an empty text for a key that must be absent.
        says: a part of what `init` says.
        baked: whether it is baked for one GPU, audited and tested.
        ran: what its wheel computed on a GPU, compared with what.
    """

    name: str
    version: str
    kind: str
    upstream: str
    needed: str
    verdict: str
    has: Mapping[str, object]
    says: str = ""
    baked: bool = False
    ran: str = ""


ONE_CUDA_CELL = {"python": "3.12", "torch": "2.11.0", "cuda": "13.0.3"}
"""Axis → the one value for which CUDA projects are baked: they share the layer of torch, and the GPU machine has it, too."""


def cuda_projects() -> dict[str, CudaProject]:
    """Return the CUDA projects by name."""
    return {item["name"]: CudaProject(**item) for item in _listed()["cuda"]}


def told(project: CudaProject, scratch: Path) -> tuple[dict[str, object], str]:
    """Fetch a CUDA project and let ``init`` write its recipe; return the keys of ``has`` in it, and what ``init`` said."""
    folder = fetch(Project(project.name, project.version), scratch)
    done = attempt(folder, "init", "--yes", "--base", "manylinux_2_28")
    recipe = tomllib.loads((folder / "bakery.toml").read_text(encoding="utf-8")) if done.code == 0 else {}
    found: dict[str, object] = {}
    for key in project.has:
        table, _, name = key.partition(".")
        found[key] = recipe.get(table, {}).get(name, "")
    return found, done.out + done.err


def bake_cuda(
    project: CudaProject,
    base: str,
    scratch: Path,
    command: str = "full",
    prepare: Callable[[Path], None] | None = None,
    edits: Mapping[str, str] = MappingProxyType({}),
) -> Done:
    """Fetch a CUDA project, narrow the matrix of its written recipe to one cell for H100, and bake it.

    `gpu-test` runs the check of the project, if there is one, on a machine with a GPU.

    Args:
        prepare: changes the fetched files.
        edits: text of the written recipe → its replacement.
    """
    folder = fetch(Project(project.name, project.version), scratch)
    if prepare:
        prepare(folder)
    begun = attempt(folder, "init", "--yes", "--base", base)
    if begun.code:
        return begun
    file = folder / "bakery.toml"
    recipe = file.read_text(encoding="utf-8")
    # An image is for one platform.
    recipe = re.sub(r"(?m)^platforms = .*", 'platforms = ["linux/amd64"]', recipe)
    for text, other in edits.items():
        assert recipe.count(text) == 1, text
        recipe = recipe.replace(text, other)
    for axis, value in ONE_CUDA_CELL.items():
        recipe = re.sub(rf"(?m)^((?:matrix\.)?{axis} = )\[.*?\]", rf'\1["{value}"]', recipe)
    if project.name in CHECKS:
        shutil.copyfile(gpu_checks.__file__, folder / "gpu_checks.py")
        checked = {"gpu": "true", "files": '["gpu_checks.py"]', "command": f'"python gpu_checks.py {project.name}"'}
        # The table of the test is the last one, if the recipe has tables.
        has_tables = "[builder]\n" in recipe
        head = ["[test]"] if has_tables and "[test]\n" not in recipe else []
        lines = [f"{'' if has_tables else 'test.'}{key} = {value}" for key, value in checked.items()]
        recipe = "\n".join([recipe.rstrip("\n"), *head, *lines, ""])
    file.write_text(recipe, encoding="utf-8")
    archs = re.search(r'(?m)^(?:variables\.)?CUDA_ARCHS = "([^"]*)"', recipe)
    narrowed = ["--set", f"CUDA_ARCHS={'9.0' if '.' in archs[1] else '90'}"] if archs else []
    (chosen,) = native_cells(folder)
    return attempt(folder, command, "--only", chosen["id"], *narrowed)


OFFLINE_CUFINUFFT = {
    "network = true  # guess: cmake/setupCCCL.cmake:5 downloads CCCL\n": "",
    '"cmake.define.CMAKE_CUDA_ARCHITECTURES" = "all"': '"cmake.define.CMAKE_CUDA_ARCHITECTURES" = "90", '
    '"cmake.define.CPM_SOURCE_CACHE" = "/src/third_party", "cmake.define.CPM_CCCL_SOURCE" = "/src/third_party/cccl"',
}
"""What changes in the recipe of cufinufft if its archive holds what CMake would download."""


def add_downloads_of_cufinufft(folder: Path) -> None:
    """Put CPM and CCCL beside the source, from the repositories in `GIT_SOURCES`."""
    sources, kept = Path(os.environ[GIT_SOURCES]), folder / "third_party"
    script = ["git", "-C", str(sources / "cpm-cmake" / "CPM.cmake"), "show", "v0.42.0:cmake/CPM.cmake"]
    text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    (kept / "cpm").mkdir(parents=True)
    # The name that the project's setupCPM.cmake looks for.
    (kept / "cpm" / "CPM_0.42.0.cmake").write_text(text)
    (kept / "cccl").mkdir()
    parts = ["CMakeLists.txt", "cmake", "lib", "cub", "libcudacxx", "thrust"]
    archive = ["git", "-C", str(sources / "NVIDIA" / "cccl"), "archive", "v3.0.2", *parts]
    packed = subprocess.run(archive, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(kept / "cccl")], input=packed, check=True)


def keep_one_file_of_flash_attn(folder: Path) -> None:
    """Leave one kernel of 73 in setup.py, and a module without functions; the kernel is in no compiler cache."""
    file = folder / "setup.py"
    (folder / "module.cpp").write_text("#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n")
    kernel = "csrc/flash_attn/src/flash_fwd_hdim128_bf16_causal_sm80.cu"
    with (folder / kernel).open("a") as source:
        source.write(f"\nstatic const int made_{uuid.uuid4().hex} = 1;\n")
    sources = f'sources=["module.cpp", "{kernel}"],'
    text, count = re.subn(
        r'(?s)sources=\[\s+"csrc/flash_attn/flash_api.cpp",.*?\],', sources, file.read_text(), count=1
    )
    assert count == 1
    file.write_text(text)


def backend_packages() -> dict[str, Project]:
    """Return the test packages of build backends by key, if their folder is there."""
    if not os.environ.get(PACKAGES):
        return {}
    known = {item["name"]: item for item in _listed()["package"]}
    found = [path for path in sorted(Path(os.environ[PACKAGES]).glob("*/*")) if path.is_dir()]
    names = {f"{path.parent.name}/{path.name}": path for path in found}
    return {
        name: Project(**{"name": name, "kinds": (path.parent.name,), **known.get(name, {})}, git=True, folder=path)
        for name, path in names.items()
    }


def why_different(project: str, difference: str) -> str:
    """Return why a wheel may differ so from that of pip; empty if nothing says so."""
    return _why("difference", project, difference)


def why_refused(project: str, refused: str) -> str:
    """Return why bakery refuses what pip builds; empty if nothing says so."""
    return _why("refusal", project, refused)


def _why(table: str, project: str, told: str) -> str:
    for item in _listed()[table]:
        if re.search(item["text"], told) and project in item.get("projects", [project]):
            return str(item["why"])
    return ""


def fetch(project: Project, folder: Path) -> Path:
    """Put the source of a project below a folder, as a person has it; nothing of it is run."""
    # The name of a folder is a guess that init makes.
    home = folder / Path(project.name).name
    if project.folder:
        shutil.copytree(project.folder, home, symlinks=True)
    else:
        index = sdist.pip_config("index-url") or sdist.default_index()
        entry = sdist.find(index, project.name, project.version)
        archive = folder / entry.filename
        sdist.fetch(entry, index, str(archive))
        unpack(str(archive), str(folder / "unpacked"))
        archive.unlink()
        (found,) = (folder / "unpacked").iterdir()
        found.rename(home)
    if project.git:
        _commit(project, home)
    return home


def _commit(project: Project, home: Path) -> None:
    # Of an archive, what its build wrote is no part of the checkout.
    for path in [] if project.folder else [home / "PKG-INFO", *home.rglob("*.egg-info")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    who = ("-c", "user.name=Tests", "-c", "user.email=tests@example.com")
    shell(os.environ, "git", "init", "--quiet", cwd=home)
    # Of a test package, also files that it ignores are tracked.
    shell(os.environ, "git", "add", "--all", *["--force"] * bool(project.folder), cwd=home)
    shell(os.environ, "git", *who, "commit", "--quiet", "--message=All of it", cwd=home)
    shell(os.environ, "git", *who, "tag", f"v{project.version or '0.0.1'}", cwd=home)


def write_recipe(project: Project, folder: Path) -> Done:
    """Write the recipe as ``init`` does, then the edits; return how ``init`` ended.

    Where it refuses, the recipe is for the image of pip alone.
    """
    done = attempt(folder, "init", "--yes", "--base", "debian")
    file = folder / "bakery.toml"
    text = 'name = "refused"\n\n[builder]\nbase = "debian"\n' if done.code else file.read_text(encoding="utf-8")
    for old, new in project.edits.items():
        assert text.count(old) == 1, f"{project.key}: the recipe has no longer {old!r}\n{text}"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return done


def only_imports(folder: Path) -> None:
    """Leave the project's own tests, which may take minutes, out of its recipe."""
    file = folder / "bakery.toml"
    head, mark, test = file.read_text(encoding="utf-8").partition("[test]\n")
    file.write_text(head + mark + re.sub(r"(?m)^(command|files|requirements) = .*\n", "", test), encoding="utf-8")


def cell(folder: Path) -> dict[str, Any]:
    """Return the cell that is measured: of this machine, with the first of the Pythons that the recipe has."""
    ranked = {item["axes"]["python"]: item for item in reversed(native_cells(folder))}
    return next(ranked[python] for python in PYTHONS if python in ranked)


def native_cells(folder: Path) -> list[dict[str, Any]]:
    """Return the cells that this machine bakes without emulation."""
    (plan,) = json.loads(bakery(folder, "plan", "--json").out)["recipes"]
    return [item for item in plan["cells"] if item["platform_by"] == "native" and item["backend"] == "bake"]


def measure(project: Project, environment: Mapping[str, str], scratch: Path, *, tests: bool = True) -> Result:
    """Fetch, ``init``, ``pip wheel``, bake with audit, compare, test; what is refused is in the result.

    Args:
        tests: whether the wheel is installed and imported, too; never that of a test package.
    """
    result = Result(project.key, project.version, project.kinds, edits=len(project.edits), why=project.why)
    source = fetch(project, scratch)
    folder = scratch / "baked" / source.name
    shutil.copytree(source, folder, symlinks=True)
    begun = write_recipe(project, folder)
    result.lines = sum(1 for line in (folder / "bakery.toml").read_text().splitlines() if line.strip())
    chosen = cell(folder)
    result.python = chosen["axes"]["python"]
    for name in chosen["images"]:
        suite = name.removeprefix("debian:").removesuffix("-slim")
        debian_rootfs.ensure_debian(environment, suite, "amd64", name, print)
    # Generated files are not in the folder that is baked: setuptools takes a folder that it finds for a package.
    image = scratch / "image" / source.name
    shutil.copytree(folder, image, symlinks=True)
    theirs = None
    try:
        theirs = pip_wheel(
            source,
            image,
            chosen,
            environment,
            scratch / "by-pip",
            isolated=project.isolated,
            variables=project.environment,
        )
    except RuntimeError as error:
        result.pip_refused = str(error)
    built = begun if begun.code else attempt(folder, "wheel", "--only", chosen["id"])
    if built.code:
        result.refused = cause(built).replace(str(folder), ".")
        return result
    (wheel,) = built.wheels
    result.wheel = wheel.name
    if theirs:
        result.differences = differences(read(theirs), read(wheel))
    if tests and not project.folder:
        only_imports(folder)
        tested = attempt(folder, "full", "--only", chosen["id"])
        result.tested = "imported" if tested.code == 0 else cause(tested)
    return result


def attempt(folder: Path, *words: str) -> Done:
    """Run a command of bakery that may fail."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bakery", *words],
        cwd=folder,
        env={**os.environ, "BAKERY_PROGRESS": "plain", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(folder, 0, done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def cause(done: Done) -> str:
    """Return what a failed command says of the cause, and what to do."""
    lines = [line.strip() for line in done.err.splitlines() if line.strip()]
    last = max((number for number, line in enumerate(lines) if line.startswith("bake: ")), default=len(lines) - 3)
    told = [line for line in lines[last:] if not line.startswith("→ the whole log")]
    return re.sub(r"; the whole log: \S+", "", " / ".join([told[0], *told[-2:]] if len(told) > 2 else told))[:400]


def measure_all(results: Path, names: list[str], *, tests: bool) -> None:
    """Measure the named projects, or those without a result, and write the results after each."""
    environment = {**os.environ, **find().environment}
    known: dict[str, Any] = json.loads(results.read_text())["projects"] if results.exists() else {}
    for project in {**projects(), **backend_packages()}.values():
        if project.key not in names if names else project.key in known:
            continue
        with tempfile.TemporaryDirectory(prefix="bakery-real-") as scratch:
            result = measure(project, environment, Path(scratch), tests=tests)
        known[project.key] = {key: value for key, value in asdict(result).items() if value not in ("", None)}
        known[project.key]["on"] = datetime.now(UTC).date().isoformat()
        told = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "projects": known}
        results.write_text(json.dumps(told, indent=1) + "\n")
        print(json.dumps(known[project.key]), flush=True)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--no-test"]
    measure_all(Path(words[0]), words[1:], tests="--no-test" not in sys.argv)
