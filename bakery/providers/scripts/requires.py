"""Print what the project in the folder of the first argument needs to be built, one requirement a line.

Only pyproject.toml is read, so the step that installs them is not repeated when the source changes.
"""

import os
import sys

path = os.path.join(sys.argv[1], "pyproject.toml")
if not os.path.isfile(path):
    requires = ["setuptools", "wheel"]
else:
    try:
        import tomllib
    except ImportError:  # Python before 3.11: pip brings a copy of its own
        from pip._vendor import tomli as tomllib
    with open(path, "rb") as stream:
        requires = tomllib.load(stream).get("build-system", {}).get("requires", ["setuptools", "wheel"])
print("\n".join(requires))
