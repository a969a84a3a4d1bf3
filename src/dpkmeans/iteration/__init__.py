"""The loop and its parts: starts, zones, updates, stop rules, final steps."""
