"""Noise and budget. Imports `core` only."""
