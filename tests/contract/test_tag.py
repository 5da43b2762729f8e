"""The git tag of a release, and the version of its wheels."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest
from repositories import commit, git
from wheels import TAG, write_wheel

from bakery.core.errors import AuditError
from bakery.plan.model import Plan
from bakery.release.verify import verify
from bakery.runs.wheel_tags import tag_faults, tag_warnings


def planned(folder: Path, text: str = "", name: str = "demo") -> Plan:
    return plans.written(folder, f'name = "{name}"\n{text}')


@pytest.mark.parametrize("tag", ["", "v1.0", "1.0.0", "demo-v1.0", "refs/tags/v1.0", "release-1"])
def test_the_right_tag(tmp_path: Path, tag: str) -> None:
    assert verify([planned(tmp_path)], [write_wheel(tmp_path, TAG)], tmp_path / "memory", tag=tag).wheels == 1


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("v1.1", "tag v1.1 says 1.1, but the version is 1.0: demo-1.0-"),
        ("v1.0rc1", "tag v1.0rc1 says 1.0rc1, but the version is 1.0"),
        ("other-v1.0", "tag other-v1.0 names no version of demo, but the version is 1.0"),
        ("nightly", "tag nightly names no version of demo"),
    ],
)
def test_a_wrong_tag_is_refused(tmp_path: Path, tag: str, said: str) -> None:
    with pytest.raises(AuditError, match=f"not the release that tag {tag} names") as caught:
        verify([planned(tmp_path)], [write_wheel(tmp_path, TAG)], tmp_path / "memory", tag=tag)
    assert caught.value.details[0].startswith(said)
    assert "move the tag" in caught.value.hint


def test_a_wrong_tag_stands_with_the_other_problems(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="2 problems") as caught:
        verify(
            [planned(tmp_path, '[matrix]\npython = ["3.11", "3.13"]\n')],
            [write_wheel(tmp_path, TAG)],
            tmp_path,
            tag="v2",
        )
    assert caught.value.details[-1].startswith("tag v2 says 2")


def test_what_the_tags_of_a_recipe_begin_with(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, TAG)
    for tag, name in (("tool/v1.0", "tool"), ("kernels-1.0", "demo"), ("py3-v1.0", "demo")):
        plan = planned(tmp_path, '[ci]\ntags = ["kernels-*", "py3-v*"]\n', name)
        assert verify([plan], [wheel], tmp_path / "memory", tag=tag).wheels == 1


def test_local_versions_of_the_recipe_are_no_others_and_those_of_a_version_tool_are(tmp_path: Path) -> None:
    wheels = [Path(f"demo-1.0+cu130-{TAG}.whl"), Path(f"demo-1.0-{TAG}-variant.whl")]
    (text,) = tag_faults([planned(tmp_path)], wheels, "v1.0")
    assert text == f"tag v1.0 says 1.0, but the version is 1.0+cu130: {wheels[0].name}"
    assert tag_faults([planned(tmp_path, '[wheel]\nnaming = { local = "cu130" }\n')], wheels, "v1.0") == []


def test_a_wheel_of_another_version_than_the_tag_of_its_commit(tmp_path: Path) -> None:
    plan, wheel = planned(tmp_path), write_wheel(tmp_path, TAG)
    assert tag_warnings(tmp_path, plan, [wheel]) == ()
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, 1_700_000_000, pyproject_toml="[project]\n")
    assert tag_warnings(tmp_path, plan, [wheel]) == ()
    for tag in ("nightly", "other-v9"):
        git(tmp_path, "tag", tag)
    assert tag_warnings(tmp_path, plan, [wheel]) == ()
    git(tmp_path, "tag", "v1.1rc1")
    (text,) = tag_warnings(tmp_path, plan, [wheel])
    assert text.startswith(f"{wheel.name} has version 1.0, but the commit has the tag v1.1rc1: ")
    # An untracked file changes no version; a changed one does.
    (tmp_path / "new").touch()
    assert tag_warnings(tmp_path, plan, [wheel])
    (tmp_path / "pyproject.toml").write_text("[project]\n# changed\n")
    assert tag_warnings(tmp_path, plan, [wheel]) == ()
    git(tmp_path, "checkout", "--quiet", ".")
    git(tmp_path, "tag", "v1.0")
    assert tag_warnings(tmp_path, plan, [wheel]) == ()
