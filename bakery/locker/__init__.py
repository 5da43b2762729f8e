"""Locks in use: which one fits a plan, what a build is held to by it, and how a new one is made."""
