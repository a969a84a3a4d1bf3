"""Ward's rule on weighted centres: which pair to merge, and what it costs. Post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.kernels.jit import compiled


@dataclass(frozen=True, eq=False)
class Merged:
    """Centres (k, p) with weights (k,), which of them each centre before is a part of, and what each merge cost."""

    centres: FloatArray
    weights: FloatArray
    member: IntArray
    costs: FloatArray


def merge_to(centres: FloatArray, weights: FloatArray, k: int) -> Merged:
    """Merge the cheapest pair until `k` centres are left."""
    centres, weights = centres.copy(), weights.copy()
    parent, costs = np.arange(len(centres)), np.zeros(max(len(centres) - k, 0))
    _merge(centres, weights, parent, costs)
    left, member = np.unique(parent, return_inverse=True)
    return Merged(centres[left], weights[left], member.reshape(-1).astype(np.int64), costs)


@compiled
def pair_cost(centres: FloatArray, weights: FloatArray, a: int, b: int) -> float:
    """What it adds to the cost to replace two centres by their mean: w_a w_b/(w_a + w_b) · distance²."""
    square = 0.0
    for j in range(centres.shape[1]):
        square += (centres[a, j] - centres[b, j]) * (centres[a, j] - centres[b, j])
    cost: float = weights[a] * weights[b] / (weights[a] + weights[b]) * square
    return cost


@compiled
def join(centres: FloatArray, weights: FloatArray, a: int, b: int) -> None:
    """Centre a becomes the mean of both."""
    total = weights[a] + weights[b]
    for j in range(centres.shape[1]):
        centres[a, j] = (weights[a] * centres[a, j] + weights[b] * centres[b, j]) / total
    weights[a] = total


@compiled
def cheapest_pair(centres: FloatArray, weights: FloatArray, free: IntArray) -> tuple[int, int, float]:
    """The pair of centres with `free` > 0 whose merge costs least, the first of equal ones; (-1, -1, inf) if none."""
    best_a, best_b, best = -1, -1, np.inf
    for a in range(len(centres)):
        if free[a] > 0:
            for b in range(a + 1, len(centres)):
                if free[b] > 0:
                    cost = pair_cost(centres, weights, a, b)
                    if cost < best:
                        best_a, best_b, best = a, b, cost
    return best_a, best_b, best


@compiled
def _merge(centres: FloatArray, weights: FloatArray, parent: IntArray, costs: FloatArray) -> None:
    m = len(centres)
    apart = np.full((m, m), np.inf)
    for a in range(m):
        for b in range(a + 1, m):
            apart[a, b] = pair_cost(centres, weights, a, b)
    for step in range(len(costs)):
        first, second, best = -1, -1, np.inf
        for a in range(m):
            for b in range(a + 1, m):
                if apart[a, b] < best:
                    first, second, best = a, b, apart[a, b]
        costs[step] = best
        join(centres, weights, first, second)
        for i in range(m):
            if parent[i] == second:
                parent[i] = first
            apart[i, second] = np.inf
            apart[second, i] = np.inf
        for i in range(m):
            if parent[i] == i and i != first:
                apart[min(i, first), max(i, first)] = pair_cost(centres, weights, i, first)
