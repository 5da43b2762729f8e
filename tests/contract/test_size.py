"""The space that a release takes: from the journals of kept runs, and of wheel files."""

from __future__ import annotations

import os
from pathlib import Path

import plans
import pytest
from recorded_runs import record_run
from wheels import TAG, write_wheel

from bakery.core.errors import AuditError
from bakery.plan.model import Plan
from bakery.release.size import ProjectSize, Source, by_project, limit_of, plan_size
from bakery.release.verify import verify
from bakery.runs.journal import Record, Result, newest_records
from wheel_audit.checks.size import PYPI_PROJECT_LIMIT

PYTHONS = '[matrix]\npython = ["3.11", "3.13"]\n'
PUBLIC = '[wheel]\nnaming = { clean = true, index = "public" }\n'
TWO_INDEXES = f'{PUBLIC}also-named = [{{ local = "cu130", index = "private" }}]\n'
CUDA = """\
[variables]
CUDA_VERSION = "13.0.3"
CUDA_ARCHS = "80;90"
[matrix]
python = ["3.11", "3.13"]
[builder]
toolkit = "cuda"
environment = { CUDAARCHS = "${CUDA_ARCHS}" }
"""


def planned(folder: Path, text: str, *sets: str) -> Plan:
    return plans.written(folder, f'name = "demo"\n{text}', *sets)


def sizes(state: Path, plan: Plan) -> dict[str, tuple[int | None, Source, tuple[str, ...]]]:
    cells, _ = plan_size(plan, plan.cells, state, "demo")
    return {cell.cell: (cell.size, cell.source, cell.cells) for cell in cells}


def test_built_cells_have_their_size_and_others_the_median(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, '[matrix]\npython = ["3.10", "3.11", "3.12", "3.13"]\n[builder]\nbase = "manylinux_2_28"\n'
    )
    record_run(tmp_path, plan, {"cp310": (300,), "cp311": (310,), "cp312": (350,)})
    assert sizes(tmp_path, plan) == {
        "cp310": (300, Source.BUILT, ()),
        "cp311": (310, Source.BUILT, ()),
        "cp312": (350, Source.BUILT, ()),
        "cp313": (310, Source.ESTIMATE, ("cp310", "cp311", "cp312")),
    }
    total = plan_size(plan, plan.cells, tmp_path, "demo")[1]
    assert (total.size, total.estimated, total.unknown, total.fault) == (1270, 310, 0, "")


