"""Programs that run inside images with IREE's tools, and in bundles of modules.

They need Python 3.8 or newer and the standard library; those that read arrays need numpy and IREE's runtime, too.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
