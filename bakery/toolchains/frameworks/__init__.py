"""Frameworks: torch and JAX. Each file has a ``PROVIDER``, a ``base.Framework``.

A framework says which release the build installs and what the wheel then requires. It imports ``toolchains`` only.
"""
