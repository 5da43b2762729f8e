"""Bases: the images that builders and tests start from. Each file has a ``PROVIDER``, a subclass of ``base.Base``, or
several ``PROVIDERS``.

A base returns stages, image names and the packages to install. It imports ``plan`` and ``core`` and starts no process.
"""
