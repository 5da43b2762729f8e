"""The victim of a hostile checkout: a folder and an environment, both full of canaries."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from repositories import commit, git

CANARY = "canary-3f81c2"
"""In every private file, variable and record of the victim; nothing that comes out may have it."""

_FORMS = {
    CANARY.encode(),
    CANARY.encode().hex().encode(),
    CANARY[::-1].encode(),
    *(base64.b64encode(b"x" * shift + CANARY.encode())[4 if shift else 0 : -4] for shift in range(3)),
}

_AUTH = base64.b64encode(f"user:{CANARY}-docker".encode()).decode()

VARIABLES = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
             "BAKERY_COMPILER_CACHE_PASSWORD", "TWINE_PASSWORD", "GIT_AUTH_TOKEN")  # fmt: skip


def make(folder: Path) -> Path:
    """Write the folder: a home, a private repository, old runs, and a file that others can read."""
    home = folder / "home"
    for name, text in {
        ".ssh/id_rsa": f"-----BEGIN PRIVATE KEY-----\n{CANARY}-key\n",
        ".docker/config.json": f'{{"auths": {{"registry.example": {{"auth": "{_AUTH}"}}}}}}',
        ".netrc": f"machine 127.0.0.1 login user password {CANARY}-netrc\n",
        ".pypirc": f"[pypi]\npassword = {CANARY}-pypirc\n",
        ".cargo/credentials.toml": f'[registry]\ntoken = "{CANARY}-cargo"\n',
        ".bashrc": "export X=1\n",
        ".gitconfig": "[user]\n\tname = victim\n\temail = victim@example.com\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
        (home / name).chmod(0o600)
    (folder / "shared").write_text("shared\n")
    for number in range(8):
        (folder / "runs" / f"2025010{number}T000000Z-1").mkdir(parents=True)
        (folder / "runs" / f"2025010{number}T000000Z-1" / "report.json").write_text("{}")
    (folder / "repository").mkdir()
    git(folder / "repository", "init", "--quiet", "--initial-branch=main")
    commit(folder / "repository", 1, **{"secret.txt": f"{CANARY}-repository\n", "bakery.toml": f'name = "{CANARY}"\n'})
    for depth, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        os.utime(path, (1_600_000_000 + depth, 1_600_000_000 + depth))
    os.utime(folder, (1_600_000_000, 1_600_000_000))
    return folder


def environment(home: Path) -> dict[str, str]:
    """Return the victim's variables, with an index that has a password, and a PATH that has the working folder."""
    return {
        **{name: f"{CANARY}-{name.lower()}" for name in VARIABLES},
        "HOME": str(home),
        "PATH": os.pathsep.join([".", "", "bin", os.environ["PATH"], ""]),
        "BAKERY_CACHE_KEY": f"{CANARY}-key",
        "COLUMNS": "200",
        "CI": "true",
        "GITHUB_ACTIONS": "true",
    }


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return all that a change of a file, its mode or its time changes."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else ""
        if stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = (
            stat.filemode(status.st_mode),
            status.st_mtime_ns,
            status.st_uid,
            content,
        )
    return found


def shows(data: bytes) -> bool:
    """Whether some bytes have a canary."""
    return any(form in data for form in _FORMS)


def leaks(folder: Path, victim: Mapping[tuple[int, int], Path]) -> Iterator[Path]:
    """Yield the files below a folder that have a canary; ``victim``: the victim's own files, which may be linked there."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            status = path.lstat()
            # Blocks, not bytes: files of terabytes are empty.
            is_small = stat.S_ISREG(status.st_mode) and status.st_blocks < 1 << 20 > 0 and status.st_size < 1 << 32
            if not is_small or (status.st_dev, status.st_ino) in victim:
                continue
            if shows(path.name.encode(errors="surrogateescape")) or any(map(shows, _contents(path))):
                yield path


def inodes(folder: Path) -> dict[tuple[int, int], Path]:
    """Return the files of a folder by device and inode."""
    return {(path.lstat().st_dev, path.lstat().st_ino): path for path in folder.rglob("*")}


def _contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".whl":
        try:
            with zipfile.ZipFile(path) as archive:
                for item in archive.infolist():
                    if item.file_size < 1 << 24:
                        yield archive.read(item)
        except (OSError, zipfile.BadZipFile, ValueError):
            return
