"""Public values to checked JSON and back. What is read is untrusted input. Imports `core` only."""
