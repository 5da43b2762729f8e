"""Programs that run inside images with IREE's tools and in bundles of modules.

They support Python 3.8 and newer and use the standard library; those that read arrays also need numpy and IREE's
runtime. They import nothing of bakery.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
