"""The second backend: build wheels for macOS and Windows with cibuildwheel, with the same audit and publishing.

``run`` is the entry point, ``process`` starts cibuildwheel. It imports ``build``, ``audit``, ``engine``, ``emit``,
``plan`` and ``core``.
"""
