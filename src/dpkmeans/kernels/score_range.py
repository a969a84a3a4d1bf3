"""How far one record can move the scores of candidates apart, from public values alone. Proved: proofs/privgene.md."""

from __future__ import annotations

import math

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.candidate_costs import distinct_centroids
from dpkmeans.kernels.jit import compiled

MAX_WORK = 2**25
"""Above this many multiplications the bound on a round's sensitivity is taken from the box alone."""

_WIDTH = 64  # points compared together


def score_range(candidates: FloatArray, lower: FloatArray, upper: FloatArray) -> int:
    """How far one record can move the scores of two candidates apart, in whole grid steps, from public values alone.

    For sets A and B of centroids and x in the box,

        cost_A(x) - cost_B(x)  =  max_b min_a (|x - a|² - |x - b|²)  <=  max_b min_a max_x (|x - a|² - |x - b|²),

    and the inner term is linear in x, so its maximum lies in a corner. Over all pairs A, B this is the largest value
    of max_b min_a over one set A and every centroid b of the round. Also, no cost is below 0 or above the squared
    distance to the farthest corner. The margin covers the rounding of two costs to grid steps and all float64 errors.
    """
    d = int(candidates.shape[2])
    corner = np.maximum(candidates - lower, upper - candidates)
    bound = float((corner**2).sum(axis=2).min(axis=1).max())
    points, sets = distinct_centroids(candidates)
    if len(points) ** 2 * d <= MAX_WORK:
        bound = min(bound, _largest_gap((points - lower) ** 2, (points - upper) ** 2, sets))
    margin = 1 + d * (d + 4) * 2.0**-28
    return math.ceil(max(bound, 0.0) * GRID + margin)


def cost_sensitivity(candidates: FloatArray, box: FloatArray) -> Sensitivity:
    """That of the candidates' costs, for records anywhere from 0 to `box` (d,)."""
    return Sensitivity(gap=score_range(candidates, np.zeros(len(box)), box))


@compiled
def _largest_gap(low: FloatArray, high: FloatArray, sets: IntArray) -> float:
    """The largest value over sets A and points b of min_a max_x (|x - a|² - |x - b|²).

    `low` and `high` are the squared distances of the u points to the two ends of each side, shape (u, d). Feature by
    feature, the maximum over x is the larger difference of the two.
    """
    n, d = low.shape
    gaps, lowest = np.empty((n, _WIDTH)), np.empty(_WIDTH)
    their_low, their_high = np.zeros((d, _WIDTH)), np.zeros((d, _WIDTH))
    largest = -np.inf
    for start in range(0, n, _WIDTH):
        width = min(_WIDTH, n - start)
        for w in range(width):
            their_low[:, w], their_high[:, w] = low[start + w], high[start + w]
        for a in range(n):
            gaps[a] = 0.0
            for j in range(d):
                for w in range(_WIDTH):
                    gaps[a, w] += max(low[a, j] - their_low[j, w], high[a, j] - their_high[j, w])
        for members in sets:
            lowest[:] = np.inf
            for a in members:
                for w in range(_WIDTH):
                    lowest[w] = min(lowest[w], gaps[a, w])
            largest = max(largest, lowest[:width].max())
    return largest
