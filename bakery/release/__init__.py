"""Finished wheels: compare a set with its plan, rebuild one from its provenance, write a package index."""
