"""What a user sees of a run: nothing, plain lines, the raw stream, or a live table. ``listener`` has the interface.

Displays only read the state that ``build.buildx.progress`` keeps. They import that module and ``core``.
"""
