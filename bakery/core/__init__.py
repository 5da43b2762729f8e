"""Helpers that every package uses: identifiers, errors and exit codes, file locks, ``.dockerignore`` patterns, git.

Code belongs here if it knows nothing of recipes, plans or Docker. It imports nothing else of bakery.
"""
