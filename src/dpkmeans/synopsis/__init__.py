"""Epsilon once, then post-processing."""
