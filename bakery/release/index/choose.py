"""The page of an index for people: they choose torch, CUDA and Python, and get the command that installs the wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files as resources
from urllib.parse import quote

from bakery.plan.values import Json
from bakery.release.index import cuda
from bakery.release.index.files import File
from bakery.runs.report_page import single_page
from wheel_audit.wheel_names import split_label


def html(projects: Mapping[str, Sequence[File]]) -> str:
    """Return the page of an index with these projects."""
    rows = [_row(file) for files in projects.values() for file in reversed(files) if not file.yanked]
    script = resources("bakery.release.index").joinpath("choose.js").read_text(encoding="utf-8")
    links = "".join(
        f'<tr><td><a href="simple/{file.project}/{quote(file.name)}">{escape(file.name)}</a></td></tr>'
        for files in projects.values()
        for file in reversed(files)
    )
    body = (
        "<header><h1>Wheels</h1></header>\n<main>\n"
        '<section aria-labelledby="choice"><h2 id="choice">Which wheel?</h2>'
        '<p>pip and uv take <a href="simple/">simple/</a> as an index.</p></section>\n'
        f'<section aria-labelledby="all"><h2 id="all">All wheels</h2><table>{links}</table></section>\n</main>'
    )
    return single_page("Wheels", body, {"wheels": [*rows]}, script)


def _row(file: File) -> Json:
    release, torch = cuda.label(file)
    python, abi, platform = split_label(file.name)[0].removesuffix(".whl").split("-")[-3:]
    return {
        "project": file.project,
        "version": file.version,
        "folder": release or "simple",
        "CUDA": cuda.dotted(release),
        "torch": torch,
        "Python": _python(python, abi),
        "platform": platform,
    }


def _python(python: str, abi: str) -> str:
    if not python.startswith("cp3"):
        return ""
    text = f"3.{python[3:]}{'t' if abi.endswith('t') else ''}"
    return f"{text} and newer" if abi == "abi3" else text
