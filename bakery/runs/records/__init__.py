"""The records of each wheel: provenance (in-toto, SLSA v1) and bill of materials (CycloneDX).

``recorder`` writes them, ``read`` reads a provenance. May import ``build``, ``audit``, ``engine``, ``emit``, ``plan`` and
``core``.
"""
