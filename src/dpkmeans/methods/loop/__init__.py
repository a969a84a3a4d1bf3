"""One solver for every iterative method: initialise, step, stop, finish."""
