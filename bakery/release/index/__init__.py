"""A static package index of wheels: the pages by which pip and uv find them (PEP 503, 658, 691, 700, 714).

``pages`` has pure functions, ``store`` writes, ``fetch`` reads an index that is already served. It imports
``build.publish`` and ``core``.
"""
