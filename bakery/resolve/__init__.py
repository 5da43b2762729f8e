"""Recipe → plan: merge the layers of settings, expand the matrix, and turn settings into stages and targets.

``plan.resolve`` is the entry point. This package imports ``recipe``, ``toolchains``, ``plan`` and ``core``. It opens no
connection, and starts no process but git.
"""
