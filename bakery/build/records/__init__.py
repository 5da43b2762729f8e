"""The records beside each wheel: provenance (in-toto, SLSA v1) and bill of materials (CycloneDX).

``recorder`` collects the facts of a run and publishes both files; ``read`` reads a provenance back. It imports
``build.lock``, ``build.publish``, ``audit``, ``engine``, ``emit``, ``plan`` and ``core``.
"""
