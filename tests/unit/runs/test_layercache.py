"""Which local layer caches a bake need not write, and when that is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import plans
import pytest

from bakery.core.errors import OutputError
from bakery.plan.model import Plan
from bakery.runs.buildx.bake import BakeRequest
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx_backend import MARK, MOST_TARGETS, LocalCaches, together

RECIPE = 'name = "demo"\n[matrix]\npython = ["3.11"]\n[test]\nimports = ["demo"]\n[cache]\nbackend = "{}"\nref = "r.example/c"\n'
NAMES = ["wheel-cp311", "test-cp311", "materials-cp311"]


def planned(
    folder: Path,
    backend: str = "local",
    overrides: tuple[str, ...] = (),
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    return plans.written(folder, RECIPE.format(backend), *overrides, environ=environ)


def request(folder: Path, plan: Plan) -> BakeRequest:
    targets = tuple(plan.select(("full",)))
    also = plan.materials_of(targets)
    return BakeRequest(folder, Path("bake.hcl"), targets, {}, {}, folder, "scope", beside=also)


def written(folder: Path, text: str = "{}") -> list[Path]:
    """Write caches as BuildKit does; return their folders."""
    places = [folder / ".bakery" / "cache" / f"demo-{name}-linux_amd64" for name in NAMES]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "index.json").write_text(text)
    return places


def outcome(*, ran: bool = False, cache: tuple[str, ...] = ()) -> BakeOutcome:
    return BakeOutcome({}, cache=cache, ran=ran)


def spares(caches: LocalCaches, request: BakeRequest) -> list[str]:
    return [text.removesuffix(".cache-to=") for text in caches.without_unchanged(request).overrides]


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    assert spares(caches, asked) == []
    places = written(tmp_path)
    # Somebody else wrote them.
    assert spares(caches, asked) == []
    caches.note(asked, outcome(ran=True))
    assert all((place / MARK).exists() for place in places)
    assert spares(caches, asked) == NAMES
    assert spares(LocalCaches(tmp_path, plan, {"cp311": "b"}), asked) == []
    again = caches.without_unchanged(asked)
    caches.note(again, outcome())
    assert spares(caches, asked) == NAMES


@pytest.mark.parametrize("name", ["", "demo-wheel-cp311-linux_amd64", "x/index.json", "x/blobs/sha256"])
def test_a_link_in_the_place_of_a_cache_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    link = root / ".bakery" / "cache" / name
    link.parent.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(OutputError, match="is a link"):
        LocalCaches(root, planned(root), {}).check()
    LocalCaches(root, planned(root, "none"), {}).check()


def test_a_cache_outside_of_the_project_is_its_users(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    LocalCaches(root, planned(root, environ={"BAKERY_CACHE_DIR": str(tmp_path / "cache")}), {}).check()


def test_a_cache_that_changed_is_written(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    written(tmp_path)
    caches.note(asked, outcome(ran=True))
    written(tmp_path, '{"other": 1}')
    assert spares(caches, asked) == []


@pytest.mark.parametrize("told", [outcome(ran=True), outcome(cache=("importing cache: no",))])
def test_a_run_that_found_less_than_all_has_the_next_one_write(tmp_path: Path, told: BakeOutcome) -> None:
    plan = planned(tmp_path)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    written(tmp_path)
    caches.note(asked, outcome(ran=True))
    caches.note(caches.without_unchanged(asked), told)
    assert spares(caches, asked) == []


def test_a_cache_that_was_not_written_has_no_mark(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    caches.note(asked, outcome(ran=True))
    written(tmp_path)
    caches.note(asked, outcome(ran=True, cache=("exporting cache: no space",)))
    assert spares(caches, asked) == []


def test_what_is_asked_for_anew_is_written(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    written(tmp_path)
    caches.note(asked, outcome(ran=True))
    assert spares(caches, replace(asked, no_cache=True)) == spares(caches, replace(asked, pull=True)) == []


@pytest.mark.parametrize(
    ("backend", "overrides"), [("registry", ()), ("none", ()), ("local", ("*.cache-to=type=inline",))]
)
def test_other_caches_are_none_of_it(tmp_path: Path, backend: str, overrides: tuple[str, ...]) -> None:
    plan = planned(tmp_path, backend, overrides)
    caches, asked = LocalCaches(tmp_path, plan, {"cp311": "a"}), request(tmp_path, plan)
    places = written(tmp_path)
    caches.note(asked, outcome(ran=True))
    assert spares(caches, asked) == []
    assert not any((place / MARK).exists() for place in places)


def test_cached_cells_are_few_bakes_of_at_most_90_targets(tmp_path: Path) -> None:
    one = request(tmp_path, planned(tmp_path))
    (alone,) = together([one])
    assert not alone.only_cached
    count = len(one.targets) + len(one.beside)
    requests = [replace(one, overrides=("*.pull=false", f"number{number}.pull=true")) for number in range(90)]
    bakes = together(requests)
    sizes = [len(bake.targets) + len(bake.beside) for bake in bakes]
    assert sum(sizes) == 90 * count
    assert max(sizes) <= MOST_TARGETS < max(sizes) + count
    assert all(bake.only_cached for bake in bakes)
    # What all have is said once.
    assert sum(bake.overrides.count("*.pull=false") for bake in bakes) == len(bakes)
    assert sum(len(bake.overrides) for bake in bakes) == 90 + len(bakes)
