"""Reading recipes: TOML file → checked ``Recipe`` model, with every problem of the file reported at once.

``load`` is the entry point. Recipes that ship with bakery are in ``shipped/``. This package imports ``toolchains`` (for
the names of providers) and ``core``.
"""
