"""The audit: reads a finished wheel and compares it with an ``ExpectedWheel``.

``wheel`` and the readers (``archive``, ``elf``, ``macho``, ``pe``, ``fatbin``, ``metadata``) collect facts, ``checks``
evaluate them, ``auditor`` does both. The package imports only ``core``: it can audit any wheel.
"""
