"""What happens to finished wheels: compare a set with its plan, rebuild one from its provenance, serve an index.

It imports ``build`` and everything below. No wheel is changed here.
"""
