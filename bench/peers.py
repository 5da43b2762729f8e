"""Bakery beside its peers: one project in one image, from the first run to one changed line.

The peers are cibuildwheel, and a bake file as people write it: a Dockerfile that copies the source and calls pip, and a
target for each Python. Every tool has its own copy of the project; a base of its own keeps out layers, downloads and
objects of earlier runs. ``compile`` is the time that bakery's compile steps take with an empty compiler cache, beside
the same command in the same container without bakery; both with the start of the container.

``--short`` is for projects that compile for long: only the cases with a bar, without the naive bake, and cibuildwheel runs
once, as it compiles everything each time. The compile steps alone are those of one Python.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from first_run import FRESH, fresh_image, unpacked
from timing import BAKERY, ROOT, Call, Row, seconds, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from cibuildwheel_image import can_be_made, make_image
from command import shell

from bakery.engine import debian_rootfs
from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.discover import find
from bakery.runs.cibuildwheel.run import Host, create_args
from bakery.runs.run_folders import kept_runs, state_folder

PYTHONS = ("3.11", "3.13")
ADDED = "a Python added"
CASES = ("first run", "nothing changed", "one file changed", "a header changed", ADDED)


@dataclass(frozen=True)
class Project:
    """A source archive, or a folder of this repository, and what the tools are told about it.

    Attributes:
        source: a file to change; ``header``: one that several files include; paths in its folder.
        recipe: lines of the recipe.
        setup: what the peers run in the container first.
        variables: of the peers' builds.
        exclude: libraries that auditwheel leaves out.
        requirement: of the test.
        added: a Python for the case in which one is added; "" if the wheel of another Python serves it, too.
    """

    origin: str
    module: str
    source: str
    header: str
    bars: Mapping[str, float]
    recipe: str = ""
    setup: str = "true"
    variables: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    requirement: str = ""
    added: str = "3.12"

    @property
    def name(self) -> str:
        """The name of the recipe."""
        return self.module.replace("_", "-")

    @property
    def repair(self) -> str:
        """The words after ``auditwheel repair``."""
        return "".join(f"--exclude {name} " for name in self.exclude)


PROJECTS = {
    "ujson": Project(
        "ujson==6.1.0",
        "ujson",
        "src/ujson/dconv_wrapper.cc",
        "src/ujson/deps/double-conversion/double-conversion/utils.h",
        {"first run": 1.2, "one file changed": 0.2, "nothing changed": 0.05},
    ),
    "rapidfuzz": Project(
        "rapidfuzz==3.14.6",
        "rapidfuzz",
        "src/rapidfuzz/utils.cpp",
        "src/rapidfuzz/cpp_common.hpp",
        {"first run": 0.9, "one file changed": 0.25, "nothing changed": 0.005},
    ),
}
COMPILE_BAR = 1.05

CUDA = "13.0.3"
PROJECTS["cuda"] = Project(
    "examples/cuda",
    "bakery_example_cuda",
    "src/kernels.cu",
    "src/kernels.hpp",
    {},
    recipe=f"""\
variables.CUDA_VERSION = "{CUDA}"
variables.CUDA_ARCHS = "80;90"
builder.toolkit = "cuda"
builder.environment = {{ CUDAARCHS = "${{CUDA_ARCHS}}" }}
wheel.repair.exclude = ["libcudart.so.*", "libcuda.so.*"]
test.requirements = ["cuda-toolkit[cudart]==${{CUDA_VERSION}}"]
""",
    # What a maintainer does without a CUDA image: NVIDIA's wheels, arranged as nvcc's folder.
    setup=f"/opt/python/cp311-cp311/bin/python -m pip install --quiet --target /opt/cuda "
    f"'cuda-toolkit[nvcc,cudart,crt,nvvm,cccl]=={CUDA}' && ln -s /opt/cuda/nvidia/cu13 /usr/local/cuda && "
    "ln -s lib /usr/local/cuda/lib64 && ln -s libcudart.so.13 /usr/local/cuda/lib/libcudart.so",
    variables={"CUDACXX": "/usr/local/cuda/bin/nvcc", "CUDAToolkit_ROOT": "/usr/local/cuda", "CUDAARCHS": "80;90"},
    exclude=("libcudart.so.*", "libcuda.so.*"),
    requirement=f"cuda-toolkit[cudart]=={CUDA}",
    added="",
)


class Bakery:
    """``wheel-bakery full`` with a recipe of four lines."""

    name = "bakery"

    def __init__(self, folder: Path, project: Project) -> None:
        self.folder = folder
        self.project = project

    def run(self, pythons: tuple[str, ...], *words: str) -> float:
        (self.folder / "bakery.toml").write_text(
            f'name = "{self.project.name}"\nmatrix.python = {list(pythons)}\n'.replace("'", '"')
            + f'builder.base = {{ image = "{FRESH}" }}\ntest.imports = ["{self.project.module}"]\n{self.project.recipe}'
        )
        return seconds(Call([*BAKERY, "full", "--progress", "quiet", *words], self.folder)) or 0.0

    def compile_seconds(self) -> float:
        """Return how long the compile steps of the last run took."""
        logs = kept_runs(state_folder(self.folder, os.environ))[0].glob("logs/wheel-*.log")
        pattern = re.compile(r"(?ms)^# \[compile .*?^# done in ([0-9.]+) s$")
        return sum(float(text) for log in logs for text in pattern.findall(log.read_text()))


class Cibuildwheel:
    """cibuildwheel with the same image, Pythons and test."""

    name = "cibuildwheel"

    def __init__(self, folder: Path, project: Project, environment: Mapping[str, str], arguments: str) -> None:
        self.folder = folder
        self.environment = {
            **environment,
            "CIBW_ARCHS": "x86_64",
            "CIBW_MANYLINUX_X86_64_IMAGE": FRESH,
            "CIBW_BEFORE_ALL": project.setup,
            "CIBW_ENVIRONMENT": " ".join(f'{name}="{value}"' for name, value in project.variables.items()),
            "CIBW_REPAIR_WHEEL_COMMAND": f"auditwheel repair {project.repair}-w {{dest_dir}} {{wheel}}",
            # Its audit of wheels for the stable ABI downloads virtualenv from GitHub.
            "CIBW_AUDIT_COMMAND": "",
            "CIBW_TEST_REQUIRES": project.requirement,
            "CIBW_TEST_COMMAND": f"python -c 'import {project.module}'",
            # The package index of this machine, as bakery gives it to the same containers.
            "CIBW_CONTAINER_ENGINE": f"docker; create_args: {arguments}",
        }

    def run(self, pythons: tuple[str, ...]) -> float:
        build = {"CIBW_BUILD": " ".join(f"cp{python.replace('.', '')}-manylinux_x86_64" for python in pythons)}
        words = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--output-dir", f"{self.folder}.wheels"]
        return seconds(Call([*words, str(self.folder)], self.folder.parent, {**self.environment, **build})) or 0.0


class NaiveBake:
    """A bake file with one target for each Python, whose only cache is that of layers."""

    name = "naive bake"

    _DOCKERFILE = """\
