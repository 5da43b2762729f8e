"""Locks: what a recipe's cells are made of, written down, compared, and handed to a build."""
