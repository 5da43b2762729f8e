"""The command: the only place that prints, exits or reads the environment."""
