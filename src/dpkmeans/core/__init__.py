"""Values: no records, no noise, no files."""
