"""The page of seven tasks: counts what a maintainer types with each tool, from the files in docs/comparison."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "comparison"
PAGE = ROOT / "docs" / "comparison.md"
START, END = "<!-- seven tasks -->\n", "<!-- end of seven tasks -->\n"

TOOLS = {
    "bakery": "Bakery",
    "cibuildwheel": "cibuildwheel",
    "posit-bakery": "posit-bakery",
    "bake": "a hand-written bake file",
}
TASKS = {
    "start": "start: tested wheels for CUDA 13.0",
    "change": "change a line, build again",
    "debug": "open a shell where a build failed",
    "add-cuda": "add CUDA 12.9",
    "add-python": "add Python 3.14t",
    "release": "release on a tag",
    "audit": "audit someone else's wheel",
}


def typed(path: Path) -> int:
    """Return the number of lines that a person types for a file: no blank lines, comments, or context of a diff."""
    lines = path.read_text().splitlines()
    if path.suffix == ".diff":
        return sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)


def counts(task: str, tool: str) -> tuple[int, int]:
    """Return the lines of commands and the lines of files."""
    files = [path for path in sorted((FOLDER / task / tool).rglob("*")) if path.is_file()]
    assert files, f"{task} with {tool} has no files"
    commands = sum(typed(path) for path in files if path.name == "commands.sh")
    return commands, sum(typed(path) for path in files) - commands


def table() -> str:
    """Return the table in Markdown: commands + lines of files."""
    rows = [f"| task | {' | '.join(TOOLS.values())} |", f"|---|{'---:|' * len(TOOLS)}"]
    for task, title in TASKS.items():
        cells = ["{} + {}".format(*counts(task, tool)) for tool in TOOLS]
        rows.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page with today's table."""
    before, _, rest = PAGE.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n{END}{after}"
