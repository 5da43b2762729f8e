"""``docker buildx bake`` as a child process; ``bake`` is the entry point, one call bakes one cell.

May import ``build.processes``, ``build.secrets``, ``engine``, ``plan`` and ``core``.
"""
