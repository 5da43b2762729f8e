"""Files and names of the code that documents and docstrings mention exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
MODULES = [*ROOT.glob("bakery/**/*.py"), *ROOT.glob("packages/*/*/**/*.py")]

TO_CREATE = {
    "bakery/toolchains/bases/ubuntu.py", "bakery/toolchains/toolkits/wheels14.py",
    "bakery/resolve/rules/groups/ccache.py", "packages/wheel-audit/wheel_audit/checks/editable.py",
    "tests/golden/recipes/ubuntu.toml", "tests/golden/recipes/wheels14.toml",
}  # fmt: skip
"""Files that the examples of CONTRIBUTING.md create."""

_PATH = re.compile(r"`{1,2}((?:bakery|tests|bench|docs|examples|schema)/[\w./*{},-]+)(?:::[^`]*)?`{1,2}")
_NAME = re.compile(r"`{1,2}(bakery(?!\.(?:toml|lock|commands)\b)(?:\.\w+)+)(?:\(\))?`{1,2}")


def test_files_exist() -> None:
    texts = {page: set(_PATH.findall(page.read_text(encoding="utf-8"))) - TO_CREATE for page in [*PAGES, *MODULES]}
    gone = {
        f"{page.relative_to(ROOT)}: {name}"
        for page, names in texts.items()
        for name in names
        if "TARGET" not in name and not list(ROOT.glob(name.rstrip("/")))
    }
    assert gone == set()
    assert len(set().union(*texts.values())) > 100


def test_files_of_the_architecture_exist() -> None:
    """It names many without the package: ``build/finish.py``."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|toml))`", text))
    assert sorted(name for name in named if not any((ROOT / top / name).is_file() for top in ("", "bakery"))) == []
    assert len(named) > 60


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ImportError:
        return bool(module) and (exists(module) and hasattr(importlib.import_module(module), attribute))
    return True


def test_names_exist() -> None:
    named = {name for page in [*PAGES, *MODULES] for name in _NAME.findall(page.read_text(encoding="utf-8"))}
    assert sorted(name for name in named if not exists(name)) == []
    assert len(named) > 8
