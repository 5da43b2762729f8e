"""The plan: the typed, immutable result of resolving a recipe, and pure functions on plans.

``model`` has the plan, ``shards``, ``stage_digests`` and ``pull_request`` compute with it. This package imports ``core`` only.
"""
