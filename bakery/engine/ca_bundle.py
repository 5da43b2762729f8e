"""The CA certificates for build steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.core.names import CA_VARIABLES


def find_ca_bundle(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the given CA bundle, else the first one in the environment. Raises UsageError if it has no certificate."""
    if given is not None:
        if not _has_certificates(given):
            raise UsageError(f"--ca-bundle {given}: expected a PEM file with certificates")
        return given.resolve()
    paths = (Path(environ[name]) for name in CA_VARIABLES if environ.get(name))
    return next((path.resolve() for path in paths if _has_certificates(path)), None)


def _has_certificates(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"-----BEGIN" in stream.read(1 << 20)
    except OSError:
        return False
