"""Synthetic visits to eight towns, and their picture."""
