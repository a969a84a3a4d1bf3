"""A private synopsis: weighted points that stand for the records."""
