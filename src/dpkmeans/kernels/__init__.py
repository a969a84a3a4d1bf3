"""Compiled: arrays in, arrays out, each formula once. Imports `core` only."""
