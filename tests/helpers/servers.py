"""Two web servers over a folder: a plain one, and one that negotiates the page of an index (PEP 691)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"


class Plain(SimpleHTTPRequestHandler):
    """As ``python -m http.server`` and GitHub Pages serve a folder; remembers what was asked for."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Negotiating(Plain):
    """As nginx with a map of the Accept header serves it: JSON to those that take it."""

    def translate_path(self, path: str) -> str:
        place = Path(super().translate_path(path))
        page = place / "index.v1_json"
        return str(page if JSON in self.headers.get("Accept", "") and page.exists() else place)

    def guess_type(self, path: object) -> str:
        return JSON if str(path).endswith("index.v1_json") else super().guess_type(str(path))


@contextmanager
def served(folder: Path, kind: type[Plain] = Plain, address: str = "127.0.0.1") -> Iterator[tuple[str, list[str]]]:
    """Serve a folder on an address of this machine; give its URL and the list of paths that are asked for."""
    with ThreadingHTTPServer((address, 0), partial(kind, directory=str(folder))) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{address}:{server.server_port}", server.asked  # type: ignore[attr-defined]
        finally:
            server.shutdown()
