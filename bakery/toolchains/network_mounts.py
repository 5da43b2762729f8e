"""Mounts of steps that use the network: secrets and pip's cache."""

from __future__ import annotations

from bakery.plan.dockerfile import Mount

CERTIFICATES = (Mount("secret", "", id="ca-bundle"),)
"""The company's CA bundle, if the machine has one; the program ``net`` finds it."""

INDEX = (*CERTIFICATES, Mount("secret", "", id="pip-conf"))
"""What a step needs to ask the package index: also pip's configuration, which may hold the index's password.

Such a step runs no code of the project and none of a package: Python starts with ``-I -S``, and pip by `pip_alone.py`.
"""

PIP_CACHE = Mount("cache", "/root/.cache/pip", id="bakery-pip", sharing="shared")
"""pip's download cache. Steps that run code of packages do not get it."""

NETWORK = (*INDEX, PIP_CACHE)
"""All mounts of a step that downloads from the package index with pip."""
