"""What is written down about a wheel: where it came from (SLSA provenance) and what is in it (CycloneDX)."""
