"""What a user hands over becomes a Source; errors show no record. Imports `core` and `kernels`."""
