"""The environment of programs that read or run what strangers wrote: nothing that may hold a credential."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NewType

CleanEnvironment = NewType("CleanEnvironment", dict[str, str])
"""The environment of a program, made for it; every call that starts one gets such a value."""

_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_", "TZ", "TERM", "TMPDIR", "TMP", "TEMP"),
    *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERNAME", "USERPROFILE", "HOMEDRIVE"),
    *("HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "ALLUSERSPROFILE", "PUBLIC", "OS", "XDG_CACHE_HOME"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)"),
    *("PROCESSOR_", "NUMBER_OF_PROCESSORS"),
)


def clean_environment(environ: Mapping[str, str], keeps: Iterable[str] = ()) -> CleanEnvironment:
    """Return the variables of ``environ`` that every program needs, and ``keeps``: ``CMAKE_`` are all that begin so."""
    kept = (*_KEPT, *keeps)
    begins = tuple(name for name in kept if name.endswith("_"))
    # Names have no case on Windows.
    chosen = {name: text for name, text in environ.items() if name.upper() in kept or name.upper().startswith(begins)}
    return CleanEnvironment(chosen)
