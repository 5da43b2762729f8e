"""A static package index of wheels for pip and uv (PEP 503, 658, 691, 700, 714, 740)."""
