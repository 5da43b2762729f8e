"""``bakery.lock``: ``make`` collects materials and writes it, ``is_current`` compares it, ``pins`` pins a build to it.

May import ``build.session``, ``engine``, ``emit``, ``recipe`` (to read TOML), ``plan`` and ``core``.
"""
