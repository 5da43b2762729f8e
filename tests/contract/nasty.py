"""Recipes whose texts are as unpleasant as the models allow."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from bakery.recipe.models import Recipe
from bakery.recipe.models.text import REFERENCE

NAMES = ("ALPHA", "BETA_2", "PYTHON_VERSION")
"""Variables that every recipe here has."""

FRAGMENTS = (
    *("$", "$$", "${", "$${", "$$${", "}", "%", "%%", "%{", "%%{", "%{if true}x%{endif}", "{", "${upper(ALPHA)}"),
    *("\\", "\\\\", "\\n", "\\u0041", '"', '""', "'", "''", "`", "`id`", "$(id)", "$HOME", "$1", "$"),
    *("#", "# syntax=x", "//", "/*", "<<EOF", "EOF", "<<-'EOF'", "&&", "||", ";", "|", ">", "<", "~", "*", "?", "!"),
    *(
        "[", "]", "(", ")", "=", ":", ",", " ", "  ", "-", "--", "+=", "@", "^", ".", "..", "a", "Z", "0", "null",
        "true",
    ),
    *("é", "ü̈", "漢字", "𝄞", "👩‍👩‍👧", "\u00a0", "\u200b", "\u202e", "\ufeff", "\ue000", "\U000e0001", "\uffff"),
    *(f"${{{name}}}" for name in NAMES),
)  # fmt: skip
"""What some language on the way gives a meaning: HCL, Dockerfile, shell, CSV, JSON, globs."""

_CHARACTERS = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))


def _known_references(text: str) -> str:
    return REFERENCE.sub(lambda match: match.group() if match.group(1) in NAMES else f"${match.group(1)}", text)


lines = (
    st.lists(st.sampled_from(FRAGMENTS) | st.text(_CHARACTERS, max_size=3), max_size=8)
    .map("".join)
    .map(_known_references)
)
"""One line of anything."""

some_lines = lines.filter(bool)
upper = st.from_regex(re.compile(r"X_[A-Z0-9_]{0,6}", re.ASCII), fullmatch=True)
_versions = st.sampled_from(["3.9", "3.11", "3.13", "3.14"])
_requirements = st.sampled_from(
    [
        "cmake>=3.26", "a[b,c]==${ALPHA}", "x; python_version < '3.12'", 'y~=1.0; os_name == "posix"',
        "z===1.0+l${BETA_2}",
    ]
)  # fmt: skip
_axis_values = st.lists(some_lines.filter(lambda text: len(text) < 30), min_size=1, max_size=3, unique_by=str.lower)


def _variable(default: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    described = st.fixed_dictionaries({"default": default}, optional={"description": lines})
    return default | described | default.flatmap(_with_pattern)


def _with_pattern(default: str) -> st.SearchStrategy[object]:
    pattern = f"(?:{re.escape(default)}|[a-z]{{2}}|\\.%\\{{)"
    return st.just({"default": default, "pattern": pattern})


_matrices = st.fixed_dictionaries(
    {"python": st.lists(_versions, min_size=1, max_size=2, unique=True)},
    optional={
        "mode": _axis_values,
        "build-type": _axis_values,
        "overrides": st.lists(
            st.fixed_dictionaries(
                {
                    "where": st.sampled_from([{}, {"python": "3.13*"}, {"python": "3.9"}]),
                    "variables": st.just({"ALPHA": "ab"}) | st.fixed_dictionaries({"BETA_2": lines}),
                }
            ),
            max_size=2,
        ),
    },
)
_builders = st.fixed_dictionaries(
    {},
    optional={
        "base": st.just("debian") | st.just({"image": "quay.io/a/b:1", "digest": "sha256:" + "0" * 64}),
        "requirements": st.lists(_requirements, max_size=3),
        "system-packages": st.just(["zlib1g-dev", "libstdc++6"]),
        "environment": st.dictionaries(upper, lines, max_size=3),
        "compiler-cache": st.booleans(),
    },
)
_wheels = st.fixed_dictionaries(
    {},
    optional={
        "frontend": st.sampled_from(["build", "uv"]),
        "config-settings": st.dictionaries(some_lines, lines, max_size=3),
        "repair": st.booleans() | st.just({"exclude": ["libcuda.so.*", "lib[ab]?.so"], "strip": True}),
        "naming": st.just({"local": "l${ALPHA}", "build-tag": "1"}),
    },
)
_tests = st.fixed_dictionaries(
    {},
    optional={
        "requirements": st.lists(_requirements, max_size=2),
        "command": lines,
        "files": st.just(["tests", "a b/c'd"]),
        "imports": st.just(["a.b"]),
    },
)
_caches = st.fixed_dictionaries(
    {},
    optional={
        "backend": st.sampled_from(["none", "gha", "registry", "local"]),
        "ref": lines,
        "directory": lines,
        "branch": lines,
        "ignore-error": st.booleans(),
        "compression": st.just("zstd"),
        "gha": st.just({"timeout": "1h5m"}),
        "s3": st.fixed_dictionaries({"bucket": lines, "region": lines}, optional={"prefix": lines}),
        "mode": st.sampled_from(["min", "max"]),
    },
)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Recipes that have variables ALPHA and BETA_2, and anything else."""
    data: dict[str, object] = {
        "name": draw(st.sampled_from(["a", "a-b", "x" * 64, "a0"])),
        "variables": {
            "ALPHA": draw(_variable(lines)),
            "BETA_2": draw(_variable(lines)),
            **draw(st.dictionaries(upper, _variable(lines), max_size=2)),
        },
        "matrix": draw(_matrices),
        **draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "description": lines,
                    "source": st.sampled_from([".", "sub folder", "sdist:a==1", "git+https://h/$a'b\"c@v1"]),
                    "platforms": st.sampled_from([["linux/amd64"], ["linux/arm64", "linux/amd64"]]),
                    "builder": _builders,
                    "wheel": _wheels,
                    "test": _tests,
                    "cache": _caches,
                },
            )
        ),
    }
    return Recipe.model_validate(data)


overrides = st.one_of(
    st.builds(
        "{}.{}{}{}".format,
        st.sampled_from(["*", "wheel", "full", "test-*", "dev-cp3*"]),
        st.sampled_from(
            ["args.BUILDKIT_EXTRA", "args.BUILDKIT_lower_1", "labels.a.b", "labels.c", "contexts.c", "extra-hosts.h", "tags"]
        ),
        st.just("="),
        lines,
    ),
    st.sampled_from(
        [
            "*.no-cache=true", "wheel.pull=false", "dev.shm-size=1g", "*.tags+=", "*.cache-from=",
            "*.cache-from+=a/b", "dev.cache-to=type=local,dest=x",
        ]
    ),
)  # fmt: skip
"""Texts for ``--set``."""
