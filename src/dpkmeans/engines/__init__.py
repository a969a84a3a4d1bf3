"""Engines: the only code that touches records."""
