"""A git repository that is served over HTTP on this machine."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from command import shell
from projects import SOURCE, extension


class GitServer(BaseHTTPRequestHandler):
    """Serves the repositories below ``root`` by ``git http-backend``."""

    protocol_version = "HTTP/1.0"
    root: Path

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env={**os.environ, **self._variables(self.headers, path, query)},
            stdout=subprocess.PIPE,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _variables(self, headers: Message, path: str, query: str) -> dict[str, str]:
        return {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        }


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the git repositories in a folder; give the URL of the folder."""
    handler = type("Handler", (GitServer,), {"root": folder})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def repository(folder: Path) -> Iterator[str]:
    """Serve a git repository whose tag v1.5 is an older version than its branch; give its URL."""
    work = extension(folder / "work", 'name = "elsewhere"\n', SOURCE)
    environment = {
        **os.environ,
        **{
            f"GIT_{who}_{what}": "test@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        },
    }

    def git(*words: str) -> None:
        shell(environment, "git", "-c", "init.defaultBranch=main", *words, cwd=work)

    git("init", "--quiet")
    for version in ("1.5", "2.0"):
        text = (work / "pyproject.toml").read_text()
        (work / "pyproject.toml").write_text(text.replace('version = "1.0"', 'version = "1.5"').replace("1.5", version))
        git("add", "--all")
        git("commit", "--quiet", "--message", version)
        git("tag", f"v{version}")
    git("clone", "--quiet", "--bare", ".", str(folder / "served" / "project.git"))
    with served(folder / "served") as url:
        yield f"{url}/project"
