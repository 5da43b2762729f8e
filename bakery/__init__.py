"""Bakery: typed recipes for native Python wheels, compiled to bake files and baked for real."""

__version__ = "0.1.0"
