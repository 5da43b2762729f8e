"""IREE modules: compile MLIR in containers, validate, benchmark and bundle the results.

This is a second product beside wheels, with its own job files and plan. It may import every package below ``cli``.
Nothing on the wheel side imports it, except for the commands in ``cli``.
"""