def test_the_nearest_cells_count_and_python_is_no_distance(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.11", "3.13"]\nmode = ["fast", "small"]\n')
    record_run(tmp_path, plan, {"cp311-modefast": (700,), "cp313-modefast": (800,), "cp311-modesmall": (100,)})
    assert sizes(tmp_path, plan)["cp313-modesmall"] == (100, Source.ESTIMATE, ("cp311-modesmall",))


@pytest.mark.parametrize(("archs", "size"), [("80;90", 600), ("80;90;100", 900), ("90", 300), ("80-real", 300)])
def test_sizes_follow_the_number_of_architectures(tmp_path: Path, archs: str, size: int) -> None:
    record_run(tmp_path, planned(tmp_path, CUDA, "CUDA_ARCHS=80-real;90-real"), {"cp311": (600,)})
    real = ";".join(item if item.endswith("-real") else f"{item}-real" for item in archs.split(";"))
    now = sizes(tmp_path, planned(tmp_path, CUDA, f"CUDA_ARCHS={real}"))
    assert now["cp311"] == ((600, Source.BUILT, ()) if size == 600 else (size, Source.ESTIMATE, ("cp311",)))
    assert now["cp313"] == (size, Source.ESTIMATE, ("cp311",))


def test_a_bake_that_failed_says_nothing_about_the_wheel(tmp_path: Path) -> None:
    plan = planned(tmp_path, CUDA)
    record_run(tmp_path, plan, {"cp311": (600,)})
    # The next run compiled for three and failed: the wheel of the first one is the last one.
    record_run(tmp_path, planned(tmp_path, CUDA, "CUDA_ARCHS=80;90;100"), {"cp311": ()})
    assert sizes(tmp_path, plan)["cp311"] == (600, Source.BUILT, ())
    # A list that cannot be counted changes no size.
    assert sizes(tmp_path, planned(tmp_path, CUDA, "CUDA_ARCHS=all"))["cp311"] == (600, Source.BUILT, ())


def test_a_shared_wheel_counts_once(tmp_path: Path) -> None:
    plan = planned(tmp_path, PYTHONS)
    record_run(tmp_path, plan, {"cp311": (50,)})
    (wheels,) = (record.wheels for record in newest_records(tmp_path, plan.recipe).values())
    record_run(tmp_path, plan, {}, Record("cp313", "key", Result.DONE, wheels=wheels))
    assert sizes(tmp_path, plan) == {"cp311": (50, Source.BUILT, ()), "cp313": (0, Source.SHARED, ("cp311",))}
    # The wheel of another cell is in the sum, although only this one is asked for.
    cells, total = plan_size(plan, plan.cells[1:], tmp_path, "demo")
    assert ([cell.cell for cell in cells], total.size) == (["cp311", "cp313"], 50)
    promised = planned(tmp_path, f'{PYTHONS}[wheel]\nabi3 = "3.11"\n')
    assert sizes(tmp_path, promised)["cp313"] == (0, Source.SHARED, ("cp311",))


def test_without_a_run_nothing_is_known(tmp_path: Path) -> None:
    plan = planned(tmp_path, PYTHONS)
    record_run(tmp_path, plan, {"cp39": (9,)})
    assert sizes(tmp_path, plan)["cp311"] == (None, Source.UNKNOWN, ())
    assert plan_size(plan, plan.cells, tmp_path, "demo")[1].unknown == 2


def test_only_names_for_the_index_count_against_its_limit(tmp_path: Path) -> None:
    plan = planned(tmp_path, PYTHONS + TWO_INDEXES)
    # The last run had one name.
    record_run(tmp_path, plan, {"cp311": (100,)})
    total = plan_size(plan, plan.cells, tmp_path, "demo")[1]
    assert (total.size, total.uploaded) == (400, 200)
    # Cells of an override have the names that it gives them.
    own = '[[matrix.overrides]]\nwhere = { python = "3.13" }\nwheel = { naming = { local = "x", index = "private" } }\n'
    plan = planned(tmp_path, PYTHONS + own + PUBLIC)
    total = plan_size(plan, plan.cells, tmp_path, "demo")[1]
    assert (total.size, total.uploaded) == (200, 100)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", (PYPI_PROJECT_LIMIT, False)),
        (PUBLIC, (PYPI_PROJECT_LIMIT, True)),
        (TWO_INDEXES, (PYPI_PROJECT_LIMIT, True)),
        ('[wheel]\nnaming = { index = "private" }\n', None),
        ('[wheel]\nmax-project-size = "40 GB"\nnaming = { index = "private" }\n', (40 * 10**9, True)),
        ('[wheel]\nmax-project-size = "800 MB"\n', (800 * 10**6, True)),
    ],
)
def test_the_limit_of_a_project(tmp_path: Path, text: str, limit: tuple[int, bool] | None) -> None:
    found = limit_of(planned(tmp_path, text))
    assert (found and (found.size, found.binding)) == limit


def test_a_release_that_does_not_fit(tmp_path: Path) -> None:
    plan = planned(tmp_path, PUBLIC)
    cell = plan.cells[0].id
    record_run(tmp_path, plan, {cell: (PYPI_PROJECT_LIMIT,)})
    assert not plan_size(plan, plan.cells, tmp_path, "demo")[1].fault
    record_run(tmp_path, plan, {cell: (PYPI_PROJECT_LIMIT + 1,)})
    fault = plan_size(plan, plan.cells, tmp_path, "demo")[1].fault
    assert fault == "demo: the release takes 10.74 GB, more than the 10.74 GB that PyPI gives a project"
    # Without a name for a public index, the default is only shown.
    assert not plan_size(planned(tmp_path, ""), plan.cells, tmp_path, "demo")[1].fault


def test_recipes_of_one_project_share_its_limit(tmp_path: Path) -> None:
    default, own = (limit_of(planned(tmp_path, text)) for text in (PUBLIC, '[wheel]\nmax-project-size = "1 MB"\n'))
    parts = [
        ProjectSize("demo", 600_000, 600_000, default, 1, 2),
        ProjectSize("other", 5, 5, default),
        ProjectSize("demo", 500_000, 500_000, own, 10, 20),
    ]
    demo, other = by_project(parts)
    assert demo == ProjectSize("demo", 1_100_000, 1_100_000, own, 11, 22)
    assert demo.fault == "demo: the release takes 1.1 MB, more than the 1.0 MB of wheel.max-project-size"
    assert other == parts[1]


