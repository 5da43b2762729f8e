"""Programs that run inside images. `wheel-bakery generate` writes them to ``dockerfiles/bin``, where steps mount them.

Shell programs are POSIX sh. Python programs support Python 3.8 and newer, and use only the standard library and each
other.
"""

from importlib.resources import files


def text(name: str) -> str:
    """Return the text of the program ``name``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def texts(name: str) -> dict[str, str]:
    """Return path → text of the files of a program: one file, or a folder that Python runs."""
    program = files(__name__).joinpath(name)
    if program.is_file():
        return {name: text(name)}
    modules = (item for item in program.iterdir() if item.name.endswith(".py") and item.name != "__init__.py")
    return {f"{name}/{item.name}": item.read_text(encoding="utf-8") for item in sorted(modules, key=lambda m: m.name)}
