"""Code blocks of the documentation, so that tests can run them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language, in order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)
