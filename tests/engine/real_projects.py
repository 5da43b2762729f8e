"""Real projects of the package index: each is baked from what ``wheel-bakery init`` wrote, next to ``pip wheel``.

``python tests/engine/real_projects.py RESULTS.json [NAME...]`` measures them; results that the file has are kept.
``python tests/engine/real_projects.py --write RESULTS.json`` writes their table into docs/real-projects.md.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from command import ROOT, Done, bakery

from bakery.engine import debian_rootfs
from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.discover import find
from bakery.engine.package_index import configured
from bakery.toolchains.programs.packages import sdist
from bakery.toolchains.programs.packages.unpack import unpack

LIST = Path(__file__).with_suffix(".toml")
PYTHONS = ("3.11", "3.13", "3.14")
"""The first of them that the recipe has is measured."""

LIMIT_S = 3600

PAGE = ROOT / "docs" / "real-projects.md"
BEGIN, END = "<!-- results -->", "<!-- end -->"
RESULTS = ROOT / "tests" / "data" / "real_projects.json"
"""What was measured last."""

_NOTHING = "status 'error'|subprocess-exited"
"""Lines of pip that do not say why."""

_BY_PIP = """
FROM {stage} AS by-pip
{args}
ARG FRESH
RUN --mount=type=bind,from=tools,source=/net,target=/usr/local/bin/net \\
    --mount=type=bind,from=tools,source=/find-python,target=/usr/local/bin/find-python \\
    --mount=type=bind,source=.,target=/src,rw --mount=type=secret,id=ca-bundle --mount=type=secret,id=pip-conf \\
    {make} && began=$(date +%s%N) && {environment} net {python} -m pip wheel --no-deps {options} -w /by-pip /src && \\
    echo "by pip: $((($(date +%s%N) - began) / 1000000)) ms" "$FRESH"
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A project of the list.

    Attributes:
        kinds: what it stands for.
        edits: text of the written recipe → its replacement, each of them one edit.
        isolated: whether pip makes an environment for the build; a project that imports torch in its setup.py without
            naming it is built by pip only in an environment that has torch.
    """

    name: str
    version: str
    kinds: tuple[str, ...]
    edits: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    isolated: bool = True
    environment: str = ""


@dataclass(slots=True)
class Result:
    """What was measured; empty texts and None for what was not reached."""

    name: str
    version: str
    kinds: tuple[str, ...]
    python: str = ""
    lines: int = 0
    edits: int = 0
    why: str = ""
    pip_s: float | None = None
    pip_refused: str = ""
    bakery_s: float | None = None
    wheel: str = ""
    audit: str = ""
    tested: str = ""
    refused: str = ""


def projects() -> dict[str, Project]:
    """Return the projects by name."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))["project"]
    return {item["name"]: Project(**{**item, "kinds": tuple(item["kinds"])}) for item in tables}


def fetch(project: Project, folder: Path) -> Path:
    """Unpack the source archive of the package index below a folder; nothing of it is run."""
    index = sdist.pip_config("index-url") or sdist.default_index()
    entry = sdist.find(index, project.name, project.version)
    archive = folder / entry.filename
    sdist.fetch(entry, index, str(archive))
    unpack(str(archive), str(folder / "unpacked"))
    archive.unlink()
    (found,) = (folder / "unpacked").iterdir()
    # The name of a folder is a guess that init makes.
    return found.rename(folder / project.name)


def recipe(project: Project, folder: Path) -> str:
    """Write the recipe as ``init`` does, then the edits; return its text."""
    bakery(folder, "init", "--yes", "--base", "debian")
    file = folder / "bakery.toml"
    text = file.read_text(encoding="utf-8")
    for old, new in project.edits.items():
        assert text.count(old) == 1, f"{project.name}: the recipe has no longer {old!r}\n{text}"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return text


def only_imports(folder: Path) -> None:
    """Leave the project's own tests, which may take minutes, out of its recipe."""
    file = folder / "bakery.toml"
    head, mark, test = file.read_text(encoding="utf-8").partition("[test]\n")
    file.write_text(head + mark + re.sub(r"(?m)^(command|files|requirements) = .*\n", "", test), encoding="utf-8")


def cell(folder: Path) -> dict[str, Any]:
    """Return the cell that is measured: of this machine, with the first of the Pythons that the recipe has."""
    (plan,) = json.loads(bakery(folder, "plan", "--json").out)["recipes"]
    cells = [item for item in plan["cells"] if item["platform_by"] == "native" and item["backend"] == "bake"]
    ranked = {item["axes"]["python"]: item for item in reversed(cells)}
    return next(ranked[python] for python in PYTHONS if python in ranked)


