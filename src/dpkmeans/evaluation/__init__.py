"""What a release is like on records, asked later: each question has its own share of epsilon and its own entry."""
