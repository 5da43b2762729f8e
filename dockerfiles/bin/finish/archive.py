#!/opt/bakery/bin/python
"""Write wheels again so that their archives contain no trace of the build machine.

Usage: archive.py FOLDER...

Names, contents and the executable bit of files stay the same. Members are sorted by name, with *.dist-info at the end;
their time is SOURCE_DATE_EPOCH; their modes, which depend on the umask of a checkout, are 0644 or 0755; RECORD is
sorted. Symbols that nvcc names after its process (tmpxft_0000286a_…, the only difference between two compilations by
nvcc 13.0) get the number 0.
"""

from __future__ import annotations

import base64
import csv
import glob
import hashlib
import io
import os
import re
import stat
import sys
import time
import zipfile
from typing import IO, Dict, Iterator, List, Tuple

FIRST = 315532800
"""1980-01-01: an archive knows no earlier time."""

LARGE = 1 << 31

CHUNK = 1 << 20

TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]{8}_")
"""The beginning of the names of nvcc's temporary files: the number is that of its process."""


def place(name: str) -> Tuple[bool, bool, str]:
    """Return where a member stands: RECORD is the last, after the rest of its folder, after all others."""
    folder, _, rest = name.partition("/")
    info = folder.endswith(".dist-info")
    return info, info and rest == "RECORD", name


def moment() -> Tuple[int, int, int, int, int, int]:
    """Return the time of all members, in UTC."""
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH") or FIRST), FIRST))
    return when.tm_year, when.tm_mon, when.tm_mday, when.tm_hour, when.tm_min, when.tm_sec


def members(archive: zipfile.ZipFile, name: str) -> List[zipfile.ZipInfo]:
    """Return the files of a wheel in their order; exit if two have the same name."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len({info.filename for info in infos}) != len(infos):
        sys.exit("archive: " + name + " has two files of one name")
    return sorted(infos, key=lambda info: place(info.filename))


class Heard:
    """A stream whose content is hashed while it is read."""

    def __init__(self, stream: IO[bytes], digest: "hashlib._Hash") -> None:
        self.stream, self.digest = stream, digest

    def read(self, size: int) -> bytes:
        """Read, and hash what was read."""
        data = self.stream.read(size)
        self.digest.update(data)
        return data


def steady(stream: Heard) -> Iterator[bytes]:
    """Yield what a stream holds, in pieces; of machine code without the numbers of processes."""
    window = stream.read(CHUNK)
    if not window.startswith(b"\x7fELF"):
        while window:
            yield window
            window = stream.read(CHUNK)
        return
    longest = len("tmpxft_00000000_")
    while True:
        window = TEMPORARY.sub(b"tmpxft_00000000_", window)
        more = stream.read(CHUNK)
        if not more:
            yield window
            return
        # A name may lie across two pieces.
        yield window[:-longest]
        window = window[-longest:] + more


def record(text: bytes, written: Dict[str, Tuple[str, int]]) -> bytes:
    """Return a RECORD with its rows in the order of members, and with what was written: name -> (digest, size)."""
    rows = [row for row in csv.reader(io.StringIO(text.decode("utf-8"))) if row]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in sorted(rows, key=lambda row: place(row[0])):
        # Rows of files that were not changed stay, right or wrong.
        digest, size = written.get(row[0], ("", 0))
        writer.writerow([row[0], digest, str(size)] if digest else row)
    return out.getvalue().encode("utf-8")


def written(path: str, target: str) -> None:
    """Write a wheel anew."""
    when = moment()
    entries: Dict[str, Tuple[str, int]] = {}
    with zipfile.ZipFile(path) as origin, zipfile.ZipFile(target, "w") as archive:
        for old in members(origin, os.path.basename(path)):
            new = zipfile.ZipInfo(old.filename, when)
            new.create_system = 3  # Unix: modes count
            new.external_attr = (stat.S_IFREG | (0o755 if old.external_attr >> 16 & 0o111 else 0o644)) << 16
            new.compress_type = old.compress_type
            with origin.open(old) as source, archive.open(new, "w", force_zip64=old.file_size >= LARGE) as out:
                if place(old.filename)[1]:
                    out.write(record(source.read(), entries))
                    continue
                was, now, size = hashlib.sha256(), hashlib.sha256(), 0
                for piece in steady(Heard(source, was)):
                    now.update(piece)
                    size += out.write(piece)
            if was.digest() != now.digest():
                digest = base64.urlsafe_b64encode(now.digest()).rstrip(b"=").decode()
                entries[old.filename] = ("sha256=" + digest, size)


def main() -> None:
    """Write every wheel of the folders anew."""
    for folder in sys.argv[1:]:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.whl"))):
            try:
                written(path, path + ".new")
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                sys.exit("archive: cannot write " + os.path.basename(path) + " anew: " + str(error))
            os.replace(path + ".new", path)
            os.chmod(path, 0o644)


if __name__ == "__main__":
    main()
