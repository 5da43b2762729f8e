"""Recipe → plan: merge the layers of settings, expand the matrix, and turn settings into stages and targets.

``plan.resolve`` is the entry point; ``defaults`` has every default value. This package imports ``recipe``,
``toolchains``, ``plan`` and ``core``. It starts no process and opens no connection.
"""
