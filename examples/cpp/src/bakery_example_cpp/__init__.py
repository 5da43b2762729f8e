"""A C++ function as a Python module."""

from bakery_example_cpp._core import edit_distance

__all__ = ["edit_distance"]
