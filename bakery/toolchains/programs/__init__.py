"""Programs that run inside images: put there by `plan.File` steps, so that generated files stand on their own.

Shell is POSIX; Python is 3.8 or newer and needs nothing beside the standard library.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
