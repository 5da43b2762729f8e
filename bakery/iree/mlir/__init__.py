"""Reads MLIR far enough to know what a module offers; no compiler is needed."""
