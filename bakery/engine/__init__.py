"""Docker and the machine: find or start an engine, provide base images, reach remote nodes, query the package index.

Nothing here knows of runs or wheels.
"""