FROM {image}
ARG TAG
RUN {secrets} {setup}
WORKDIR /src
COPY . .
RUN {secrets} {variables} \\
    /opt/python/$TAG/bin/python -m pip wheel --no-deps -w /built . && auditwheel repair {repair}-w /wheels /built/*.whl
RUN {secrets} /opt/python/$TAG/bin/python -m pip install /wheels/*.whl {requirement} && cd / && \\
    /opt/python/$TAG/bin/python -c 'import {module}'
FROM scratch
COPY --from=0 /wheels/ /
"""

    def __init__(
        self, folder: Path, project: Project, environment: Mapping[str, str], files: Mapping[str, Path]
    ) -> None:
        self.folder = folder
        self.environment = environment
        self.files = files
        secrets = "--mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca,target=/tmp/ca.pem"
        if "ca" in files:
            secrets += " export SSL_CERT_FILE=/tmp/ca.pem PIP_CERT=/tmp/ca.pem;"
        text = self._DOCKERFILE.format(
            image=FRESH,
            module=project.module,
            secrets=secrets,
            setup=project.setup,
            variables=" ".join(f"{name}='{value}'" for name, value in project.variables.items()),
            repair=project.repair,
            requirement=f"'{project.requirement}'" if project.requirement else "",
        )
        (folder / "Dockerfile").write_text(text)

    def run(self, pythons: tuple[str, ...]) -> float:
        secrets = ", ".join(f'"id={name},src={path}"' for name, path in self.files.items())
        targets = [f"cp{python.replace('.', '')}" for python in pythons]
        file = f'group "default" {{\n  targets = {targets}\n}}\n'.replace("'", '"')
        for tag in targets:
            file += (
                f'target "{tag}" {{\n  args = {{ TAG = "{tag}-{tag}" }}\n  secret = [{secrets}]\n'
                f'  output = ["type=local,dest={self.folder}.wheels/{tag}"]\n}}\n'
            )
        path = Path(f"{self.folder}.hcl")
        path.write_text(file)
        words = ["docker", "buildx", "bake", "-f", str(path), "--progress=quiet"]
        # The files are the machine's own, and the wheels go beside the project.
        environment = {**self.environment, "BUILDX_BAKE_ENTITLEMENTS_FS": "0"}
        return seconds(Call(words, self.folder, environment)) or 0.0


def changed(path: Path, text: str) -> None:
    """Append a declaration that every C and C++ compiler takes, so that the file compiles to something else."""
    with path.open("a") as file:
        file.write(f"\n{text}\n")


def compile_times(
    environment: Mapping[str, str], source: Path, project: Project, folder: Path, pythons: tuple[str, ...]
) -> tuple[float, float]:
    """Return the seconds of the compile steps with an empty compiler cache, and of the same builds without bakery.

    One Python after the other, both in the builder's container.
    """
    shutil.copytree(source, folder)
    bakery = Bakery(folder, project)
    bakery.run(pythons, "--max-parallel", "1")
    own = bakery.compile_seconds()
    subprocess.run([*BAKERY, "dev", "--progress", "quiet"], cwd=folder, check=True)
    bare = 0.0
    for python in pythons:
        image = f"{project.name}:dev-cp{python.replace('.', '')}"
        command = [
            "python",
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--skip-dependency-check",
            "--outdir",
            "/tmp/out",
            "/workspace",
        ]
        words = ["docker", "run", "--rm", "--network=none", "-e", "SKBUILD_BUILD_DIR=/tmp/build", image]
        bare += seconds(Call([*words, *command], folder, environment)) or 0.0
        shell(environment, "docker", "rmi", "--force", image)
    return own, bare


def measure(name: str, options: argparse.Namespace, environment: dict[str, str], image: str, scratch: Path) -> int:
    """Print the table of one project; return 1 if a bar is missed."""
    project, times = PROJECTS[name], options.times
    own = ROOT / project.origin
    source = own if own.is_dir() else unpacked(project.origin, scratch / name)
    host = Host(environment, find_ca_bundle(None, os.environ))
    arguments = create_args(scratch, host)
    config = scratch / "stage" / "pip.conf"
    files = {"pip": config} if config.exists() else {}
    files |= {"ca": host.ca_bundle} if host.ca_bundle else {}
    taken: dict[tuple[str, str], list[float]] = {}
    compiled: list[tuple[float, float]] = []
    cases = [case for case in CASES if case in project.bars or not options.short]
    cases = [case for case in cases if project.added or case != ADDED]
    for number in range(times):
        (scratch / "fresh").mkdir(exist_ok=True)
        fresh_image(environment, image, scratch / "fresh", number)
        folders = [scratch / f"{name}-{number}-{tool}" for tool in ("bakery", "cibuildwheel", "naive")]
        for folder in folders:
            shutil.copytree(source, folder)
        bakery = Bakery(folders[0], project)
        tools = (
            bakery,
            Cibuildwheel(folders[1], project, environment, " ".join(arguments)),
            NaiveBake(folders[2], project, environment, files),
        )[: 2 if options.short else 3]
        for tool in tools:
            pythons: tuple[str, ...] = PYTHONS
            for case in cases:
                if case == "one file changed":
                    changed(tool.folder / project.source, f"extern int bench_source_{number};")
                    changed(
                        tool.folder / project.source, f"static int bench_{number} __attribute__((used)) = {number};"
                    )
                elif case == "a header changed":
                    changed(tool.folder / project.header, f"extern int bench_header_{number};")
                elif case == ADDED:
                    pythons = (*PYTHONS, project.added)
                runs = taken.setdefault((case, tool.name), [])
                if options.short and tool.name == Cibuildwheel.name and case != "first run":
                    runs += taken["first run", tool.name][-1:]
                else:
                    runs.append(tool.run(pythons))
        alone = PYTHONS[:1] if options.short else PYTHONS
        compiled.append(compile_times(environment, source, project, scratch / f"{name}-{number}-compile", alone))
        shell(environment, "docker", "rmi", "--force", FRESH)
    rows = rows_of(project, taken, compiled)
    then = f", then {project.added}" if project.added else ""
    return table(f"{project.origin}, Pythons {' and '.join(PYTHONS)}{then} (median of {times})", rows)


def rows_of(
    project: Project,
    taken: Mapping[tuple[str, str], list[float]],
    compiled: list[tuple[float, float]],
) -> list[Row]:
    """Return the rows of a project from what was measured: (case, tool) → seconds, and the seconds of `compile_times`."""
    medians = {key: statistics.median(values) for key, values in taken.items()}
    rows = []
    for case in dict.fromkeys(case for case, _ in medians):
        for tool in (Cibuildwheel.name, NaiveBake.name):
            if (case, tool) in medians:
                rows.append(Row(f"{case}: {tool}", f"{medians[case, tool]:.2f} s"))
        own, peer = medians[case, Bakery.name], medians[case, Cibuildwheel.name]
        bar = project.bars.get(case)
        verdict = (f"≤ {bar:g} of cibuildwheel", own <= bar * peer) if bar else ("", True)
        rows.append(Row(f"{case}: bakery", f"{own:.2f} s ({own / peer:.3f})", *verdict))
    if compiled:
        own, bare = (statistics.median(pair[place] for pair in compiled) for place in (0, 1))
        rows.append(Row("compile: bare", f"{bare:.2f} s"))
        verdict = (f"≤ {COMPILE_BAR:g} of bare", own <= COMPILE_BAR * bare)
        rows.append(Row("compile: bakery", f"{own:.2f} s ({own / bare:.3f})", *verdict))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", nargs="*", default=["ujson"], help=f"of {', '.join(PROJECTS)}")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="only cases with a bar")
    options = parser.parse_args()
    if not can_be_made():
        print("peers: skipped; the image is made of pyenv's Pythons")
        return 0
    environment = {**os.environ, **find().environment}
    debian_rootfs.ensure_debian(environment, "bookworm", "amd64", "debian:bookworm-slim", print)
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as folder:
        scratch = Path(folder)
        (scratch / "context").mkdir()
        image = make_image(environment, scratch / "context")
        codes = [measure(name, options, environment, image, scratch) for name in options.projects]
        shell(environment, "docker", "rmi", "--force", image)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
