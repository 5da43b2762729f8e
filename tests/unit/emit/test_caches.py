"""The layer cache of a target: which places it is read from and written to, and how."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest

from bakery.core.errors import PlanError
from bakery.core.target_kinds import TARGET_KINDS
from bakery.emit.bakefile import bake_json
from bakery.plan.model import Plan
from bakery.plan.values import Json

RECIPE = 'name = "demo"\nplatforms = ["linux/amd64", "linux/arm64"]\n[matrix]\npython = ["3.11", "3.13"]\n'


def planned(folder: Path, text: str = "", environ: dict[str, str] | None = None) -> Plan:
    return plans.written(folder, RECIPE + text, environ=environ)


def caches(plan: Plan, key: str) -> list[dict[str, Json]]:
    """Return the entries of all targets, one after the other."""
    found: list[dict[str, Json]] = []
    for target in bake_json(plan, tuple(plan.targets())).values():
        entries = target.get(key, [])
        assert isinstance(entries, list)
        found += [entry for entry in entries if isinstance(entry, dict)]
    return found


def test_none_by_default(tmp_path: Path) -> None:
    assert caches(planned(tmp_path), "cache-to") == caches(planned(tmp_path), "cache-from") == []


@pytest.mark.parametrize(("backend", "key"), [("gha", "scope"), ("registry", "ref"), ("local", "dest"), ("s3", "name")])
def test_each_target_platform_and_branch_writes_a_place_of_its_own(tmp_path: Path, backend: str, key: str) -> None:
    table = f'[cache]\nbackend = "{backend}"\nref = "r.example/c"\n[cache.s3]\nbucket = "b"\nregion = "r"\n'
    plans = [planned(tmp_path, table, {"BAKERY_CACHE_BRANCH": branch}) for branch in ("", "feature/x", "feature_x")]
    places = [entry[key] for plan in plans for entry in caches(plan, "cache-to")]
    targets = [target for target in plans[0].targets() if TARGET_KINDS[target.kind].writes_cache]
    assert len(places) == len(set(map(str, places))) == 3 * len(targets)


@pytest.mark.parametrize(("value", "written"), [("true", False), ("false", True), ("", True)])
def test_what_only_reads_writes_nothing(tmp_path: Path, value: str, written: bool) -> None:
    plan = planned(tmp_path, '[cache]\nbackend = "gha"\n', {"BAKERY_CACHE_READ_ONLY": value})
    assert caches(plan, "cache-from")
    assert bool(caches(plan, "cache-to")) is written
    assert "CACHE_READ_ONLY" not in plan.args


def test_whether_a_cache_is_written_is_said_by_two_words(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        planned(tmp_path, "", {"BAKERY_CACHE_READ_ONLY": "1"})
    assert caught.value.details == ("CACHE_READ_ONLY: expected true or false, got '1'",)


def test_own_branch_is_asked_first_then_the_default_branch(tmp_path: Path) -> None:
    table = '[cache]\nbackend = "registry"\nref = "r.example/c"\n'
    default, own = planned(tmp_path, table), planned(tmp_path, table, {"BAKERY_CACHE_BRANCH": "feature/x"})
    (written,) = {
        str(entry["ref"]) for entry in caches(own, "cache-to") if "wheel-cp311-linux_x86" in str(entry["ref"])
    }
    read = [str(entry["ref"]) for entry in caches(own, "cache-from") if "wheel-cp311-linux_x86" in str(entry["ref"])]
    (shared,) = {str(one["ref"]) for one in caches(default, "cache-to") if "wheel-cp311-linux_x86" in str(one["ref"])}
    assert list(dict.fromkeys(read)) == [written, shared]
    # Nothing is read that nobody writes.
    assert {str(one["ref"]) for one in caches(default, "cache-from")} == {
        str(one["ref"]) for one in caches(default, "cache-to")
    }


def test_materials_are_read_from_the_cache_of_their_wheel(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[cache]\nbackend = "gha"\n')
    found = bake_json(plan, tuple(plan.targets()))
    (own,) = found["wheel-cp311-linux_x86_64"]["cache-from"]  # type: ignore[misc, union-attr]
    assert found["materials-cp311-linux_x86_64"]["cache-from"][0] == own  # type: ignore[index, call-overload]


def test_how_it_is_written(tmp_path: Path) -> None:
    table = (
        '[cache]\nbackend = "local"\ncompression = "zstd"\ncompression-level = 19\nmode = "min"\nignore-error = false\n'
    )
    first = caches(planned(tmp_path, table), "cache-to")[0]
    assert first == {
        "type": "local",
        "dest": ".bakery/cache/demo-wheel-cp311-linux_x86_64-linux_amd64",
        "mode": "min",
        "ignore-error": "false",
        "compression": "zstd",
        "compression-level": "19",
        "force-compression": "true",
    }


def test_an_image_holds_its_own_cache(tmp_path: Path) -> None:
    plan = plans.written(
        tmp_path,
        'name = "tools"\n[image]\nrequirements = ["ninja"]\n[cache]\nbackend = "inline"\nref = "r.example/tools"\n',
    )
    target = bake_json(plan, plan.select(("image",)))["image-cp311"]
    assert target["cache-to"] == [{"type": "inline"}]
    assert target["cache-from"] == [{"type": "registry", "ref": "r.example/tools:tools-image-cp311-linux_amd64"}]
