"""``docker buildx bake`` as a child process: arguments, entitlements, the ``rawjson`` progress stream, logs, outcomes.

``bake`` is the entry point; one call bakes one cell. It imports ``build.processes``, ``build.secrets``, the listener of
``build.display``, ``engine``, ``plan`` and ``core``.
"""
