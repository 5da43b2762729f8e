"""The audit: reads the wheel that came out and compares it with what was promised.

It knows nothing of recipes, plans or engines, so any wheel can be audited. Reading (``archive``, ``elf``,
``metadata``, ``verdict``) collects facts; each file of ``checks`` judges them; ``auditor`` does both.
"""
