"""IREE modules: compile MLIR in containers, validate, benchmark and bundle the results.

A plugin of ``wheel-bakery`` with its own job files and plan. It may import every package of bakery; none imports it.
"""

__version__ = "0.1.0"
