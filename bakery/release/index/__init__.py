"""A static package index: wheels, and the pages by which pip and uv find them (PEP 503, 658, 691, 700, 714)."""
