"""Which of several places keeps its distance from all that are taken."""

from __future__ import annotations

from dpkmeans._typing import FloatArray
from dpkmeans.kernels.jit import compiled


@compiled
def first_apart(tries: FloatArray, points: FloatArray, square: float) -> int:
    """The first of `tries` (t, d) with a squared distance of at least `square` to all `points` (m, d); -1 if none."""
    for i in range(len(tries)):
        apart = True
        for p in range(len(points)):
            distance = 0.0
            for j in range(points.shape[1]):
                distance += (tries[i, j] - points[p, j]) * (tries[i, j] - points[p, j])
            if distance < square:
                apart = False
                break
        if apart:
            return i
    return -1
