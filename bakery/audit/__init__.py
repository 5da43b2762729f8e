"""The audit: read a finished wheel and compare it with an ``expectation.ExpectedWheel``.

``wheel`` and the readers (``archive``, ``elf``, ``macho``, ``pe``, ``fatbin``, ``metadata``) collect facts, ``checks``
judge them, ``auditor`` does both. It knows nothing of recipes, plans or engines, so it can audit any wheel. It imports
``core`` only.
"""
