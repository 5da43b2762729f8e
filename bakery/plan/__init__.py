"""The plan: the typed, immutable result of resolving a recipe, and pure functions on plans.

``model`` has the classes. The other modules compute stage digests, shards and changed cells. This package imports
``core`` only.
"""
