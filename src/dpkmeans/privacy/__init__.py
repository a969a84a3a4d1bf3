"""Noise and budget."""
