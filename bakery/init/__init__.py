"""Writes a first recipe for a project: folder → findings → draft → TOML text.

``tree`` lists the files of the folder, the ``read_…`` modules find facts in them (each with its file and line), ``decide``
turns the findings into a draft with a reason for each line, and ``write`` into the text of a recipe. Nothing of the
project runs: setup.py is parsed, all other files are read as data. The tree may be anybody's, so every size and count is
bounded. What is known about other projects is in ``tables.toml``.
"""
