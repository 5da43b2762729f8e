"""Plan → text: bake file, Dockerfile, ``.dockerignore``, cibuildwheel configuration, GitHub Actions workflow.

Emitters are pure functions: no files, no clock, no environment. All quoting is in ``quoting``. This package imports
``plan``, ``toolchains`` and ``core``.
"""
