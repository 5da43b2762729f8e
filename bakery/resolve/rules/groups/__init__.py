"""The rules, one file for each subject. A rule is a function with the decorator ``rule.rule``.

A new subject is a new file. It imports the modules of ``resolve.rules``, ``toolchains.facts`` and ``core``.
"""
