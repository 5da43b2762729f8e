"""Which cells are up to date, without an engine: what the key has, what a name hides, what the output folder lacks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.repositories import commit, git

from bakery.cli.runs import early, require_runs
from bakery.core.errors import UsageError
from bakery.engine.image_digests import PresentImages
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Base, Builder, Matrix, Recipe, Source
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options
from bakery.runs.finish import Finisher
from bakery.runs.journal import Record, RecordedWheel, Result, newest_records, open_journal
from bakery.runs.loop import unfinished
from bakery.runs.publish import NameTaken
from bakery.runs.records.buildkit import PROVENANCE, SBOM, record_path
from bakery.runs.repository import was_asked
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.run_report import RunReport
from bakery.runs.secrets.mask import Mask
from bakery.runs.selection import Run, Selection, early_report, mutable_names, select, select_early, tagged_images

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHANGED = Options(("wheel",), selection=CellSelection.CHANGED)


def planned(root: Path, *sets: str, base: str = "", environ: dict[str, str] | None = None, ref: str = "") -> Plan:
    (root / "pyproject.toml").write_text('[build-system]\nrequires = []\n[project]\nname = "demo"\n')
    image, _, digest = base.partition("@")
    builder = Builder(
        base=Base(image=image, digest=digest or None) if base else Base(),
        environment={"FLAG": "${FLAG}"} if environ else {},
    )
    recipe = Recipe(
        name="demo",
        matrix=Matrix(python=("3.11", "3.13")),
        builder=builder,
        source=Source(git="https://example.org/demo.git", ref=ref) if ref else Source(path="."),
        variables={"FLAG": "1"} if environ else {},
    )
    return resolve(from_python(recipe, root), parse_set_options(sets), environ or {})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "demo.c").write_text("int demo;\n")
    return folder


def in_state(state: Path) -> dict[str, str]:
    return {"BAKERY_STATE_DIR": str(state)}


def selected(root: Path, plan: Plan, state: Path, options: Options = CHANGED) -> Selection:
    return select(Run.of(root, plan, options, in_state(state)), plan, newest_records(state, plan.recipe))


def finish(
    root: Path,
    plan: Plan,
    state: Path,
    options: Options = CHANGED,
    images: Mapping[str, str] | None = None,
    *,
    asked: bool | None = False,
) -> list[Path]:
    """Leave what a run leaves that finished all cells: a journal, wheels and their records.

    ``asked``: whether the builds asked git; None if no run could tell.
    """
    chosen = selected(root, plan, state, options)
    journal, wheels = open_journal(state, plan.recipe), []
    for cell, key in chosen.keys.items():
        wheel = chosen.run.output / f"demo-1.0-{cell}-{cell}-linux_x86_64.whl"
        record_path(wheel, SBOM).parent.mkdir(parents=True, exist_ok=True)
        wheel.write_bytes(cell.encode())
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        record_path(wheel, PROVENANCE).write_text(json.dumps({"subject": [{"digest": {"sha256": sha256}}]}))
        record_path(wheel, SBOM).write_text("{}")
        digests = (hashlib.sha256(record_path(wheel, suffix).read_bytes()).hexdigest() for suffix in (PROVENANCE, SBOM))
        recorded = (RecordedWheel(wheel.name, sha256, 5, *digests),)
        record = Record(cell, key, Result.DONE, wheels=recorded, images=images or {})
        if asked is not None:
            record = replace(record, repository=chosen.repository if asked else "")
        journal.write(record)
        wheels.append(wheel)
    return wheels


def kept(root: Path, plan: Plan, state: Path, options: Options = CHANGED) -> RunReport | None:
    chosen = select_early(root, plan, options, in_state(state))
    return early_report(chosen) if chosen else None


def test_nothing_changed_is_told_without_an_engine(root: Path, state: Path) -> None:
    plan = planned(root)
    assert kept(root, plan, state) is None
    finish(root, plan, state)
    journals = sorted(state.rglob("*.jsonl"))
    report = kept(root, plan, state)
    assert report
    assert [(row.result, len(row.wheels)) for row in report.targets] == [("kept", 1), ("kept", 1)]
    assert report.is_kept
    written = json.loads((report.state / "report.json").read_text())
    assert [target["result"] for target in written["targets"]] == ["kept", "kept"]
    assert sorted(path.name for path in report.state.iterdir()) == [".lock", "report.json"]
    # The journal of the run that baked stays the last one.
    assert sorted(state.rglob("*.jsonl")) == journals


@pytest.mark.parametrize(
    "change",
    [
        lambda root, wheel: (root / "src" / "demo.c").write_text("int other;\n"),
        lambda root, wheel: (root / "src" / "demo.c").chmod(0o755),
        lambda root, wheel: (root / "src" / "new.h").write_text(""),
        lambda root, wheel: wheel.write_bytes(b"damaged"),
        lambda root, wheel: wheel.unlink(),
        lambda root, wheel: record_path(wheel, SBOM).unlink(),
        lambda root, wheel: record_path(wheel, SBOM).write_text(""),
        lambda root, wheel: record_path(wheel, SBOM).write_text("{} "),
        lambda root, wheel: record_path(wheel, PROVENANCE).unlink(),
        lambda root, wheel: record_path(wheel, PROVENANCE).write_text('{"subject": [{"digest": {"sha256": "0"}}]}'),
        lambda root, wheel: record_path(wheel, PROVENANCE).write_text("[]"),
    ],
    ids=[
        "content", "mode", "new-file", "damaged", "removed", "no-sbom", "empty-sbom", "edited-sbom", "no-record",
        "other-record", "no-object",
    ],
)  # fmt: skip
def test_what_changed_is_baked(root: Path, state: Path, change: Callable[[Path, Path], object]) -> None:
    plan = planned(root)
    wheels = finish(root, plan, state)
    assert kept(root, plan, state)
    change(root, wheels[0])
    assert kept(root, plan, state) is None
    assert "cp311" in selected(root, plan, state).tasks


def test_a_cell_without_a_wheel_is_not_up_to_date(root: Path, state: Path) -> None:
    plan = planned(root)
    finish(root, plan, state)
    known = newest_records(state, plan.recipe)
    open_journal(state, plan.recipe, [replace(known["cp311"], wheels=(), time=0.0)])
    assert kept(root, plan, state) is None
    assert list(selected(root, plan, state).tasks) == ["cp311"]
    # Where only tests are asked for, there is no wheel.
    tests = replace(CHANGED, groups=("test",))
    keys = selected(root, plan, state, replace(tests, selection=CellSelection.ALL)).keys
    open_journal(state, plan.recipe, [Record(cell, key, Result.DONE) for cell, key in keys.items()])
    assert kept(root, plan, state, tests)


def test_two_runs_of_different_cells_are_both_known(root: Path, state: Path) -> None:
    plan = planned(root)
    finish(root, plan, state)
    known = newest_records(state, plan.recipe)
    # As --shard and --only: each run has a part of the cells; they began in one order, and end in another.
    long, short = (open_journal(state, plan.recipe, [Record(cell, "", Result.CANCELED)]) for cell in ("cp311", "cp313"))
    short.write(replace(known["cp313"], time=0.0))
    long.write(replace(known["cp311"], time=0.0))
    assert kept(root, plan, state)
    long.write(Record("cp311", "", Result.FAILED))
    failed = replace(CHANGED, selection=CellSelection.FAILED)
    assert list(selected(root, plan, state, failed).tasks) == ["cp311"]


def test_an_interrupted_run_forgets_no_failure(root: Path, state: Path) -> None:
    plan = planned(root)
    open_journal(state, plan.recipe).write(Record("cp311", "", Result.FAILED))
    failed = replace(CHANGED, selection=CellSelection.FAILED)
    for _ in range(2):
        chosen = selected(root, plan, state, failed)
        assert list(chosen.tasks) == ["cp311"]
        open_journal(state, plan.recipe, unfinished(chosen))


def test_failed_needs_a_run_that_is_known(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKERY_STATE_DIR", str(state))
    plan = planned(root)
    with pytest.raises(UsageError, match="no run of demo is known"):
        require_runs([(root, plan)])
    open_journal(state, plan.recipe, [Record("cp311", "", Result.DONE)])
    require_runs([(root, plan)])


def test_up_to_date_needs_no_space(root: Path, state: Path) -> None:
    plan = planned(root)
    finish(root, plan, state)
    (state / "runs").write_text("no folder of runs can be made here")
    report = kept(root, plan, state)
    assert report
    assert report.is_kept
    assert "no report of this run" in report.warnings[-1]


def test_kept_wheels_keep_their_names_from_other_recipes(root: Path, state: Path) -> None:
    plan = planned(root)
    (wheel, _) = finish(root, plan, state)
    report = kept(root, plan, state)
    assert report
    options = replace(CHANGED)
    assert kept(root, plan, state, options)
    with pytest.raises(NameTaken, match="different files with one name"):
        options.claims.take("other cp311", report.output, {wheel.name: "another"})


@pytest.mark.parametrize(("asked", "is_kept"), [(False, True), (True, False), (None, False)])
def test_a_commit_without_files_counts_for_builds_that_ask_git(
    root: Path, state: Path, asked: bool | None, is_kept: bool
) -> None:
    (root / "a.c").write_text("")
    git(root, "init", "--quiet")
    commit(root, 1_700_000_000)
    plan = planned(root)
    finish(root, plan, state, asked=asked)
    assert (kept(root, plan, state) is not None) == (asked is not None)
    git(root, "commit", "--quiet", "--allow-empty", "--message", "x", at=1_700_000_000)
    assert (kept(root, plan, state) is not None) == is_kept


COMPILE = "# [compile 1/1] RUN make\n"
AGAIN = "# [compile-again 1/1] RUN make\n# CACHED\n"
NATIVE = "# [native 1/1] RUN make\nbakery: git was not asked\n# [native-again 1/1] RUN make\n"


@pytest.mark.parametrize(
    ("log", "answer"),
    [
        (NATIVE + COMPILE + "bakery: git was not asked\n" + AGAIN, False),
        (NATIVE + COMPILE + "bakery: git was asked\n" + AGAIN, True),
        # What the step said that was cached is not in the log.
        (NATIVE + COMPILE + "# CACHED\n" + AGAIN, None),
        (COMPILE + "# CACHED\n" + COMPILE + "bakery: git was not asked\n" + AGAIN, False),
        ("# [linux/amd64 tools 1/2] RUN true\n# CACHED\n" + NATIVE, False),
        ("", None),
    ],
)
def test_whether_a_build_asked_git(tmp_path: Path, log: str, answer: bool | None) -> None:
    (tmp_path / "wheel.log").write_text(log)
    assert was_asked(tmp_path / "wheel.log") is answer


def test_only_the_cell_whose_wheel_is_damaged_is_baked(root: Path, state: Path) -> None:
    plan = planned(root)
    wheels = finish(root, plan, state)
    wheels[1].write_bytes(b"damaged")
    chosen = selected(root, plan, state)
    assert (list(chosen.tasks), list(chosen.finished)) == (["cp313"], ["cp311"])


@pytest.mark.parametrize(
    "options",
    [
        replace(CHANGED, no_cache=True),
        replace(CHANGED, pull=True),
        replace(CHANGED, locked=True),
        replace(CHANGED, compiler_cache=Path("/cache")),
        replace(CHANGED, selection=CellSelection.ALL),
        replace(CHANGED, groups=("full",)),
        replace(CHANGED, groups=("wheel", "dev")),
    ],
)
def test_what_asks_for_a_bake_gets_one(root: Path, state: Path, options: Options) -> None:
    plan = planned(root)
    finish(root, plan, state)
    assert kept(root, plan, state)
    assert kept(root, plan, state, options) is None


def test_an_image_is_always_made(root: Path, state: Path) -> None:
    plan, dev = planned(root), replace(CHANGED, groups=("dev",))
    finish(root, plan, state, dev)
    assert kept(root, plan, state, dev) is None


def test_values_of_the_process_are_inputs(root: Path, state: Path) -> None:
    plan = planned(root, environ={"BAKERY_FLAG": "1"})
    finish(root, plan, state)
    assert kept(root, planned(root, environ={"BAKERY_FLAG": "1"}), state)
    assert kept(root, planned(root, "FLAG=2", environ={"BAKERY_FLAG": "1"}), state) is None
    assert kept(root, planned(root, "wheel-cp311.args.FLAG=2", environ={"BAKERY_FLAG": "1"}), state) is None


def test_another_builder_or_output_folder(root: Path, state: Path, tmp_path: Path) -> None:
    plan = planned(root)
    finish(root, plan, state)
    # Where a wheel was built is no input.
    assert kept(root, plan, state, replace(CHANGED, builder="farm"))
    other = replace(CHANGED, output=tmp_path / "other")
    assert kept(root, plan, state, other) is None


def test_wheels_in_the_source_are_no_input(root: Path, state: Path) -> None:
    plan, inside = planned(root), replace(CHANGED, output=root / "src" / "out")
    finish(root, plan, state, inside)
    assert kept(root, plan, state, inside)


def test_state_of_another_machine_is_not_this_one(root: Path, state: Path, tmp_path: Path) -> None:
    plan = planned(root)
    finish(root, plan, state)
    other = tmp_path / "other-state"
    other.mkdir(mode=0o700)
    assert kept(root, plan, other) is None


@pytest.mark.parametrize(
    ("base", "ref", "sets", "names"),
    [
        ("", "", (), 0),
        (f"ghcr.io/me/base:1@sha256:{'0' * 64}", "", (), 0),
        ("", "main", (), 1),
        ("", "v1.0", (), 1),
        ("", COMMIT[:12], (), 1),
        ("", COMMIT, (), 0),
        ("", "", ("wheel-*.contexts.extra=../folder",), 1),
        ("", "", ("*.pull=true",), 1),
        ("", "", ("*.pull=false",), 0),
        ("", "", ("*.labels.x=1",), 0),
    ],
)
def test_names_that_hide_changes(
    root: Path, state: Path, base: str, ref: str, sets: tuple[str, ...], names: int
) -> None:
    plan = planned(root, *sets, base=base, ref=ref)
    finish(root, plan, state)
    (task, *_) = selected(root, plan, state, replace(CHANGED, selection=CellSelection.ALL)).tasks.values()
    assert len(mutable_names(plan, task)) == names
    assert (kept(root, plan, state) is None) == bool(names)
    # --resume trusts names.
    assert kept(root, plan, state, replace(CHANGED, selection=CellSelection.UNFINISHED))


def test_a_locked_image_does_not_move(root: Path, state: Path) -> None:
    plan = planned(root, base="ghcr.io/me/base:1")
    (task, *_) = selected(root, plan, state).tasks.values()
    (image,) = task.cell.images
    assert tagged_images(task, {}) == (image,)
    assert tagged_images(task, {(image.ref, image.platform): "sha256:0"}) == ()


@pytest.mark.parametrize(
    ("recorded", "present", "is_kept"),
    [("sha256:1", "sha256:1", True), ("sha256:1", "sha256:2", False), ("sha256:1", "", False), ("", "sha256:1", False)],
)
def test_the_tag_of_an_image(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch, recorded: str, present: str, is_kept: bool
) -> None:
    asked = []

    def digest(self: PresentImages, name: str, platform: str) -> str:
        asked.append((name, platform))
        return present

    monkeypatch.setattr(PresentImages, "digest", digest)
    plan = planned(root, base="ghcr.io/me/base:1")
    finish(root, plan, state, images={"ghcr.io/me/base:1 linux/amd64": recorded} if recorded else {})
    assert (kept(root, plan, state) is not None) == is_kept
    assert set(asked) == ({("ghcr.io/me/base:1", "linux/amd64")} if recorded else set())
    # --resume trusts names.
    assert kept(root, plan, state, replace(CHANGED, selection=CellSelection.UNFINISHED))


def test_without_an_engine_a_tag_may_have_moved(root: Path, state: Path) -> None:
    plan = planned(root, base="ghcr.io/me/base:1")
    finish(root, plan, state, images={"ghcr.io/me/base:1 linux/amd64": "sha256:1"})
    assert kept(root, plan, state) is None


@pytest.mark.parametrize("undone", [True, False])
def test_files_that_change_during_a_bake_leave_no_key(root: Path, state: Path, undone: bool) -> None:
    plan = planned(root)
    chosen = selected(root, plan, state, Options(("test",)))
    task = next(iter(chosen.tasks.values()))
    finisher = Finisher(chosen, root / ".bakery", open_journal(state, plan.recipe), Mask({}), None, {})
    finisher.finish([task], {}, {})
    assert newest_records(state, plan.recipe)[task.name].key == chosen.keys[task.name]
    before = (root / "src" / "demo.c").read_text()
    (root / "src" / "demo.c").write_text("int edited;\n")
    if undone:
        (root / "src" / "demo.c").write_text(before)
    finisher.finish([task], {}, {})
    assert newest_records(state, plan.recipe)[task.name].key == ""


def test_recipes_that_are_up_to_date_are_found(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(root)
    finish(root, plan, state)
    monkeypatch.setenv("BAKERY_STATE_DIR", str(state))
    assert list(early([(root, plan)], CHANGED).reports) == ["demo"]
    assert early([(root, plan)], replace(CHANGED, selection=CellSelection.FAILED)).reports == {}


def test_what_is_to_be_built_is_selected_once(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(root)
    finish(root, plan, state)
    monkeypatch.setenv("BAKERY_STATE_DIR", str(state))
    (root / "src" / "demo.c").write_text("int other;\n")
    known = early([(root, plan)], CHANGED)
    chosen = known.selections["demo"]
    assert (known.reports, list(chosen.tasks), chosen.holds) == ({}, ["cp311", "cp313"], True)
    # The engine may take minutes to start.
    (root / "src" / "demo.c").write_text("int another;\n")
    assert not chosen.holds


def test_an_engine_that_was_not_there_tells_the_tag_of_an_image(root: Path, state: Path) -> None:
    plan = planned(root, base="ghcr.io/me/base:1")
    finish(root, plan, state, images={"ghcr.io/me/base:1 linux/amd64": "sha256:1"})
    chosen = select_early(root, plan, CHANGED, in_state(state))
    assert chosen
    assert not chosen.holds
