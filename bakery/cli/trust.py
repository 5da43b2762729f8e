"""Finds the CA bundle that build steps shall trust."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.core.names import CA_VARIABLES


def find_ca_bundle(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the bundle that was given, else the first that the environment names; None for none.

    Raises:
        UsageError: the given file does not exist or holds no certificate.
    """
    if given is not None:
        if not _holds_certificates(given):
            raise UsageError(f"--ca-bundle {given}: expected a PEM file with certificates")
        return given.resolve()
    named = (Path(environ[name]) for name in CA_VARIABLES if environ.get(name))
    return next((path.resolve() for path in named if _holds_certificates(path)), None)


def _holds_certificates(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"-----BEGIN" in stream.read(1 << 20)
    except OSError:
        return False
