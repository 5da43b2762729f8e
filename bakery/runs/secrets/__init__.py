"""Secrets of a run: read them, pass them to buildx, mask them in output, find them in wheels.

Secret values exist here and in the environment of child processes, never in a plan. May import ``plan`` and ``core``.
"""
