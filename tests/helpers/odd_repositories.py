"""Repositories with objects that git itself would not make."""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from pathlib import Path

Entry = tuple[str, str, str]


class Repository:
    """A checkout whose objects are written as they are."""

    def __init__(self, top: Path) -> None:
        self.top = top
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(top)], check=True)
        (top / "a").write_text("x")

    def add(self, kind: str, data: bytes) -> str:
        raw = f"{kind} {len(data)}\0".encode() + data
        name = hashlib.sha1(raw).hexdigest()
        path = self.top / ".git/objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(raw))
        return name

    def tree(self, *entries: Entry) -> str:
        return self.add("tree", b"".join(f"{m} {n}\0".encode() + bytes.fromhex(item) for m, n, item in entries))

    def commit(self, tree: str) -> str:
        who = "a <a@b> 1 +0000"
        name = self.add("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
        (self.top / ".git/refs/heads/main").write_text(f"{name}\n")
        return name

    def bomb(self, leaf: str) -> str:
        """Return a commit whose trees hold ten of each other, ten levels deep."""
        for _ in range(10):
            leaf = self.tree(*(("40000", str(number), leaf) for number in range(10)))
        return self.commit(leaf)
