"""Writes the results of real projects into docs/real-projects.md: ``python tests/engine/real_projects_page.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from real_projects import cuda_projects, projects, why_different, why_refused

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "real-projects.md"
CUDA_PAGE = ROOT / "docs" / "cuda-projects.md"
BEGIN, END = "<!-- results -->", "<!-- end -->"
RESULTS = ROOT / "tests" / "data" / "real_projects.json"
"""What was measured last."""

Item = Mapping[str, Any]


def unexplained(item: Item) -> list[str]:
    """Return what no reason is known for: differences from the wheel of pip, and the refusal of what pip builds."""
    found = [line for line in item.get("differences") or () if not why_different(item["name"], line)]
    if not item.get("pip_refused") and item.get("refused") and not why_refused(item["name"], item["refused"]):
        found.append(item["refused"])
    return found


def page_with(told: Mapping[str, Any], page: str) -> str:
    """Return the page with the tables."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{tables(told)}{END}{rest.partition(END)[2]}"


def tables(told: Mapping[str, Any]) -> str:
    """Return all tables of the documentation."""
    known = told["projects"]
    listed = [known[name] for name in projects() if name in known]
    packages = [known[name] for name in sorted(known) if "/" in name]
    missing = ", ".join(name for name in projects() if name not in known)
    lines = [
        f"Measured {_days(listed)}: {told['machine']}. {_sum(listed)}",
        "",
        *_table(listed, _of_index(listed)),
        *(["", f"In the list, and not measured: {missing}."] if missing else []),
        "",
        "## Test packages of build backends",
        "",
        "The test packages of scikit-build-core, meson-python, maturin, setuptools-rust and cibuildwheel (which its tests write),",
        "and nanobind with its backend and its example, each as a git checkout with the tag",
        f"`v0.0.1`, measured {_days(packages)}. {_sum(packages)}",
        *(
            ["Where both need crates, no server of crates could be reached."]
            if any(map(_lacks_crates, packages))
            else []
        ),
        "",
        *_table(packages, _of_backend(packages)),
        "",
        "## Differences, and why",
        "",
        *_differences([*listed, *packages]),
        "",
        "## Refused, and why",
        "",
        *_refused([*listed, *packages]),
    ]
    return "\n".join(lines) + "\n"


_VERDICTS = {"right": "right", "said": "no, as init says"}


def cuda_page_with(page: str) -> str:
    """Return the page of CUDA projects with its table."""
    before, _, rest = page.partition(BEGIN)
    found = cuda_projects().values()
    right = sum(item.verdict == "right" for item in found)
    rows = [
        (
            "project",
            "kind",
            "its own workflow",
            "what a recipe needed",
            "as written",
            "baked; largest difference on an H100 or H200",
        )
    ]
    rows += [
        (
            f"{x.name} {x.version}",
            x.kind,
            x.upstream,
            x.needed,
            _VERDICTS[x.verdict],
            "; ".join(filter(None, ["baked" if x.baked else "baked with its downloads" if x.ran else "", x.ran])),
        )
        for x in found
    ]
    rows.insert(1, ("---",) * len(rows[0]))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{before}{BEGIN}\n{right} of {len(found)} recipes are right as written. For the others, `init` says what is missing.\n\n{table}\n{END}{rest.partition(END)[2]}"


def _lacks_crates(item: Item) -> bool:
    """Whether cargo could not fetch what the project requires."""
    return "failed to get `" in item.get("pip_refused", "")


def _days(items: list[Item]) -> str:
    """Return when projects were measured."""
    days = sorted({item["on"] for item in items})
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def _sum(items: list[Item]) -> str:
    by_pip = [item for item in items if "pip_refused" not in item]
    baked = [item for item in by_pip if "wheel" in item]
    equal = sum(item["differences"] == [] for item in baked)
    return (
        f"`pip wheel` builds {len(by_pip)} of {len(items)}, Bakery {len(baked)} of these: {equal} wheels are equal,"
        f" {len(baked) - equal} differ for a reason below."
    )


def _table(items: list[Item], rows: Iterator[tuple[str, ...]]) -> list[str]:
    head = next(rows)
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)] if items else []


def _of_index(items: list[Item]) -> Iterator[tuple[str, ...]]:
    yield "project", "kind", "Python", "recipe", "edits", "wheel", "tested"
    for item in items:
        name, kinds = f"{item['name']} {item['version']}", ", ".join(item["kinds"])
        edits = f"{item['edits']}: {item['why']}" if item["edits"] else "0"
        yield name, kinds, item["python"], str(item["lines"]), edits, _compared(item), item.get("tested", "")


def _of_backend(items: list[Item]) -> Iterator[tuple[str, ...]]:
    yield "package", "edits", "wheel"
    for item in items:
        yield item["name"], f"{item['edits']}: {item['why']}" if item["edits"] else "0", _compared(item)


def _compared(item: Item) -> str:
    if "pip_refused" in item:
        return "pip fails" if "wheel" in item else "both fail"
    if "wheel" not in item:
        return "refused"
    return f"differs in {len(item['differences'])}" if item["differences"] else "as pip's"


def _differences(items: list[Item]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for item in items:
        for line in item.get("differences", []):
            why = why_different(item["name"], line) or "**a defect**"
            by_reason.setdefault(why, []).append(f"{item['name']}: {line}".replace("|", "\\|"))
    if not by_reason:
        return ["None."]
    rows = [f"| {why} | {'<br>'.join(lines)} |" for why, lines in by_reason.items()]
    return ["| why | what: that of pip is that of Bakery |", "|---|---|", *rows]


def _refused(items: list[Item]) -> list[str]:
    lines = []
    for item in items:
        if item.get("pip_refused"):
            lines.append(f"- {item['name']}: pip wheel: {item['pip_refused']}")
        if item.get("refused"):
            why = why_refused(item["name"], item["refused"]) if "pip_refused" not in item else ""
            lines.append(f"- {item['name']}: bakery: {item['refused']}{f' ({why})' if why else ''}")
    return lines


if __name__ == "__main__":
    PAGE.write_text(page_with(json.loads(RESULTS.read_text()), PAGE.read_text()))
    CUDA_PAGE.write_text(cuda_page_with(CUDA_PAGE.read_text()))
