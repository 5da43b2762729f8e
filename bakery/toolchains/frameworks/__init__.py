"""Frameworks: what a wheel is built for, and what it then requires of its user."""
