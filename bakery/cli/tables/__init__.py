"""Tables and text for people: reports, plans, audits and rules rendered with rich.

Rendering functions return renderables and strings; the commands print them. They import ``build.report``, ``audit``,
``engine``, ``resolve``, ``toolchains``, ``plan`` and ``core``.
"""
