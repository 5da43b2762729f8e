"""Toolkits: where the CUDA compiler and libraries come from."""
