"""What is fuzzed: each reader of a file that somebody else wrote, with files that are right and a way to change them."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from iree_modules import RECORD
from locks import locked_as_asked, planned
from provenance import MATERIALS, MOMENT
from typer._click.shell_completion import get_completion_class
from typer.main import get_command

from bakery.cli import shell_completion
from bakery.cli.app import app
from bakery.cli.command_group import COMPLETE, PROGRAM
from bakery.core.errors import BakeryError, UnavailableError
from bakery.engine.package_index import Index, releases
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.release import reproduce
from bakery.release.index import pages
from bakery.release.index.files import File
from bakery.resolve.plan import resolve
from bakery.runs import journal
from bakery.runs.buildx.rawjson import clean, decode
from bakery.runs.journal import Result
from bakery.runs.lock import lock_file
from bakery.runs.lock.is_current import load_lock
from bakery.runs.lock.model import read_materials
from bakery.runs.lock.pins import write_pinned
from bakery.runs.records.buildkit import Machine
from bakery.runs.records.provenance import definition, statement
from bakery.runs.records.read import locked_from_provenance, package_materials, place_requirements, recorded_images
from bakery.runs.records.read import read as read_provenance
from bakery.runs.records.recorder import source_materials
from bakery.runs.source_files import source_of
from bakery_iree import benchmark, check_runs
from bakery_iree.emit import generate_job
from bakery_iree.job.load import load as load_job
from bakery_iree.job.resolve import resolve as resolve_job
from bakery_iree.mlir import read_module
from bakery_iree.modules import inspect, open_module
from bakery_iree.npy import DataError, described, npy, read_data
from bakery_iree.sandbox import ProgramResult
from fuzz import TESTS, folders, git_trees, project_trees, python_files, recipes, served, wheelfiles
from fuzz.binaries import KINDS, any_archive, any_wheel, in_wheel
from fuzz.mutate import Mutator, any_bytes, any_json, any_text
from fuzz.refusals import assert_clean

DATA = TESTS / "data"
IREE = TESTS.parent / "packages/bakery-iree/tests/data"
_RECIPE = 'name = "demo"\nsource = "pkg"\n[matrix]\npython = ["3.11"]\n[builder]\ntoolkit = "none"\n'

Read = Callable[[Path, bytes], str]
"""Reads one input in a folder of its own; returns what became of it, or raises `BakeryError`."""


@dataclass(frozen=True, slots=True)
class Target:
    """A reader.

    Attributes:
        seeds: makes inputs that are right.
        mutate: changes one.
        read: reads one.
    """

    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutator
    read: Read

    def made(self, seed: int, number: int) -> bytes:
        """Return input ``number`` of a run: the same one for the same seed."""
        rng = random.Random(f"{seed} {number}")
        data = rng.choice(seeds_of(self))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            data = self.mutate(rng, data)
        return data

    def outcome(self, folder: Path, data: bytes) -> str:
        """Read an input; return what became of it."""
        try:
            return self.read(folder, data)
        except BakeryError as error:
            assert_clean(error)
            return type(error).__name__


@cache
def seeds_of(target: Target) -> Sequence[bytes]:
    """Return the inputs that a target begins with."""
    return target.seeds()


def _written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- locks, provenance, journals, indexes


@cache
def _planned(folder: Path) -> Plan:
    """Return the plan of a project that is made in a folder."""
    (folder / "pkg").mkdir(parents=True, exist_ok=True)
    _written(folder, "pkg/a.py", "1\n")
    _written(folder, "bakery.toml", _RECIPE)
    return resolve(load(None, folder)[0])


def _lock_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        fits = lock_file.text(lock_file.lock_of("demo", locked_as_asked(Path(folder), planned(Path(folder)))))
    return [fits.encode(), fits.replace("cp311", "cp312").encode()]


@cache
def _asking(folder: Path) -> Plan:
    plan = planned(folder)
    locked_as_asked(folder, plan)
    return plan


def _lock(folder: Path, data: bytes) -> str:
    plan = _asking(folder)
    lock = lock_file.read(_written(folder, plan.lock, data), plan.lock)
    assert lock is not None
    locked = lock_file.cells(lock)
    lock_file.text(lock_file.lock_of(lock.recipe, locked))
    found = load_lock(folder, plan, plan.cells, lambda _: None, strict=False)
    for own in found.values():
        write_pinned(folder / "pinned", plan, own, strict=True)
    return "fits" if found else "stale"


def _provenance_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = _planned(folder / "project")
        sha256 = hashlib.sha256(b"").hexdigest()
        own, locked = (
            source_materials(plan, source_of(folder / "project", plan)),
            locked_as_asked(folder, planned(folder))["cp311"],
        )
        parts = [*(item for item in MATERIALS if "dirHash" not in item.digest), *own, *package_materials(locked)]
        defined = definition(plan, plan.cells[0], parts, place_requirements(locked))
        machine = Machine("28.5.2", "0.29.1", "linux/x86_64")
        told = statement(wheelfiles.NAME, sha256, defined, machine, MOMENT, MOMENT)
    other: Any = copy.deepcopy(told)
    other["predicate"]["buildDefinition"]["externalParameters"]["settings"] = ["PYTHON_VERSION=3.12"]
    return [json.dumps(told, indent=2).encode(), json.dumps(other).encode()]


def _provenance(folder: Path, data: bytes) -> str:
    _planned(project := folder / "project")
    wheel = _written(folder, wheelfiles.NAME, b"")
    recorded = read_provenance(wheel, _written(folder, "provenance.json", data))
    locked_from_provenance(recorded)
    recorded_images(recorded)
    options = reproduce.RebuildOptions()
    try:
        loaded = reproduce._load_recipe(recorded, project, options)
        return "refused" if list(reproduce._mismatches(recorded, loaded, options)) else "fits"
    except reproduce._UnverifiableError:
        raise
    except BakeryError:
        return "refused"


def _journal_seeds() -> list[bytes]:
    records = [
        journal.Record(f"cp31{n}", "ab" * 32, result, n, (journal.RecordedWheel(wheelfiles.NAME, "ab" * 32, 1234),))
        for n, result in enumerate(Result)
    ]
    lines = [json.dumps({"version": journal.VERSION, **asdict(record)}).encode() + b"\n" for record in records]
    return [b"".join(lines)]


def _journal(folder: Path, data: bytes) -> str:
    _written(folder, "journal.jsonl", data)
    return "records" if journal.read(data) else "nothing"


_JSON_PAGE = "application/vnd.pypi.simple.v1+json"


def _index_seeds() -> list[bytes]:
    files = [
        File(
            f"demo-{version}-py3-none-any.whl", "demo", version, "ab" * 32, 10, ">=3.9", "cd" * 32, "2026-01-01", yanked
        )
        for version, yanked in (("1.0", False), ("1.1+cu128", "broken"), ("2.0rc1", True))
    ]
    texts = (
        pages.project_json("demo", files, {"demo-1.0-variants.json": "{}"}),
        pages.root_json(["demo", "other"]),
        pages.project_html("demo", files, {}),
    )
    return [text.encode() for text in texts]


def _index(folder: Path, data: bytes) -> str:
    """Read a page as that of an index to extend, and as that of an index to ask."""
    _written(folder, "page", data)
    outcome = "refused"
    for parse in (pages.parse_root, lambda text: pages.project_json("demo", pages.parse(text, "demo"), {})):
        with contextlib.suppress(ValueError):
            parse(data)
            outcome = "page"
    kind = "text/html" if data.lstrip().startswith(b"<") else _JSON_PAGE
    # What is appended to the address stands behind the padding, where base64 has ended.
    body = base64.b64encode(data + b" " * (len(data) % 3 == 0)).decode()
    try:
        releases(Index(f"data:{kind};base64,{body}", {}), "demo", sdist=False, ca_bundle="")
    except UnavailableError as error:
        assert_clean(error)
    return outcome


# --- jobs and modules


def _job_seeds() -> list[bytes]:
    check = {"function": "main", "inputs": ["64x64xf32=1"] * 3, "expected": ["64x64xf32=64"]}
    job = {
        "version": 1,
        "output": "out",
        "targets": ["cpu:x86-64-v3", "cuda:sm_80", "metal"],
        "modules": [
            {"input": "good.mlir", "checks": [check]},
            {"input": "other.mlir", "name": "Other", "targets": ["cpu:host"], "flags": ["--iree-opt-level=O3"]},
        ],
    }
    return [json.dumps(job, indent=2).encode()]


def _job(folder: Path, data: bytes) -> str:
    for name, source in (("good.mlir", "matmul"), ("other.mlir", "softmax")):
        if not (folder / name).exists():
            shutil.copy(IREE / "mlir" / f"{source}.mlir", folder / name)
    plan = resolve_job(load_job(_written(folder, "job.json", data), "job.json"))
    generate_job(plan, "image")
    return "plan"


_GENERIC = b"""\
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x?xf32>, i32) -> (tensor<4xf32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4x?xf32>, %arg1: i32):
    "func.return"(%arg0) : (tensor<4x?xf32>) -> ()
  }) : () -> ()
}) {sym_name = "m"} : () -> ()
"""


def _mlir_seeds() -> list[bytes]:
    return [*(path.read_bytes() for path in sorted((IREE / "mlir").glob("*.mlir"))), _GENERIC]


def _mlir(folder: Path, data: bytes) -> str:
    functions = read_module(_written(folder, "input.mlir", data))
    for function in functions:
        assert str(function)
        assert all((item.shape, item.element, item.dtype) for item in (*function.arguments, *function.results))
    return "functions" if functions else "bytecode"


def _vmfb_seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted((IREE / "modules").glob("*.vmfb"))]


def _any_vmfb(rng: random.Random, data: bytes) -> bytes:
    change = rng.choice((any_bytes, any_text))
    return rng.choice((any_bytes, any_archive, *[in_wheel(lambda *_: True, change)] * 3))(rng, data)


def _vmfb(folder: Path, data: bytes) -> str:
    module = open_module(_written(folder, "module.vmfb", data))
    assert all(str(function) for function in module.functions)
    return "wrong" if inspect(module)[1] else "right"


def _record_seeds() -> list[bytes]:
    content = (IREE / "modules" / "matmul.cpu-v3.vmfb").read_bytes()
    output = {"name": "matmul.vmfb", "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return [json.dumps({**RECORD, "output": output}, indent=2).encode()]


def _record(folder: Path, data: bytes) -> str:
    if not (folder / "matmul.vmfb").exists():
        shutil.copy(IREE / "modules" / "matmul.cpu-v3.vmfb", folder / "matmul.vmfb")
    _written(folder, "matmul.json", data)
    return "wrong" if inspect(open_module(folder / "matmul.vmfb"))[1] else "right"


def _array_seeds() -> list[bytes]:
    one = npy("float32", (4, 4), bytes(64))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", one)
        archive.writestr("b.npy", npy("int8", (3,), b"abc"))
    return [one, out.getvalue(), b"4x4xf32=1", b"2x2xi32=[[1 2][3 4]]", b"1.5"]


def _array(folder: Path, data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    for magic, name in ((b"\x93NUMPY", "a.npy"), (b"PK", "a.npz")):
        if data.startswith(magic):
            text = _written(folder, name, data).name
    try:
        return str(len([described(value) for value in read_data(text, folder)]))
    except DataError as error:
        return wheelfiles.refusal(error)


# --- what containers leave and print


def _materials_seeds() -> list[bytes]:
    packages = {
        "requirements": ["a>=1"],
        "packages": [{"file": "a-1.whl", "name": "a", "version": "1", "sha256": "ab" * 32}],
    }
    system = {"packages": {"gcc-12": "12.2.0-14"}, "tools": {"cc": "cc 12.2.0"}, "purls": {"gcc-12": "pkg:deb/a@1"}}
    return [json.dumps({"packages": packages, "system": system, "suites": {"bookworm": "Sat, 11 Jul 2026"}}).encode()]


def _materials(folder: Path, data: bytes) -> str:
    """Read one file for each part; those of text that is no JSON have all of it."""
    try:
        told = json.loads(data)
        parts = {key: json.dumps(told.get(key)).encode() for key in ("packages", "system", "suites") if key in told}
    except (ValueError, RecursionError, AttributeError, TypeError):
        parts = {"packages": data, "system": data}
    for name in ("packages", "system"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    for key, part in parts.items():
        _written(folder, "packages/build.json" if key == "packages" else f"system/{key}.json", part)
    return "right" if read_materials(folder).packages else "nothing"


def _left_seeds() -> list[bytes]:
    calls = {"runtime": "3.13.0", "calls": [{"code": 0, "log": ""}, {"code": -9, "log": "a: b"}]}
    times = {"benchmarks": [{"real_time": 1.5, "time_unit": "ms", "run_type": "iteration"}]}
    return [json.dumps(item).encode() for item in (calls, times, ["", "failed"])]


def _left(folder: Path, data: bytes) -> str:
    """Read what a container left where a module was run, measured, or held against a reference."""
    path = _written(folder, "left.json", data)
    result = ProgramResult(0, False, dict.fromkeys(("result.json", "machine"), path), "log")
    ended, _ = check_runs._read_ended(result, 2)
    problems = [check_runs._problem(code, log, timed_out=False) for code, log in ended]
    times, failures = benchmark._times(result), check_runs._read_problems(result, 2)
    benchmark._machine(result)
    return "right" if not all(problems) or times or failures != ["log", "log"] else "nothing"


def _printed_seeds() -> list[bytes]:
    return [b"".join(path.read_bytes().splitlines(keepends=True)[:40]) for path in sorted((DATA / "rawjson").glob("*"))]


def _printed(folder: Path, data: bytes) -> str:
    _written(folder, "log", data)
    lines = [decode(line) for line in data.split(b"\n")]
    for line in lines:
        texts = [line.text, *(text for vertex in line.vertices for text in (vertex.name, vertex.error))]
        texts += [clean(piece) for log in line.logs for piece in log.data.split(b"\n")]
        assert all(char.isprintable() or char in "\n\t" for text in texts for char in text)
    return "right" if any(line.vertices for line in lines) else "nothing"


def _completion(folder: Path, data: bytes) -> str:
    _written(folder, "bakery.toml", recipes.parts(data)[1])
    shell_completion.install()
    kind = get_completion_class("zsh")
    assert kind
    said = []
    for option in ("--set", "--only", "--recipe"):
        asked = {"COMP_WORDS": f"{PROGRAM} wheel {option} ", "COMP_CWORD": "3"}
        with contextlib.chdir(folder), mock.patch.dict(os.environ, asked):
            said += kind(get_command(app), {}, PROGRAM, COMPLETE).complete().split("\n")
    assert all(shell_completion.HARMLESS.fullmatch(line) for line in said)
    return "right" if any(line.startswith("cp") for line in said) else "nothing"


TARGETS = {
    "wheel": Target(wheelfiles.seeds, any_wheel, wheelfiles.audit),
    "zip": Target(wheelfiles.seeds, any_archive, wheelfiles.audit),
    **{
        kind: Target(partial(wheelfiles.seeds, *wheelfiles.WITH.get(kind, (kind,))), in_wheel(*rule), wheelfiles.audit)
        for kind, rule in KINDS.items()
    },
    "difference": Target(wheelfiles.seeds, any_wheel, wheelfiles.compare),
    "indexed": Target(partial(wheelfiles.seeds, "metadata", "elf"), any_wheel, wheelfiles.index),
    "index": Target(_index_seeds, any_json, _index),
    "served-index": Target(served.index_seeds, served.any_index, served.read_index),
    "store": Target(served.store_seeds, served.any_store, served.read_store),
    "exported": Target(folders.exported_seeds, folders.any_exported, folders.read_exported),
    "run": Target(folders.report_seeds, any_json, folders.read_run),
    "git-tree": Target(git_trees.seeds, git_trees.mutate_tree, git_trees.read_trees),
    "git-folder": Target(git_trees.seeds, git_trees.mutate_folder, git_trees.read_folder),
    "recipe": Target(recipes.seeds, recipes.mutate, recipes.plan),
    "project": Target(project_trees.seeds, project_trees.mutate, project_trees.init),
    "setup-cfg": Target(python_files.cfg_seeds, python_files.any_cfg, python_files.read_cfg),
    "setup-py": Target(python_files.setup_seeds, python_files.any_setup, python_files.read_setup),
    "cibuildwheel": Target(python_files.cibuildwheel_seeds, python_files.any_cibuildwheel, python_files.read_settings),
    "lock": Target(_lock_seeds, recipes.any_toml, _lock),
    "provenance": Target(_provenance_seeds, any_json, _provenance),
    "journal": Target(_journal_seeds, any_text, _journal),
    "job": Target(_job_seeds, any_json, _job),
    "mlir": Target(_mlir_seeds, any_text, _mlir),
    "vmfb": Target(_vmfb_seeds, _any_vmfb, _vmfb),
    "record": Target(_record_seeds, any_json, _record),
    "materials": Target(_materials_seeds, any_json, _materials),
    "left": Target(_left_seeds, any_json, _left),
    "completion": Target(recipes.seeds, recipes.mutate, _completion),
    "printed": Target(_printed_seeds, any_text, _printed),
    "array": Target(_array_seeds, lambda rng, data: rng.choice((any_bytes, any_text))(rng, data), _array),
}
"""Name → what is fuzzed."""


# --- what the tests of the runner need


def _trap(_: Path, data: bytes) -> str:
    """Do what no reader may."""
    match data:
        case b"raise":
            raise KeyError(data)
        case b"spin":
            re.match(r"(a+)+$", "a" * 60 + "b")  # in C, where no other thread gets a turn
        case b"take":
            bytearray(2 << 30)
        case b"grow":
            return str(len([bytes(1000) for _ in range(360_000)]))
        case b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"say":
            raise BakeryError("")
    return "fine"


TRAPS = {"trap": Target(lambda: [b"fine"], any_bytes, _trap)}
