"""``bakery.lock``: collect what cells are made of, write it, compare it, and pin a build to it.

``make`` writes a lock, ``is_current`` compares it with a plan, ``pins`` applies it. It imports ``build.single_bake``,
``engine``, ``emit``, ``recipe`` (to read TOML), ``plan`` and ``core``.
"""
