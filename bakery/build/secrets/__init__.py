"""Secrets of a run: read them, pass them to buildx, hide them in output, find them in wheels.

Secret values exist in this package and in the environment of child processes, never in a plan. It imports ``plan`` and
``core``.
"""
