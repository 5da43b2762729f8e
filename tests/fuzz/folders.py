"""Folders as one input each, in JSON: what a container exported, and the folder of a run that is read again."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from runs import make_run

from bakery.cli.tables.profile import document, render
from bakery.core.errors import BakeryError
from bakery.core.inside import Inside, remove_tree
from bakery.plan.build_facts import JobLimits
from bakery.runs import kept_logs, report_page
from bakery.runs.cell_profile import advice, beside, find, summary, trace
from bakery.runs.compiler_cache import _members, _objects
from bakery.runs.lock.model import read_materials
from bakery.runs.publish import copied, exported_names, stage_files
from bakery_iree import check_runs
from bakery_iree.container_io import unpack
from bakery_iree.sandbox import ProgramResult
from fuzz.mutate import any_json, any_tree, count, text
from fuzz.refusals import refusals
from wheel_audit.plain_files import open_plain, read_plain

_WHEEL = "demo-1.0-py3-none-any.whl"
_KINDS = ("file", "link", "pipe", "socket", "folder", "sparse", "device", "hard", "deep")


def exported_seeds() -> list[bytes]:
    """Return the materials of a build with its wheel, and a compiler cache with the result of a program."""
    packages = {
        "requirements": ["a>=1"],
        "packages": [{"file": "a-1.whl", "name": "a", "version": "1", "sha256": "ab" * 32}],
    }
    system = {"packages": {"gcc-12": "12.2.0-14"}, "tools": {"cc": "cc 12.2.0"}, "purls": {"gcc-12": "pkg:deb/a@1"}}
    materials = [
        ["file", "packages/build.json", json.dumps(packages)],
        ["file", "system/builder.json", json.dumps(system)],
        ["file", "system/suites.json", json.dumps({"bookworm": "Sat, 11 Jul 2026"})],
        ["file", f"wheels/{_WHEEL}", "PK"],
        ["file", "out/result.json", json.dumps({"runtime": "3", "calls": [{"code": 0, "log": ""}]})],
        ["file", "cache/objects", "9 a/1R\n3 0/2_b\n"],
        ["file", "cache/a/1R", "object 1R"],
    ]
    return [json.dumps(materials).encode(), json.dumps([*materials, ["folder", "empty", ""]]).encode()]


def any_exported(rng: random.Random, data: bytes) -> bytes:
    """Change what is in a folder: kinds, names, targets of links, sizes, and contents."""
    rows = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        row = rng.choice(rows) if rows else ["file", "a", ""]
        name = str(row[1]) if isinstance(row, list) and len(row) == 3 else "a"
        target = rng.choice(("/etc/passwd", "/dev/zero", "..", "../outside", name, "packages/build.json", "a" * 5000))
        match rng.randrange(7):
            case 0 | 1:
                new = [rng.choice(_KINDS), rng.choice((name, name.rpartition("/")[0] or name)), target]
                rows[rows.index(row) if row in rows else 0 :][:1] = [new]
                rows.insert(0, new)
            case 2:
                top = rng.choice(("packages", "system", "wheels", "out", "cache"))
                odd = rng.choice(
                    (text(rng)[:300], "\x1b[31m.json", "a\nb.json", "\udcff.json", ".json", "b-1-py3-none-any.whl")
                )
                rows.append([rng.choice(("file", *_KINDS)), f"{top}/{odd}", target])
            case 3:
                top, end = rng.choice((("packages", ".json"), ("system", ".json"), ("wheels", ".whl"), ("cache/a", "")))
                content = str(row[2]) if isinstance(row, list) and len(row) == 3 else ""
                most = 1200 if len(content) < 10_000 and rng.random() < 0.1 else 30
                rows += [["file", f"{top}/{at}{end}", content] for at in range(min(count(rng), most))]
            case 4 | 5:
                if isinstance(row, list) and len(row) == 3:
                    row[2] = any_json(rng, str(row[2]).encode("utf-8", "replace")).decode("utf-8", "replace")
            case 6:
                rows = any_tree(rng, rows) if isinstance(rows, list) else [["file", "a", ""]]
    return json.dumps(rows if isinstance(rows, list) else []).encode()


def _built(folder: Path, rows: Any) -> None:
    """Make the entries of a folder; what cannot be made is left out."""
    links: list[str] = []
    for row in rows if isinstance(rows, list) else ():
        if not (isinstance(row, list) and len(row) == 3 and all(isinstance(item, str) for item in row)):
            continue
        kind, name, content = row
        path = os.path.normpath(f"{folder}/{name}")
        # A link above it would lead out of the folder: here, not in what is tested.
        if "\0" in name or not path.startswith(f"{folder}/") or any(path.startswith(link) for link in links):
            continue
        with suppress(OSError, ValueError):
            if not os.path.lexists(path):
                links += [f"{path}/"] if kind == "link" else []
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                _made(Path(path), kind, content)


def _made(path: Path, kind: str, content: str) -> None:
    match kind:
        case "link":
            path.symlink_to(content)
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as unix:
                unix.bind(str(path))
        case "folder":
            path.mkdir()
        case "device":
            os.mknod(path, 0o020666, os.makedev(1, 5))
        case "hard":
            os.link(path.parent / "result.json", path)
        case "sparse":
            with path.open("wb") as file:
                file.truncate(1 << (20 + len(content) % 21))
        case "deep":
            for _ in range(len(content) % 800):
                path /= "d"
            path.mkdir(parents=True)
        case _:
            path.write_bytes(content.encode("utf-8", "surrogateescape"))


def read_exported(folder: Path, data: bytes) -> str:
    """Read a folder as that of materials, of wheels, of a compiler cache, and of what a program left."""
    try:
        rows = json.loads(data)
    except ValueError:
        return "refused"
    stage = Path(tempfile.mkdtemp(dir=folder))
    secret = folder / "outside"
    secret.write_text("secret")
    try:
        _built(stage, rows)
        found = list(_readers(folder, stage))
    finally:
        remove_tree(stage)
    assert secret.read_text() == "secret"
    return "right" if all(found) else "refused"


def _readers(folder: Path, stage: Path) -> Iterator[bool]:
    """Yield whether each reader takes its part of the folder."""
    with refusals():
        yield bool(read_materials(stage).packages)
    names = exported_names(stage / "wheels")
    with refusals(BakeryError, OSError), tempfile.TemporaryDirectory(dir=folder) as dist:
        wheels = [path for path in stage_files(stage / "wheels") if path.stat().st_size < 1 << 20]
        with copied(wheels, Path(dist)) as copies:
            yield bool(copies) and [path.name for path in wheels] <= list(names)
    yield _program(stage, folder)
    yield _cache(stage, folder)
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as other:
        for name in Inside(stage).names("out"):
            # What is as large as a disk is not copied here.
            if (stage / name).lstat().st_size < 1 << 20:
                Inside(stage).copy(name, Inside(Path(other)))


def _packed(stage: Path, below: str) -> io.BytesIO:
    """Return what ``tar`` in a container would send of a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in sorted(Path(top, name) for top, _, names in os.walk(stage / below) for name in names)[:200]:
            name = path.relative_to(stage).as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            with suppress(OSError, ValueError):
                member = archive.gettarinfo(path, name)
                if member and member.size < 1 << 20:
                    with open_plain(path) if member.isreg() else io.BytesIO() as file:
                        archive.addfile(member, file)
    out.seek(0)
    return out


