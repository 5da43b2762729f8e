"""The engine: finding it, filling it, baking on it, and collecting what comes out."""
