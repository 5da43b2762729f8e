"""Pydantic models of the JSON files of IREE modules: job, module record and benchmark baseline.

They import ``recipe.models`` (the shared base classes) only.
"""
