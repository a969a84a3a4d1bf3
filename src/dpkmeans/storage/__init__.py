"""Public values to checked JSON and back."""
