"""A registry of crates on this machine: the crates that the source archive of a project on the index brings."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from command import ROOT

BROUGHT_BY, FOLDER = "orjson==3.13.0", "include/cargo"
"""A project whose source archive has all its crates, and where."""

CRATES = ("pyo3-ffi", "pyo3-build-config", "target-lexicon", "libc", "itoap")


@dataclass(frozen=True)
class Crate:
    """A crate that the registry has."""

    name: str
    version: str
    checksum: str


class _Handler(SimpleHTTPRequestHandler):
    """Serves files, the index only to those who know the password, and writes down what was asked for."""

    asked: list[str]
    password: str

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if (
            self.path.endswith((".crate", ".toml", ".sha256", ".gz"))
            or self.headers.get("Authorization") == self.password
        ):
            super().do_GET()
        else:
            self.send_error(401)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path, host: str, password: str) -> Iterator[tuple[str, list[str], list[Crate]]]:
    """Give the address of a sparse index, the paths that were asked for, and its crates."""
    fetch = ("bakery/toolchains/programs/packages", "fetch", BROUGHT_BY, str(folder / "source"))
    subprocess.run([sys.executable, *fetch], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    asked: list[str] = []
    handler = type("Handler", (_Handler,), {"asked": asked, "password": password})
    (folder / "www").mkdir()
    server = ThreadingHTTPServer((host, 0), partial(handler, directory=str(folder / "www")))
    url = f"http://{host}:{server.server_port}"
    config = {"dl": f"{url}/{{crate}}-{{version}}.crate", "auth-required": True}
    (folder / "www" / "config.json").write_text(json.dumps(config))
    crates = [_publish(path, folder / "www") for path in sorted((folder / "source" / FOLDER).iterdir())]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"sparse+{url}/", asked, [item for item in crates if item.name in CRATES]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _publish(folder: Path, www: Path) -> Crate:
    """Write a crate's archive and its line in the index (https://doc.rust-lang.org/cargo/reference/registry-index.html)."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    name, version = manifest["package"]["name"], manifest["package"]["version"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != ".cargo-checksum.json":
                archive.add(path, f"{name}-{version}/{path.relative_to(folder)}")
    (www / f"{name}-{version}.crate").write_bytes(packed.getvalue())
    checksum = hashlib.sha256(packed.getvalue()).hexdigest()
    entry = {
        "name": name,
        "vers": version,
        "deps": list(_dependencies(manifest)),
        "cksum": checksum,
        "features": manifest.get("features", {}),
        "yanked": False,
    }
    line = www / (f"3/{name[0]}" if len(name) == 3 else f"{name[:2]}/{name[2:4] or name}") / name
    line.parent.mkdir(parents=True, exist_ok=True)
    line.write_text(json.dumps(entry) + "\n")
    return Crate(name, version, checksum)


def _dependencies(manifest: dict[str, object]) -> Iterator[dict[str, object]]:
    targets = manifest.get("target", {})
    assert isinstance(targets, dict)
    for target, table in [(None, manifest), *targets.items()]:
        for key, kind in (("dependencies", "normal"), ("build-dependencies", "build")):
            for name, written in table.get(key, {}).items():
                entry = {"version": written} if isinstance(written, str) else written
                yield {
                    "name": name,
                    "req": entry["version"],
                    "features": entry.get("features", []),
                    "optional": entry.get("optional", False),
                    "default_features": entry.get("default-features", True),
                    "target": target,
                    "kind": kind,
                    **({"package": entry["package"]} if "package" in entry else {}),
                }
