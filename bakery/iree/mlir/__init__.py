"""A reader for MLIR that understands just enough to list the functions of a module and their types.

It imports ``core`` only; no compiler is needed.
"""
