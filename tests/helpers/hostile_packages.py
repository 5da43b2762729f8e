"""Packages with code that tells when it runs, and an index for them on loopback. They need nothing but Python."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import servers
from servers import Plain

BACKEND = '''\
"""A build backend of one file. It builds the project in this folder as far as PKG-INFO or pyproject.toml tell it."""

import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    scope = {}
    exec(open("setup.py").read(), scope)
    name, version = scope["NAME"], scope["VERSION"]
    info = name + "-" + version + ".dist-info/"
    metadata = "Metadata-Version: 2.1\\nName: " + name + "\\nVersion: " + version + "\\n" + scope.get("MORE", "")
    file = name + "-" + version + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, file), "w") as wheel:
        wheel.writestr(name + ".py", scope.get("MODULE", ""))
        wheel.writestr(info + "METADATA", metadata)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return file
'''
"""The module of the package ``ownbackend``."""

PYPROJECT = '[build-system]\nrequires = ["ownbackend"]\nbuild-backend = "ownbackend"\n'


Files = Mapping[str, str]


def wheel(
    folder: Path, name: str, version: str = "1.0", files: Files | None = None, requires: Sequence[str] = ()
) -> Path:
    """Write a wheel into an index; return its path."""
    return pure_wheel(folder / name, name, version, files, requires)


def pure_wheel(folder: Path, name: str, version: str, files: Files | None = None, requires: Sequence[str] = ()) -> Path:
    """Write a wheel into a folder; return its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info/"
    needs = "".join(f"Requires-Dist: {item}\n" for item in requires)
    members = {
        **(files or {}),
        f"{info}METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}WHEEL": "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return path


def sdist(
    folder: Path, name: str, version: str = "1.0", setup: str = "", info: str = "", files: Files | None = None
) -> Path:
    """Write a source archive into an index; ``setup`` runs when it is built, ``info`` ends its PKG-INFO."""
    path = folder / name / f"{name}-{version}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    members = {
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n{info}",
        "pyproject.toml": PYPROJECT,
        "setup.py": f"NAME, VERSION = {name!r}, {version!r}\n{setup}",
        **(files or {}),
    }
    with tarfile.open(path, "w:gz") as archive:
        for member, text in members.items():
            data = text.encode()
            one = tarfile.TarInfo(f"{name}-{version}/{member}")
            one.size = len(data)
            archive.addfile(one, io.BytesIO(data))
    return path


def backend(folder: Path) -> Path:
    """Write the package that builds those of `sdist`."""
    return wheel(folder, "ownbackend", files={"ownbackend.py": BACKEND})


class Index(Plain):
    """Serves a folder as an index (PEP 503), to those with the password if it has one."""

    password = ""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"me:{self.password}".encode()).decode()
        if not self.password or self.headers["Authorization"] == wanted:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def list_directory(self, path: object) -> io.BytesIO:
        """Answer with links that have the hashes of the files; hidden files have more of a link, or its algorithm."""
        folder = Path(str(path))

        def link(item: Path) -> str:
            if item.is_dir():
                return f'<a href="{item.name}/">{item.name}</a>'
            kind = "md5" if (folder / ".md5").exists() else "sha256"
            more = folder / f".{item.name}"
            digest = hashlib.new(kind, item.read_bytes()).hexdigest()
            return f'<a href="{item.name}#{kind}={digest}" {more.read_text() if more.exists() else ""}>{item.name}</a>'

        links = (link(item) for item in sorted(folder.iterdir()) if not item.name.startswith("."))
        body = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)


def served(folder: Path, host: str = "127.0.0.1", password: str = "") -> AbstractContextManager[tuple[str, list[str]]]:
    """Serve a folder; give its URL and the list of paths that are asked for."""
    return servers.served(folder, type("Guarded", (Index,), {"password": password}), host)


def settings(url: str) -> Mapping[str, str]:
    """Return the environment in which pip asks an index, and nothing else."""
    return {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": url,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
