"""What a builder is made of: bases and toolkits, one file each, found by scanning."""
