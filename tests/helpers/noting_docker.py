"""A docker that notes how cibuildwheel calls it, and makes no container."""

from __future__ import annotations

import sys
from pathlib import Path

_DOCKER = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''
import json, os, sys
words = sys.argv[1:]
with open("CALLS", "a") as file:
    file.write(json.dumps([words, sorted(os.environ)]) + "\\n")
if words[0] == "--config":
    words = words[2:]
if words[:2] == ["buildx", "version"]:
    print("github.com/docker/buildx v0.29.1 0")
elif words[0] == "version":
    print(json.dumps({{"Client": {{"Version": "28.5.2", "ApiVersion": "1.51"}}, "Server": {{"ApiVersion": "1.51"}}}}))
elif words[0] == "create":
    sys.exit("seen")
"""


def write_docker(folder: Path) -> Path:
    """Write the program into a folder; return the file with its calls, a line of JSON each: words, names of variables."""
    docker, calls = folder / "docker", folder / "calls"
    docker.write_text(_DOCKER.replace("CALLS", str(calls)))
    docker.chmod(0o755)
    return calls
