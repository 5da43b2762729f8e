"""Bases: the root file systems that builders and tests start from."""
