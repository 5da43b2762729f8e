"""Files of a checkout that lead elsewhere, or have no end: links at every level, hard links, pipes, sockets, devices."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from wheels import write_wheel

from ways import RECIPE, RUN, Scene, way

SOURCE_THERE = 'name = "demo"\nsource = { path = "there" }\n'


@way("files")
def link_in_place_of_runs(s: Scene) -> None:
    """Old runs are removed, new ones written, below ``.bakery/runs``."""
    s.link(".bakery/runs", s.victim / "runs")


@way("files")
def link_in_place_of_lock_folder(s: Scene) -> None:
    """Old folders of ``.bakery/lock`` were removed."""
    s.link(".bakery/lock", s.victim / "runs")


@way("files")
def link_in_place_of_cache(s: Scene) -> None:
    """The layer cache of a recipe is below ``.bakery/cache``."""
    s.link(".bakery/cache", s.victim / "runs")


@way("files")
def hard_link_to_a_private_file(s: Scene) -> None:
    """A file that Bakery writes in place would change the victim's."""
    for name in (".bakery/.gitignore", "bake/demo.hcl", "dockerfiles/demo.Dockerfile", "out.json"):
        (s.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(s.victim / "shared", s.checkout / name)


@way("files")
def folder_of_bakery_is_a_link(s: Scene) -> None:
    """``.bakery`` itself leads to the victim."""
    s.link(f"{s.project('bakery_link')}/.bakery", s.victim / "runs")


@way("files")
def gitignore_of_bakery_is_a_link(s: Scene) -> None:
    """``.bakery/.gitignore`` is written in every project."""
    s.link(f"{s.project('gitignore_link')}/.bakery/.gitignore", s.victim / "shared")


@way("files")
def output_folder_is_a_link(s: Scene) -> None:
    """Wheels are published to ``dist``."""
    s.link(f"{s.project('dist_link')}/dist", s.victim / "runs")


@way("files")
def folder_of_records_is_a_link(s: Scene) -> None:
    """Provenance is written to ``dist/.provenance``."""
    s.link(f"{s.project('records_link')}/dist/.provenance", s.victim / "runs")


@way("files")
def wheel_in_output_is_a_link(s: Scene) -> None:
    """The wheel that is published has this name."""
    s.link(f"{s.project('wheel_link')}/dist/demo-1.0-py3-none-any.whl", s.victim / "shared")


@way("files")
def lock_file_is_a_link(s: Scene) -> None:
    """``bakery.lock`` is read, shown in a diff, and written."""
    s.link(f"{s.project('lock_link')}/bakery.lock", s.key)


@way("files")
def recipe_is_a_link(s: Scene) -> None:
    """Errors show lines of the recipe: here, of a private key."""
    folder = s.project("recipe_link")
    (s.checkout / folder / "bakery.toml").unlink()
    s.link(f"{folder}/bakery.toml", s.key)


@way("files")
def pyproject_is_a_link(s: Scene) -> None:
    """Errors of TOML show what they did not expect."""
    folder = s.project("pyproject_link")
    (s.checkout / folder / "pyproject.toml").unlink()
    s.link(f"{folder}/pyproject.toml", s.key)


@way("files")
def generated_folders_are_links(s: Scene) -> None:
    """``generate`` writes below ``bake`` and ``dockerfiles``."""
    s.link(f"{s.project('bake_link')}/bake", s.victim / "runs")
    s.link(f"{s.project('dockerfiles_link')}/dockerfiles", s.victim / "runs")
    s.link(f"{s.project('bin_link')}/dockerfiles/bin", s.victim / "runs")


@way("files")
def workflow_is_a_link(s: Scene) -> None:
    """A workflow is written to the top of the repository, outside the project."""
    s.link(".github/workflows", s.victim / "runs")
    s.project("workflow_link", RECIPE + "[ci]\n")


@way("files")
def written_files_are_dangling_links(s: Scene) -> None:
    """A link to nothing does not exist, but what is written there does."""
    folder = s.project("dangling")
    for name in ("bakery.lock", "bake/demo.hcl", "dockerfiles/demo.Dockerfile", "trace.json", "dist/variants", "site"):
        s.link(f"{folder}/{name}", s.victim / "runs" / "pwned-new")


@way("files")
def new_recipe_is_a_dangling_link(s: Scene) -> None:
    """``init`` overwrites nothing, and nothing is there."""
    folder = s.project("init_link")
    (s.checkout / folder / "bakery.toml").unlink()
    s.link(f"{folder}/bakery.toml", s.victim / "pwned.toml")


@way("files")
def results_are_links(s: Scene) -> None:
    """Default places of results: the index, variants, the folder for another machine."""
    write_wheel(s.folder("dist"), "py3-none-any", {"demo.py": b""})
    s.link("site", s.victim / "runs")
    s.link("dist/variants", s.victim / "runs")
    s.link("gpu", s.victim / "runs")


@way("files")
def files_of_the_page_are_links(s: Scene) -> None:
    """A page of a run is written, logs are read into it."""
    folder = f"{s.project('page_link')}/.bakery/runs/{RUN}"
    s.write(f"{folder}/report.json", json.dumps({"recipe": "demo", "targets": [], "failures": [], "seconds": 1}))
    s.link(f"{folder}/report.html", s.victim / "shared")
    s.link(f"{folder}/logs", s.key.parent)


@way("files")
def links_in_the_source(s: Scene) -> None:
    """What links name is read into the build context, or into its hash."""
    for name, target in {
        "key": s.key,
        "home": s.victim / "home",
        "zero": "/dev/zero",
        "environ": "/proc/self/environ",
    }.items():
        s.link(f"src/{name}", target)
    s.link("README.md", s.key)
    folder = s.project("license")
    s.link(f"{folder}/LICENSE", os.path.relpath(s.key, s.checkout / folder))


@way("files")
def loop_of_links(s: Scene) -> None:
    """A walk that follows them has no end."""
    s.link("src/loop/again", "..")
    s.link("src/self", "self")


@way("files")
def pipes_and_sockets(s: Scene) -> None:
    """Opening a pipe waits for a writer."""
    for name in ("src/pipe", "README.rst", "setup.cfg.pipe", ".bakery/pipe", "dist/pipe-1.0-py3-none-any.whl"):
        (s.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(s.checkout / name)
    # The names of sockets are short.
    with socket.socket(socket.AF_UNIX) as server, tempfile.TemporaryDirectory() as folder:
        server.bind(f"{folder}/s")
        Path(folder, "s").rename(s.checkout / "src" / "socket")


@way("files")
def pipes_in_place_of_what_is_read(s: Scene) -> None:
    """The files that every command reads have no end."""
    for name in (
        "pyproject.toml",
        "bakery.toml",
        "bakery.lock",
        ".dockerignore",
        "setup.cfg",
        "setup.py",
        "Cargo.lock",
    ):
        folder = s.project(f"pipe_{name.strip('.').replace('.', '_')}")
        (s.checkout / folder / name).unlink(missing_ok=True)
        os.mkfifo(s.checkout / folder / name)


@way("files")
def files_of_terabytes(s: Scene) -> None:
    """Sparse files cost nothing until they are read."""
    for name in ("pyproject.toml", "bakery.toml", "bakery.lock", ".dockerignore", ".gitignore", "setup.cfg"):
        folder = s.repository(f"sparse_{name.strip('.').replace('.', '_')}")
        with (s.checkout / folder / name).open("wb") as file:
            file.truncate(1 << 40)
    for name in ("dist/sparse-1.0-py3-none-any.whl", "evil/sparse.mlir", "evil/sparse.json"):
        with s.write(name, "").open("r+b") as file:
            file.truncate(1 << 40)


@way("files")
def devices(s: Scene) -> None:
    """Root can make devices that never end."""
    if os.geteuid() == 0:
        with suppress(PermissionError):
            os.mknod(s.checkout / "src" / "device", 0o666 | 0o020000, os.makedev(1, 5))


@way("files")
def files_of_the_test_are_links(s: Scene) -> None:
    """``test.files`` are copied for another machine."""
    folder = s.project("test_files", RECIPE + '[test]\nfiles = ["keys", "tests"]\ngpu = true\ncommand = "true"\n')
    s.link(f"{folder}/keys", s.key.parent)
    s.link(f"{folder}/tests/key", s.key)


@way("files")
def source_is_elsewhere(s: Scene) -> None:
    """The source of a project is another folder."""
    s.project("source_up", f'name = "demo"\nsource = "{s.out(2)}"\n')
    s.link(f"{s.project('source_link', SOURCE_THERE)}/there", s.victim)
    s.project("source_absolute", f'name = "demo"\nsource = {{ path = "{s.victim}" }}\n')


@way("files")
def output_is_elsewhere(s: Scene) -> None:
    """The recipe names the folder of the wheels."""
    s.project("output_up", RECIPE + f'[output]\ndirectory = "{s.out(2)}"\n')
    s.project("output_absolute", RECIPE + f'[output]\ndirectory = "{s.victim}"\n')


@way("files")
def job_files_lead_out(s: Scene) -> None:
    """Inputs and outputs of a job for IREE."""
    s.link("linked.mlir", s.key)
    s.link("linked-out", s.victim / "runs")
    s.write(
        "model.mlir", "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n  return %arg0 : tensor<4xf32>\n}\n"
    )
    for number, (source, output) in enumerate(
        [("model.mlir", "linked-out"), ("linked.mlir", "out"), (f"{s.out()}/home/.ssh/id_rsa", "out"),
         (str(s.key), "out"), ("model.mlir", s.out()), ("model.mlir", str(s.victim)), ("src/pipe.mlir", "out")]
    ):  # fmt: skip
        job = {"version": 1, "targets": ["cpu:generic"], "output": output, "modules": [{"input": source}]}
        s.write(f"job{number}.json", json.dumps(job))
    (s.checkout / "src").mkdir(exist_ok=True)
    os.mkfifo(s.checkout / "src" / "pipe.mlir")


@way("files")
def names_that_are_odd(s: Scene) -> None:
    """Names of files come out in messages, warnings and lists."""
    for name in (
        "\x1b]0;pwned\x07.pem",
        "::set-output name=pwned::1.pem",
        "a\nb-pwned.pem",
        "$(id)-pwned.key",
        "--pwned",
        "\u202epwned.pem",
    ):
        s.write(f"src/{name}", "-----BEGIN PRIVATE KEY-----\n")
    with suppress(OSError):
        s.write(f"{s.project('raw')}/src/{os.fsdecode(bytes([255, 254]))}-pwned.pem", "")
