"""Wheels for macOS and Windows with cibuildwheel; ``run`` is the entry point, ``process`` has the backend.

May import ``build``, ``audit``, ``engine``, ``emit``, ``plan`` and ``core``.
"""
