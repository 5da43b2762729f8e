"""The variables with which GitHub Actions gives a job its cache."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from bakery.plan.values import Json
from wheel_audit.readers import json_of

TOKEN = "ACTIONS_RUNTIME_TOKEN"
VERSION_2 = "ACTIONS_CACHE_SERVICE_V2"
ADDRESSES = {True: "ACTIONS_RESULTS_URL", False: "ACTIONS_CACHE_URL"}
"""Whether the second version of the protocol is spoken → the variable with the server's address."""

NAMES = (TOKEN, VERSION_2, *ADDRESSES.values())


def lacking(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables without which buildx drops a ``gha`` cache in silence."""
    second = environ.get(VERSION_2, "").lower() in ("1", "t", "true")
    # Only the first version's server has gone; what its address leads to now speaks the second.
    required = (TOKEN, ADDRESSES[second])
    return tuple(name for name in required if not environ.get(name))


def expiry(environ: Mapping[str, str]) -> float | None:
    """Return when the token expires, in seconds since 1970; None if unknown. Its signature is not checked."""
    pieces = environ.get(TOKEN, "").split(".")
    if len(pieces) != 3:
        return None
    try:
        claims: Json = json_of(base64.urlsafe_b64decode(pieces[1] + "=" * (-len(pieces[1]) % 4)))
    except ValueError:
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires) if isinstance(expires, int | float) else None
