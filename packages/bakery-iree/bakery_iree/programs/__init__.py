"""Programs that run inside images with IREE's tools and in bundles of modules.

They support Python 3.8 and newer and do not import bakery. Those that read arrays need NumPy, and ``load_module.py`` also
needs IREE's runtime.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
