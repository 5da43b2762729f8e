"""Write wheels anew so that nothing of the machine that built them is left in their archives.

Usage: archive.py FOLDER...

What a file is called, holds, and whether it can be run stays. The order of members (a file system's own until now) is that
of their names, with *.dist-info at the end; their time is SOURCE_DATE_EPOCH; modes, which follow the umask of a checkout,
are 0644 or 0755; RECORD is sorted.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import shutil
import stat
import sys
import time
import zipfile
from typing import IO, List, Tuple

FIRST = 315532800
"""1980-01-01: an archive knows no earlier time."""

LARGE = 1 << 31


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
    """Return the files of a wheel in their order.

    Raises:
        SystemExit: two have one name.
    """
    found = [info for info in archive.infolist() if not info.is_dir()]
    if len({info.filename for info in found}) != len(found):
        sys.exit("archive: " + name + " has two files of one name")
    return sorted(found, key=lambda info: place(info.filename))


def sorted_record(text: bytes) -> bytes:
    """Return a RECORD with its rows in the order of members."""
    rows = [row for row in csv.reader(io.StringIO(text.decode("utf-8"))) if row]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in sorted(rows, key=lambda row: place(row[0])):
        writer.writerow(row)
    return out.getvalue().encode("utf-8")


def written(path: str, target: str) -> None:
    """Write a wheel anew."""
    when = moment()
    with zipfile.ZipFile(path) as origin, zipfile.ZipFile(target, "w") as archive:
        for old in members(origin, os.path.basename(path)):
            new = zipfile.ZipInfo(old.filename, when)
            new.create_system = 3  # Unix: modes count
            new.external_attr = (stat.S_IFREG | (0o755 if old.external_attr >> 16 & 0o111 else 0o644)) << 16
            new.compress_type = old.compress_type
            with origin.open(old) as source:
                content: IO[bytes] = source
                if place(old.filename)[1]:
                    content = io.BytesIO(sorted_record(source.read()))
                with archive.open(new, "w", force_zip64=old.file_size >= LARGE) as out:
                    shutil.copyfileobj(content, out, 1 << 20)


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
