"""Toolkits: where the CUDA compiler and libraries come from. Each file has a ``PROVIDER``, a ``base.Toolkit``.

A toolkit returns Dockerfile stages. It imports ``plan``, ``core`` and the rest of ``toolchains``.
"""