def test_verify_counts_wheels_and_their_variants(tmp_path: Path) -> None:
    limit = '[wheel]\nmax-project-size = "1 MB"\n'
    wheel = write_wheel(tmp_path, TAG)
    (project,) = verify([planned(tmp_path, limit)], [wheel], tmp_path / "memory").projects
    assert (project.project, project.size, project.uploaded) == ("demo", wheel.stat().st_size, wheel.stat().st_size)
    large = write_wheel(tmp_path, TAG, {"demo/data.bin": os.urandom(1_000_001)})
    with pytest.raises(AuditError, match="the release is too large") as caught:
        verify([planned(tmp_path, limit)], [large], tmp_path / "memory")
    assert caught.value.details == ("demo: the release takes 1.0 MB, more than the 1.0 MB of wheel.max-project-size",)
    # A variant is a file of the release, too. With other problems, the size is one of them.
    variant = write_wheel(tmp_path, TAG, {"demo/data.bin": os.urandom(500_000)}, filename=f"demo-1.0-{TAG}-cu130.whl")
    with pytest.raises(AuditError, match="2 problems") as caught:
        verify([planned(tmp_path, limit)], [large, variant], tmp_path / "memory")
    assert "the release takes 1.5 MB" in caught.value.details[-1]
    with pytest.raises(AuditError, match="2 problems") as caught:
        verify([planned(tmp_path, PYTHONS + limit)], [large], tmp_path / "memory")
    assert "a wheel is missing" in caught.value.details[0]
    assert "the release takes 1.0 MB" in caught.value.details[1]


@pytest.mark.parametrize(
    ("limit", "grown", "said"),
    [("", 50, ""), ("20 %", 19, ""), ("20%", 21, "more than the 20 % of wheel.max-growth"), ("0 %", -5, "")],
)
def test_a_wheel_that_grew_since_the_release_before(tmp_path: Path, limit: str, grown: int, said: str) -> None:
    plan = planned(tmp_path, f'[wheel]\nmax-growth = "{limit}"\n' if limit else "")
    (tmp_path / "old").mkdir()
    names = [f"demo-0.{minor}-{TAG.replace('_2_28', '_2_34')}.whl" for minor in (8, 10, 9)]
    others = [f"demo-0.11+cu130-{TAG}.whl", f"demo-0.11-{TAG.replace('manylinux_2_28', 'musllinux_1_2')}.whl", "no.whl"]
    wheel = write_wheel(tmp_path, TAG, {"demo/data.bin": os.urandom(100_000)})
    size = wheel.stat().st_size
    # Of several releases, the newest counts; wheels for other machines or of another local version do not.
    sizes = dict.fromkeys([*names, *others], 1) | {names[1]: round(size * 100 / (100 + grown))}
    for name, number in sizes.items():
        (tmp_path / "old" / name).write_bytes(bytes(number))
    old = sorted((tmp_path / "old").iterdir())
    if said:
        with pytest.raises(AuditError, match="the release is too large") as caught:
            verify([plan], [wheel], tmp_path / "memory", baseline=old)
        (line,) = caught.value.details
        assert line.endswith(said)
        assert "audit --baseline" in caught.value.hint
        assert "fewer cells" not in caught.value.hint
    else:
        (line,) = verify([plan], [wheel], tmp_path / "memory", baseline=old).growth
    assert f"{grown:+.1f} % since {names[1]}" in line


def test_verify_knows_a_distribution_for_each_value(tmp_path: Path) -> None:
    text = 'source = "sdist:demo==1.0"\n[matrix]\nflavor = ["a", "b"]\n[wheel]\nnaming = { name = "Demo-${FLAVOR}" }\n'
    plan = planned(tmp_path, text)
    wheels = [write_wheel(tmp_path, TAG, filename=f"demo_{name}-1.0-{TAG}.whl") for name in "ab"]
    with pytest.raises(AuditError) as caught:
        verify([plan], wheels, tmp_path / "memory")
    # The names of the files are as planned; what is in them is not.
    assert {line.split(":")[1].strip() for line in caught.value.details} == {wheel.name for wheel in wheels}
    with pytest.raises(AuditError) as caught:
        verify([plan], [write_wheel(tmp_path, TAG), *wheels[1:]], tmp_path / "memory")
    assert "demo cp311-flavora: a wheel is missing: Demo-a" in caught.value.details
    assert f"demo-1.0-{TAG}.whl: in no plan" in "\n".join(caught.value.details)
