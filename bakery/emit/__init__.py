"""Pure functions from the plan to the text of files."""
