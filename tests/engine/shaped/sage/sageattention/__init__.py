"""Attention with 8-bit queries and keys. The extensions are loaded when they are needed."""

from sageattention.core import quantize_columns, quantize_rows, sageattn, subtract_mean

__all__ = ["quantize_columns", "quantize_rows", "sageattn", "subtract_mean"]
