"""Which version a tag names."""

from __future__ import annotations

import pytest
from packaging.version import Version

from bakery.core.release_tags import is_release, tag_prefix, tag_version


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v1.2.0", "1.2"),
        ("V1.2", "1.2"),
        ("1.2.0", "1.2"),
        ("refs/tags/v1.2", "1.2"),
        ("v2.0.0rc1", "2rc1"),
        ("v2.0.0-rc.1", "2rc1"),
        ("v1.0.post2", "1.post2"),
        ("v1.0-1", "1.post1"),
        ("v2026.11.3.post2", "2026.11.3.post2"),
        ("2026-11-03", "2026.11.3"),
        ("v7", "7"),
        ("7", "7"),
        ("v1!2.0", "1!2.0"),
        ("v1.0+cu128", "1.0+cu128"),
        ("release-1.2", "1.2"),
        ("release/v1.2", "1.2"),
        ("rel_2_0_1", "2.0.1"),
        ("r12", "12"),
        ("my-pkg-v1.2", "1.2"),
        ("my-pkg/v1.2", "1.2"),
        ("my_pkg-1.2", "1.2"),
        ("My.Pkg@1.2", "1.2"),
        ("my-pkg==1.2", "1.2"),
        ("my-pkg_1_2_3", "1.2.3"),
        ("my-pkg-release-1.2", "1.2"),
        ("packages/pkg/v1.2", "1.2"),
        ("otherpkg-v9.9.0", None),
        ("my-pkg-2-v1.0", None),
        ("not-my-pkg-v1.0", None),
        ("nightly", None),
        ("v", None),
        ("", None),
        ("my-pkg", None),
        ("vmy-pkg1.2", None),
        ("v1.x", None),
        ("v" + "9" * 5000, None),
    ],
)
def test_the_version_of_a_tag(tag: str, version: str | None) -> None:
    assert tag_version(tag, ["my.pkg", "packages/pkg"]) == (Version(version) if version else None)


def test_the_longest_name_comes_first() -> None:
    assert tag_version("foo-2-1.0", ["foo", "foo-2"]) == Version("1.0")


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("v*", ""),
        ("v[0-9]*", ""),
        ("*", ""),
        ("v1.*", ""),
        ("pkg-v*", "pkg"),
        ("pkg/*", "pkg"),
        ("release/v1.*", "release"),
        ("py3-v*", "py3"),
        ("dev*", "dev"),
    ],
)
def test_what_the_tags_of_a_recipe_begin_with(pattern: str, prefix: str) -> None:
    assert tag_prefix(pattern) == prefix


@pytest.mark.parametrize(
    ("version", "tag", "locals_", "same"),
    [
        ("1.2", "1.2.0", False, True),
        ("1.2+cu130", "1.2", True, True),
        ("1.2+cu130", "1.2", False, False),
        ("1.2+cu130", "1.2+cu130", False, True),
        ("1.2+cu128", "1.2+cu130", True, False),
        ("1!1.2", "1.2", False, False),
        ("1.2rc1", "1.2", False, False),
    ],
)
def test_a_release_has_the_version_of_its_tag(version: str, tag: str, locals_: bool, same: bool) -> None:
    assert is_release(Version(version), Version(tag), locals_) is same
