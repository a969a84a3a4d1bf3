"""Compiled: arrays in, arrays out, each formula once."""
