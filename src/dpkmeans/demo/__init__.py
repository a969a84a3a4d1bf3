"""Synthetic visits to ten towns, and their picture."""