def pip_wheel(project: Project, folder: Path, cell: Mapping[str, Any], environment: Mapping[str, str]) -> float:
    """Build the wheel with pip, from the builder's own image, without caches; return its seconds.

    Raises:
        RuntimeError: pip cannot; with the line that says why.
    """
    bakery(folder, "generate")
    (dockerfile,) = (folder / "dockerfiles").glob("*.Dockerfile")
    text = dockerfile.read_text(encoding="utf-8")
    python, make = "/opt/venv/bin/python", "true"
    if project.isolated:
        python = "/pip/bin/python"
        make = '"$(find-python "$WANTED")" -m venv /pip && net /pip/bin/python -m pip install -q -U pip'
    stage = _BY_PIP.format(
        stage="builder-system" if project.isolated else "builder",
        args="\n".join(f"ARG {name}" for name in ("WANTED", *cell["args"])),
        make=make,
        python=python,
        options="" if project.isolated else "--no-build-isolation",
        environment=project.environment,
    )
    own = folder / "dockerfiles" / "by-pip.Dockerfile"
    own.write_text(text + stage, encoding="utf-8")
    Path(f"{own}.dockerignore").write_text(Path(f"{dockerfile}.dockerignore").read_text())
    # A wheel of the stable ABI is built by the lowest Python of its cells.
    wanted = cell["args"].get("WHEEL_PYTHON", cell["axes"]["python"])
    given = {**cell["args"], "WANTED": wanted, "FRESH": str(time.time_ns())}
    words = ["docker", "buildx", "build", "--progress=plain", "--output=type=cacheonly", f"--file={own}"]
    words += ["--target=by-pip", *(f"--build-arg={name}={value}" for name, value in given.items())]
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(configured().pip_conf())
        conf.flush()
        words.append(f"--secret=id=pip-conf,src={conf.name}")
        if bundle := find_ca_bundle(None, os.environ):
            words.append(f"--secret=id=ca-bundle,src={bundle}")
        done = subprocess.run(
            [*words, str(folder)],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    own.unlink()
    found = re.search(r"by pip: (\d+) ms", done.stderr.partition("by-pip 1/1")[2])
    if done.returncode == 0 and found:
        return int(found[1]) / 1000
    said = [line for line in re.findall(r"(?m)^#\d+ [\d.]+\s+(.*)$", done.stderr) if not re.search(_NOTHING, line)]
    lines = [line for line in said if re.search(r"(?i)\b(error:|not found|no such)", line)]
    raise RuntimeError((lines[0] if lines else (said or [done.stderr])[-1]).strip()[:200])


def measure(project: Project, environment: Mapping[str, str], scratch: Path) -> Result:
    """Fetch, ``init``, ``pip wheel``, bake with audit, test; what is refused is in the result."""
    result = Result(project.name, project.version, project.kinds, edits=len(project.edits), why=project.why)
    folder = fetch(project, scratch)
    text = recipe(project, folder)
    result.lines = sum(1 for line in text.splitlines() if line.strip())
    chosen = cell(folder)
    result.python = chosen["axes"]["python"]
    for image in chosen["images"]:
        suite = image.removeprefix("debian:").removesuffix("-slim")
        debian_rootfs.ensure_debian(environment, suite, "amd64", image, print)
    try:
        result.pip_s = pip_wheel(project, folder, chosen, environment)
    except RuntimeError as error:
        result.pip_refused = str(error)
    built = attempt(folder, "wheel", "--only", chosen["id"])
    if built.code:
        result.refused = reason(built)
        return result
    result.bakery_s = round(built.seconds, 1)
    (wheel,) = built.wheels
    result.wheel = wheel.name
    (report,) = json.loads(bakery(folder, "audit", str(wheel), "--json").out)
    result.audit = "ok" if report["ok"] else "failed"
    only_imports(folder)
    tested = attempt(folder, "full", "--only", chosen["id"])
    result.tested = "imported" if tested.code == 0 else reason(tested)
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


def reason(done: Done) -> str:
    """Return what a failed command says of the cause, and what to do."""
    lines = [line.strip() for line in done.err.splitlines() if line.strip()]
    last = max((number for number, line in enumerate(lines) if line.startswith("bake: ")), default=len(lines) - 3)
    told = [line for line in lines[last:] if not line.startswith("→ the whole log")]
    return re.sub(r"; the whole log: \S+", "", " / ".join([told[0], *told[-2:]] if len(told) > 2 else told))[:400]


def measure_all(results: Path, names: list[str]) -> None:
    """Measure the named projects, or those without a result, and write the results after each."""
    environment = {**os.environ, **find().environment}
    known: dict[str, Any] = json.loads(results.read_text())["projects"] if results.exists() else {}
    for project in projects().values():
        if project.name not in names if names else project.name in known:
            continue
        with tempfile.TemporaryDirectory(prefix="bakery-real-") as scratch:
            result = measure(project, environment, Path(scratch))
        known[project.name] = {key: value for key, value in asdict(result).items() if value not in ("", None)}
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        told = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "projects": known}
        results.write_text(json.dumps(told, indent=1) + "\n")
        print(json.dumps(known[project.name]), flush=True)


def table(told: Mapping[str, Any]) -> str:
    """Return the table of the documentation."""
    rows = ["| project | kind | Python | recipe | edits | pip | bakery | tested |", "|---|---|---|--:|---|--:|--:|---|"]
    listed = [told["projects"][name] for name in projects() if name in told["projects"]]
    for item in listed:
        pip = f"{item['pip_s']:.0f} s" if "pip_s" in item else "fails"
        ours = f"{item['bakery_s']:.0f} s" if "bakery_s" in item else "refused"
        edits = f"{item['edits']}: {item['why']}" if item["edits"] else "0"
        first = [f"{item['name']} {item['version']}", ", ".join(item["kinds"]), item["python"], str(item["lines"])]
        rows.append(f"| {' | '.join([*first, edits, pip, ours, item.get('tested', '')])} |")
    missing = ", ".join(name for name in projects() if name not in told["projects"])
    rows += ["", f"In the list, and not measured: {missing}."] if missing else []
    refused = [
        f"- {item['name']}: {who}: {item[key]}"
        for item in listed
        for who, key in (("pip wheel", "pip_refused"), ("bakery", "refused"))
        if item.get(key)
    ]
    said = ["", "What was refused, and why:", "", *refused] if refused else []
    return "\n".join([f"Measured on {told['date']}: {told['machine']}.", "", *rows, *said]) + "\n"


def write(told: Mapping[str, Any], page: str) -> str:
    """Return the page with the table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(told)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        PAGE.write_text(write(json.loads(Path(sys.argv[2]).read_text()), PAGE.read_text()))
    else:
        measure_all(Path(sys.argv[1]), sys.argv[2:])
