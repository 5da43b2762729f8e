"""Job file or command line → plan of a job, with every problem of the file reported at once. No engine is needed.

It imports ``iree.models``, ``iree.mlir``, ``recipe`` (for problems and their positions), ``toolchains`` and ``core``.
"""
