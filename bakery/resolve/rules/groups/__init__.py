"""The rules, by what they are about; each file has ``RULES``."""
