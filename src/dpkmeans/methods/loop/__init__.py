"""The loop that iterative methods share, and its parts."""
