"""Ask, release, decide: no arrays of records."""
