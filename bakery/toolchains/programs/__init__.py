"""Programs that run inside images. The emitter writes them into the generated files, so those work without bakery.

Shell programs are POSIX sh. Python programs support Python 3.8 and newer and use the standard library only. They import
nothing of bakery.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
