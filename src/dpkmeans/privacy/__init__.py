"""Noise and budget. Imports `core` only, and `storage` to sync a folder."""
