"""One run: bake the cells of a plan, audit and publish their wheels, write the journal and the report.

``pipeline`` strings the steps of a run together, ``loop`` runs the cells with a ``backend``, ``finish`` audits and
publishes. This package
may import every package below it: ``audit``, ``engine``, ``emit``, ``resolve``, ``recipe``, ``toolchains``, ``plan``
and ``core``.
"""
