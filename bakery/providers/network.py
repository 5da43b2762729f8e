"""What a step that uses the network is given."""

from __future__ import annotations

from bakery.plan import Mount

SECRETS = (Mount("secret", "", id="ca-bundle"), Mount("secret", "", id="pip-conf"))
"""The company's CA bundle and pip's configuration, if the machine has any; the program ``net`` finds them."""

PIP_CACHE = Mount("cache", "/root/.cache/pip", id="bakery-pip", sharing="shared")
"""What pip has fetched before, for all images of an engine."""

NETWORK = (*SECRETS, PIP_CACHE)
"""All that a step needs to fetch from the package index."""
