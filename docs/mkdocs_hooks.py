"""Hooks of MkDocs: the pages that are generated from the command, and links to files outside of docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

from bakery.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the page on commands."""
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show links to files of the repository outside of docs/ as the paths of these files: the site does not have them."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        # A link that leads nowhere stays, for MkDocs to report.
        return match[0] if path.startswith("docs/") or not (ROOT / path).exists() else f"{match[1]} (`{path}`)"

    return _LINK.sub(shown, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Give the fields of tables the titles of their columns, which a phone shows beside them (site.css)."""

    def labelled(table: re.Match[str]) -> str:
        titles = [re.sub("<[^>]*>", "", title) for title in re.findall(r"<th[^>]*>(.*?)</th>", table[0])]

        def row(match: re.Match[str]) -> str:
            fields = iter(titles)
            return re.sub("<td", lambda _: f'<td data-title="{next(fields, "")}"', match[0])

        return re.sub(r"(?s)<tr>.*?</tr>", row, table[0])

    html = re.sub(r"(?s)<table>.*?</table>", labelled, html)
    # A header without a title is none.
    return re.sub(r"<th[^>]*></th>", "<td></td>", html)


def commands() -> str:
    """Return the page with the help of every command."""
    group = typer.main.get_command(app)
    pages = ["# Commands", ""]
    for name in group.commands:  # type: ignore[attr-defined]
        text = CliRunner().invoke(app, [name, "--help"], prog_name="wheel-bakery", env={"COLUMNS": "100"}).output
        pages += [f"## {name}", "", "```text", text.strip(), "```", ""]
    return "\n".join(pages)
