"""Fetch the source archive NAME==VERSION from the configured package index and unpack it.

Usage: sdist.py NAME==VERSION FOLDER. The index is pip's own (configuration file, environment, default);
the archive's hash is the one the index gives; members that would leave the folder are refused.
"""

import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request


def pip_config(key, default):
    """Return a value of pip's configuration, or the default."""
    found = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global." + key],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return os.environ.get("PIP_" + key.upper().replace("-", "_")) or found.stdout.decode().strip() or default


def default_index():
    """Return the index that pip uses when nothing is configured."""
    from pip._internal.models.index import PyPI

    return PyPI.simple_url


class Anchors(html.parser.HTMLParser):
    """Collects the files of an index page in HTML (PEP 503)."""

    def __init__(self):
        super().__init__()
        self.files = []

    def handle_starttag(self, tag, attrs):
        """Take one anchor: its address, and the hash in its fragment."""
        href = dict(attrs).get("href")
        if tag == "a" and href:
            url, _, fragment = href.partition("#")
            name = urllib.parse.unquote(url.rsplit("/", 1)[-1])
            hashes = dict([fragment.split("=", 1)]) if "=" in fragment else {}
            self.files.append({"url": url, "filename": name, "hashes": hashes})


def files(index, name):
    """Return the files of a project as the index lists them: (absolute URL, entry)."""
    url = index.rstrip("/") + "/" + name + "/"
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=120) as reply:
        body, kind, url = reply.read(), reply.headers.get_content_type(), reply.geturl()
    if kind.endswith("+json"):
        found = json.loads(body)["files"]
    else:
        page = Anchors()
        page.feed(body.decode("utf-8", "replace"))
        found = page.files
    return [(urllib.parse.urljoin(url, item["url"]), item) for item in found]


def main():
    """Fetch, verify, unpack."""
    name, version = sys.argv[1].split("==")
    target = sys.argv[2]
    wanted = {
        re.sub(r"[-_.]+", "-", name).lower() + "-" + version + suffix for suffix in (".tar.gz", ".zip", ".tar.bz2")
    }
    index = pip_config("index-url", "") or default_index()
    found = [
        (url, item)
        for url, item in files(index, re.sub(r"[-_.]+", "-", name).lower())
        if re.sub(r"[-_.]+(?=.*-" + re.escape(version) + ")", "-", item["filename"]).lower() in wanted
    ]
    if not found:
        sys.exit("no source archive of " + sys.argv[1] + " in the package index")
    url, item = found[0]
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, item["filename"])
        with urllib.request.urlopen(url, timeout=600) as reply, open(archive, "wb") as out:
            shutil.copyfileobj(reply, out)
        digest = hashlib.sha256()
        with open(archive, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        expected = item.get("hashes", {}).get("sha256")
        if expected and digest.hexdigest() != expected:
            sys.exit("the archive's hash is not the one in the index: " + url)
        unpacked = os.path.join(folder, "unpacked")
        unpack(archive, unpacked)
        entries = os.listdir(unpacked)
        root = os.path.join(unpacked, entries[0]) if len(entries) == 1 else unpacked
        shutil.copytree(root, target, symlinks=True)
    print("unpacked " + item["filename"] + " sha256:" + digest.hexdigest())


def unpack(archive, folder):
    """Unpack a tar archive, refusing members that leave the folder, devices and absolute links."""
    if archive.endswith(".zip"):
        shutil.unpack_archive(archive, folder)
        return
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
            return
        root = os.path.realpath(folder)
        for member in tar.getmembers():
            place = os.path.realpath(os.path.join(folder, member.name))
            if not (place + "/").startswith(root + "/") or not (member.isfile() or member.isdir()):
                sys.exit("refusing " + member.name + " of the archive")
        tar.extractall(folder)


main()
