"""``pip wheel`` of a project, in the image that bakery builds it in."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from command import bakery

from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.package_index import configured

LIMIT_S = 3600

_NOTHING = "status 'error'|subprocess-exited"
"""Lines of pip that do not say why."""

_BY_PIP = """
FROM {stage} AS pip
{args}
RUN --mount=type=bind,from=tools,source=/system,target=/programs \\
    --mount=type=secret,id=ca-bundle --mount=type=secret,id=pip-conf --mount=type=cache,id=bakery-pip,target=/root/.cache/pip \\
    {make}

FROM pip AS by-pip
ARG FRESH
RUN --mount=type=bind,from=tools,source=/system,target=/programs --mount=type=bind,from=checkout,target=/src,rw \\
    --mount=type=secret,id=ca-bundle --mount=type=secret,id=pip-conf --mount=type=cache,id=bakery-pip,target=/root/.cache/pip \\
    {environment} /programs/net {python} -m pip wheel --no-deps {options} -w /by-pip /src && echo "$FRESH"

FROM scratch AS wheel-by-pip
COPY --from=by-pip /by-pip/ /
"""


def pip_wheel(
    source: Path,
    folder: Path,
    cell: Mapping[str, Any],
    environment: Mapping[str, str],
    out: Path,
    *,
    isolated: bool = True,
    variables: str = "",
) -> Path:
    """Build the wheel with pip, from the builder's own image; return its path.

    Args:
        source: the project as a person has it, with its repository if it has one.
        folder: a copy with a recipe; its generated Dockerfile has the image.
        cell: what is built, as ``plan --json`` says.
        environment: reaches the engine.
        out: a folder for the wheel.
        isolated: whether pip makes an environment for the build; see ``Project``.
        variables: assignments before the command.

    Raises:
        RuntimeError: pip cannot; with the line that says why.
    """
    bakery(folder, "generate")
    (dockerfile,) = (folder / "dockerfiles").glob("*.Dockerfile")
    text = dockerfile.read_text(encoding="utf-8")
    python, make = "/opt/venv/bin/python", "true"
    if isolated:
        python = "/pip/bin/python"
        make = '"$(/programs/find-python "$WANTED")" -m venv /pip && /programs/net /pip/bin/python -m pip install -q -U pip'
    stages = _BY_PIP.format(
        stage="builder-system" if isolated else "builder",
        args="\n".join(f"ARG {name}" for name in ("WANTED", *cell["args"])),
        make=make,
        python=python,
        options="" if isolated else "--no-build-isolation",
        environment=variables,
    )
    own = folder / "dockerfiles" / "by-pip.Dockerfile"
    own.write_text(text + stages, encoding="utf-8")
    Path(f"{own}.dockerignore").write_text(Path(f"{dockerfile}.dockerignore").read_text())
    # A wheel of the stable ABI is built by the lowest Python of its cells.
    wanted = cell["args"].get("WHEEL_PYTHON", cell["axes"]["python"])
    given = {**cell["args"], "WANTED": wanted, "FRESH": str(time.time_ns())}
    words = ["docker", "buildx", "build", "--progress=plain", f"--output=type=local,dest={out}", f"--file={own}"]
    words += [f"--build-context=checkout={source}", "--target=wheel-by-pip"]
    words += [f"--build-arg={name}={value}" for name, value in given.items()]
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
    if done.returncode:
        raise RuntimeError(_why(done.stderr))
    (wheel,) = out.glob("*.whl")
    return wheel


def _why(log: str) -> str:
    said = [line for line in re.findall(r"(?m)^(?:#\d+ [\d.]+\s+)+(.*)$", log) if not re.search(_NOTHING, line)]
    lines = [line for line in said if re.search(r"(?i)\b(error:|not found|no such)", line)]
    return (lines[0] if lines else (said or [log])[-1]).strip()[:200]
