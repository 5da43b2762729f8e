"""Framework ``jax``: handlers for XLA's foreign function interface, whose headers come with jaxlib.

The interface is C and versioned: a handler works with the jaxlib it was built with and with newer ones.
"""

from __future__ import annotations

from bakery.toolchains.frameworks import Framework

PROVIDER = Framework(
    name="jax",
    description="jax: the build sees exactly JAX_VERSION, and the wheel requires it or a newer one",
    variable="JAX_VERSION",
    build=("jax==${JAX_VERSION}",),
    test=("jax==${JAX_VERSION}",),
    runtime="jax>=${JAX_VERSION}",
)
