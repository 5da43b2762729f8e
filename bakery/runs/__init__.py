"""One run: bake the cells of a plan, audit and publish their wheels, write the journal and the report.

``pipeline`` has the steps of a run, ``loop`` runs the cells with a `Backend`, ``finish`` audits and publishes. May import
``wheel_audit``, ``engine``, ``emit``, ``resolve``, ``recipe``, ``toolchains``, ``plan`` and ``core``.
"""
