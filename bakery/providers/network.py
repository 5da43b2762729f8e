"""What a step that uses the network is given."""

from __future__ import annotations

from bakery.plan import Mount

CERTIFICATES = (Mount("secret", "", id="ca-bundle"),)
"""The company's CA bundle, if the machine has one; the program ``net`` finds it."""

INDEX = (*CERTIFICATES, Mount("secret", "", id="pip-conf"))
"""What a step needs to ask the package index: also pip's configuration, which may hold the index's password.

Such a step runs no code of the project and none of a package: Python starts with ``-I -S``, and pip by `pip_alone.py`.
"""

PIP_CACHE = Mount("cache", "/root/.cache/pip", id="bakery-pip", sharing="shared")
"""What pip has fetched before. Steps that run code of packages do not have it."""

NETWORK = (*INDEX, PIP_CACHE)
"""All that a step needs to fetch from the package index by pip."""
