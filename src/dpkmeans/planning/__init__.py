"""What to expect from which epsilon, from public quantities alone."""