def _program(stage: Path, folder: Path) -> bool:
    with refusals(), tempfile.TemporaryDirectory(dir=folder) as made:
        files = unpack(_packed(stage, "out"), Path(made), ["result.json", "machine"])
        return bool(check_runs._read_ended(ProgramResult(0, False, files, "log"), 1)[1])
    return False


def _cache(stage: Path, folder: Path) -> bool:
    with suppress(OSError):
        objects = _objects(read_plain(stage / "cache/objects", 32 << 20))
        with suppress(tarfile.TarError):
            return bool(objects) and bool(list(_members(_packed(stage / "cache", "a"))))
    return False


# --- a run


def report_seeds() -> list[bytes]:
    """Return what two runs left: their reports, the profiles of their cells, and a log."""
    found = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_STATE_HOME=folder):
        for number, failed in enumerate(((), ("cp313",)), 1):
            run = make_run(Path(folder), str(number), ["cp311", "cp313"], failed=failed, compiles=4, steps=3)
            told = {
                "report": json.loads((run / "report.json").read_text()),
                "profile": json.loads((run / "profiles/cp311.json").read_text()),
                "log": "".join(path.read_text() for path in sorted(run.glob("logs/*"))),
            }
            found.append(json.dumps(told).encode())
    return found


def read_run(folder: Path, data: bytes) -> str:
    """Read a run as `report`, `logs`, `shell` and `profile` do."""
    try:
        told = json.loads(data)
        parts = [json.dumps(told[key]).encode() for key in ("report", "profile")]
        log = str(told["log"]).encode("utf-8", "replace")
    except (ValueError, LookupError, TypeError, RecursionError):
        parts, log = [data, data], data
    shutil.rmtree(folder / "state", ignore_errors=True)
    run = folder / "state/runs/2"
    for name, content in (("report.json", parts[0]), ("profiles/cp311.json", parts[1]), ("logs/wheel-cp311.log", log)):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    report, shown = kept_logs.read_report(run), False
    if report:
        page = report_page.html(report_page.data(run, report))
        shown = "<title>" in page and page.count("<script") == 2
        assert shown
    with refusals():
        for cell in ("", "cp311"):
            for path in kept_logs.newest(folder / "state", ["demo"], cell):
                lines = list(kept_logs.lines(path))
                list(kept_logs.of_step(lines, next(iter(kept_logs.stages(lines)), "compile"), ["demo"]))
        kept_logs.failed_step(folder / "state", "demo", "cp313")
    with refusals():
        times, where, older = find(folder / "state", "demo", "cp311")
        used = summary(times)
        helps = advice(times, used, beside(where, times), JobLimits())
        json.dumps([trace(times), document(times, used, helps, where.name, cached_since=older)])
        Console(file=io.StringIO(), width=100).print(render(times, used, helps, 10))
        return "right" if shown else "page"
    return "page" if shown else "nothing"
