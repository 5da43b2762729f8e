"""The rules, one file for each subject; each file has ``RULES``, a tuple of ``rule.Rule``.

A new group is a new file. It imports the modules of ``resolve.rules``, ``toolchains.facts`` and ``core``.
"""
