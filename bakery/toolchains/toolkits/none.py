"""Toolkit ``none``: no CUDA."""

from __future__ import annotations

from bakery.toolchains.toolkits.base import Toolkit

PROVIDER = Toolkit(name="none", description="no CUDA: the base's C and C++ compilers alone")
