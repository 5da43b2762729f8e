"""Modules of IREE: compiled, opened, run in containers, compared, measured and packed."""
