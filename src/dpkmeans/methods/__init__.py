"""Ask, release, decide: a method sees records only as answers to queries."""
