"""What one project's build leaves in cache mounts and layers is not read by another project's build."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from actions import Runner
from command import ROOT, Done, bakery
from projects import SOURCE, extension

from bakery.core.target_kinds import Kind
from bakery.engine.cache_scope import KEY_VARIABLE, cache_scope
from bakery.plan.cells import Cell, Target
from bakery.runs.bake_session import bake_once
from bakery.runs.buildx.bake import BakeRequest
from bakery.runs.buildx.board import Listener

pytestmark = pytest.mark.engine

DOCKERFILES = [*ROOT.glob("dockerfiles/*.Dockerfile"), ROOT / "packages/bakery-iree/tests/golden/jobs/Dockerfile"]
MOUNTS = sorted({id_ for path in DOCKERFILES for id_ in re.findall(r"type=cache,id=([^,\s]+)", path.read_text())})
"""The ids of all cache mounts that generated files have."""

MARK = """\
FROM scratch
COPY rootfs/ /
ARG TARGETARCH
ARG FRESH
RUN --network=none {mounts} for folder in /caches/*; do cat $folder/marks /dev/null; echo {{{word}}} >> $folder/marks; done
"""


def test_generated_files_have_the_cache_mounts_that_are_tried_here() -> None:
    assert MOUNTS == ["bakery-ccache-${TARGETARCH}", "bakery-modules", "bakery-pip", "bakery-slots"]


def marks(root: Path, recipe: str, word: str, environment: Mapping[str, str], rootfs: Path) -> list[str]:
    """Run a step with all cache mounts of generated files; return the marks that it found, and leave one in each."""
    if not root.exists():
        shutil.copytree(rootfs, root / "rootfs", symlinks=True)
    mounts = " ".join(f"--mount=type=cache,id={id_},target=/caches/{n}" for n, id_ in enumerate(MOUNTS))
    (root / "Dockerfile").write_text(MARK.format(mounts=mounts, word=word))
    (root / "bake.hcl").write_text('target "try" { output = ["type=cacheonly"] }\n')
    state = root / ".bakery" / uuid.uuid4().hex
    request = BakeRequest(
        root=root,
        bakefile=Path("bake.hcl"),
        targets=(Target("try", Kind.WHEEL, Cell("try", {"platform": "linux/amd64"}, {}), "try"),),
        environment=environment,
        variables={},
        state=state,
        scope=cache_scope(environment, root, recipe),
        overrides=(f"*.args.FRESH={state.name}", "*.args.BUILDKIT_CACHE_MOUNT_NS=chosen-by-the-recipe"),
    )
    outcome = bake_once(request, Listener())
    assert not outcome.failures, outcome.failures
    log = outcome.targets["try"].log.read_text()
    return re.findall(r"(?m)\{(.*)\}$", re.sub(r"(?m)^# .*$", "", log))


def test_no_mark_crosses(tmp_path: Path, tiny_rootfs: Path, engine_environment: Mapping[str, str]) -> None:
    mine = {**engine_environment, "XDG_STATE_HOME": str(tmp_path / "mine")}
    yours = {**engine_environment, "XDG_STATE_HOME": str(tmp_path / "yours")}
    mine.pop(KEY_VARIABLE, None)
    yours.pop(KEY_VARIABLE, None)
    one, two = tmp_path / "one", tmp_path / "two"
    everywhere = len(MOUNTS)
    assert marks(one, "demo", "first", mine, tiny_rootfs) == []
    # Another checkout, another recipe, another user, a key.
    assert marks(two, "demo", "checkout", mine, tiny_rootfs) == []
    assert marks(one, "other", "recipe", mine, tiny_rootfs) == []
    assert marks(one, "demo", "user", yours, tiny_rootfs) == []
    key = uuid.uuid4().hex
    assert marks(one, "demo", "key", {**mine, KEY_VARIABLE: key}, tiny_rootfs) == []
    # The same project has what it left; whoever has the key has what its holder left.
    assert marks(one, "demo", "again", mine, tiny_rootfs) == ["first"] * everywhere
    assert marks(two, "demo", "again", {**yours, KEY_VARIABLE: key}, tiny_rootfs) == ["key"] * everywhere
    assert marks(two, "other", "again", {**yours, KEY_VARIABLE: key}, tiny_rootfs) == []


RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
[test]
command = "python -c 'import tiny; assert tiny.answer() == 42'"
"""

POISON = """
import glob, os, shutil, subprocess, sys

shared = os.environ.get("CCACHE_DIR", "")

def results(cache):
    return {path for path in glob.glob(cache + "/**", recursive=True) if path.endswith("R") and os.path.isfile(path)}

def compiled(cache):
    subprocess.run([sys.executable, "setup.py", "build_ext"], env={**os.environ, "INNER": "1", "CCACHE_DIR": cache},
                   check=True)
    shutil.rmtree("build")

if shared == "/var/cache/ccache" and "INNER" not in os.environ:
    known = results(shared)
    compiled(shared)
    honest = results(shared) - known
    text = open("src/core.cpp").read()
    open("src/core.cpp", "w").write(text.replace("42", "666"))
    compiled("/tmp/evil")
    open("src/core.cpp", "w").write(text)
    (evil,) = results("/tmp/evil")
    assert len(honest) == 1, honest
    for path in honest:
        shutil.copy(evil, path)
    print("poisoned", honest)
"""
"""Puts what a compiler made of altered code in the place of what it makes of the project's own file."""


def compilations(done: Done) -> object:
    return done.results()["wheel-cp311"]["compiler_cache"]


@pytest.mark.proof
def test_a_poisoned_object_is_not_used(tmp_path: Path) -> None:
    source = f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}'
    hostile = extension(tmp_path / "hostile", RECIPE, source, setup=POISON)
    done = bakery(hostile, "wheel")
    assert "poisoned {'/var/cache/ccache" in done.log("wheel-cp311")
    # It harmed itself: the attack works where the cache is the same.
    done = bakery(extension(tmp_path / "new", RECIPE, source), "full")
    assert compilations(done) == {"compilations": 1, "hits": 0}
    # The same folder, now with the very files of the other project: the layer of its compile step is its own, too.
    shutil.rmtree(hostile)
    done = bakery(extension(hostile, RECIPE, source), "full", code=7)
    assert compilations(done) == {"compilations": 1, "hits": 1}
    done = bakery(extension(tmp_path / "victim", RECIPE, source), "full")
    assert compilations(done) == {"compilations": 1, "hits": 0}
    assert any("[compile " in step for step in done.ran())
    # Its own objects are used again; and a checkout elsewhere that has the same key uses them, too.
    core = tmp_path / "victim" / "src" / "core.cpp"
    core.write_text(core.read_text() + "\n// the end\n")
    assert compilations(bakery(tmp_path / "victim", "full")) == {"compilations": 1, "hits": 1}


@pytest.mark.proof
def test_layers_without_a_compiler_cache_are_shared(tmp_path: Path) -> None:
    source = f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}'
    bakery(extension(tmp_path / "one", RECIPE, source), "wheel")
    done = bakery(extension(tmp_path / "two", RECIPE, source), "wheel")
    stages = {match[1] for step in done.ran() if (match := re.match(r"\[(?:\S+ )?(\S+) \d+/\d+\]", step))}
    # What took something of the project is its own; Python, tools and the packages of build-system.requires are shared.
    asked = {"backend-requires-again", "backend-requirements", "builder"}
    assert stages == {*asked, "compile", "compile-again", "repair"}
    assert not bakery(tmp_path / "two", "wheel").ran()


WITH_WORKFLOW = f'{RECIPE}[ci]\ncache = "gha"\n'


def packed(folder: Path) -> Path:
    """Write a compiler cache with one file."""
    place = folder / "linux_amd64" / "ccache.tar"
    place.parent.mkdir(parents=True)
    with tarfile.open(place, "w") as archive:
        member = tarfile.TarInfo("stranger")
        member.size = 8
        archive.addfile(member, io.BytesIO(b"stranger"))
    return place


@pytest.mark.proof
def test_a_committed_compiler_cache_is_never_read(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    source = f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}'
    project = extension(tmp_path / "project", WITH_WORKFLOW, source)
    bakery(project, "generate")
    workflow = (project / ".github/workflows/bakery-tiny.yml").read_text()
    for name in (".bakery/compiler-cache", "compiler-cache", "temp/compiler-cache"):
        packed(project / name)
    github = {
        "run_attempt": 1,
        "run_id": 1,
        "event_name": "pull_request",
        "ref": "refs/pull/1/merge",
        "ref_type": "branch",
    }
    github |= {"workflow": "wheels", "repository": "own/tiny"}
    # No cache of GitHub is here: of the steps, that of layers is left out.
    workflow = workflow.replace("'gha'", "'none'")
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, github)
    runner.folder.mkdir()

    def carried() -> list[str]:
        """Run the workflow; return what was carried, and which way."""
        runner.ran.clear()
        runner.run(workflow)
        assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
        places = runner.folder.glob(f"bake-*-{github['run_attempt']}-temp/bakery/state/runs/*/compiler-cache/*")
        shutil.rmtree(runner.artifacts)
        github["run_attempt"] = int(str(github["run_attempt"])) + 1
        return sorted(path.name for path in places)

    kept = runner.folder / "cache"
    assert (carried(), kept.exists()) == (["saved"], False)
    github |= {"event_name": "push", "ref": "refs/heads/main"}
    assert (carried(), len(list(kept.iterdir()))) == (["saved"], 1)
    assert (carried(), len(list(kept.iterdir()))) == (["restored", "saved"], 2)
    github |= {"ref": "refs/tags/v1", "ref_type": "tag"}
    assert (carried(), len(list(kept.iterdir()))) == (["saved"], 2)


def test_a_compiler_cache_in_the_project_is_refused(tmp_path: Path) -> None:
    project = extension(tmp_path / "project", RECIPE, SOURCE)
    packed(project / "kept")
    (tmp_path / "link").symlink_to(project)
    for folder in ("kept", str(tmp_path / "link" / "kept"), "../project/kept"):
        done = bakery(project, "wheel", "--compiler-cache", folder, code=2)
        assert "is inside the project, where a checkout may contain one" in done.err


@pytest.mark.parametrize(
    ("table", "environment", "grant"),
    [
        ('backend = "local"', {}, "cache=.bakery/cache"),
        ("", {"BAKERY_CACHE": "local"}, "cache=.bakery/cache"),
        ('backend = "registry"\nref = "stranger.example/c"', {}, "cache=stranger.example/c"),
        ('ref = "stranger.example/c"', {"BAKERY_CACHE": "registry"}, "cache=stranger.example/c"),
    ],
)
def test_a_layer_cache_that_the_recipe_names_is_refused(
    tmp_path: Path, table: str, environment: Mapping[str, str], grant: str
) -> None:
    project = extension(tmp_path / "project", f"{RECIPE}[cache]\n{table}\n", SOURCE)
    done = bakery(project, "wheel", code=2, environment=environment)
    assert f"--allow {grant}" in done.err
