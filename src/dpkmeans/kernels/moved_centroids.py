"""A pass of Lloyd's algorithm that scores only the centroids which moved.

Late in a run few points change their cells, so most centroids stay where they are, to the bit, and so do their scores.
Each point keeps the score of its own centroid and a lower bound on the scores of all others. Where its own centroid
stayed, the lowest score is the kept one or that of a centroid that moved. Where it moved, the lowest of the new scores
decides if it is below the bound; else the whole tile is compared with all centroids.

Scores are compared as the tile kernel computes them, so labels are its own, to the bit, and no rounding error has to be
allowed for. It helps where bounds on distances (`hamerly`) do not: in many features without clear clusters.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.kernels.hamerly import move_point
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import GROUP, LANES, two_nearest_in_tile

OWN, OTHERS = 0, 1  # rows of the kept scores of a tile


def unknown_scores(n_tiles: int) -> Float32Array:
    """A buffer for the scores of the points of `n_tiles` tiles; good for a pass in which all centroids moved."""
    return np.full((n_tiles, 2, LANES), np.inf, np.float32)


@compiled
def which_moved(before: tuple[Float32Array, Float32Array], after: tuple[Float32Array, Float32Array]) -> AnyArray:
    """Whether each centroid, as the tile kernel reads it, is another than before; shape (k padded to groups,)."""
    moved = np.zeros(after[1].shape[1], np.bool_)
    for c in range(len(moved)):
        moved[c] = before[1][0, c] != after[1][0, c]
        for j in range(after[0].shape[1]):
            moved[c] |= before[0][c // GROUP, j, c % GROUP] != after[0][c // GROUP, j, c % GROUP]
    return moved


@compiled
def only(groups: tuple[Float32Array, Float32Array], chosen: AnyArray) -> tuple[Float32Array, Float32Array]:
    """The chosen centroids alone, in their order and under their numbers, in whole groups."""
    negated, half_norms = groups
    n_groups = (chosen.sum() + GROUP - 1) // GROUP
    some = np.zeros((n_groups, negated.shape[1], GROUP), np.float32)
    some_half_norms = np.full((2, n_groups * GROUP), np.inf, np.float32)
    place = 0
    for c in range(len(chosen)):
        if chosen[c]:
            for j in range(negated.shape[1]):
                some[place // GROUP, j, place % GROUP] = negated[c // GROUP, j, c % GROUP]
            some_half_norms[0, place] = half_norms[0, c]
            some_half_norms[1, place] = half_norms[1, c]
            place += 1
    return some, some_half_norms


@compiled
def reassign_moved(
    tiles: Float32Array,
    n: int,
    groups: tuple[Float32Array, Float32Array],
    moved_groups: tuple[Float32Array, Float32Array],
    has_moved: AnyArray,
    labels: AnyArray,
    kept: Float32Array,
    totals: tuple[FloatArray, FloatArray],
) -> int:
    """`assign.reassign` in place: `labels` and `kept` scores belong to centroids of which `has_moved` (k,) since moved.

    `groups` come from `assign.interleave_centroids` and `moved_groups` from `only`; `totals` are counts (k,) and sums
    (k, d). Returns how many points changed their cell.
    """
    found, scores = np.zeros((1, LANES), labels.dtype), np.zeros((2, LANES), np.float32)
    changed = 0
    for t in range(len(tiles)):
        two_nearest_in_tile(tiles, t, *moved_groups, found, scores)
        if not settle(labels[t], kept[t], has_moved, found[0], scores):
            two_nearest_in_tile(tiles, t, *groups, found, scores)
            kept[t] = scores
        for w in range(min(LANES, n - t * LANES)):
            if found[0, w] != labels[t, w]:
                changed += 1
                move_point(tiles, t, w, labels[t, w], found[0, w], totals)
                labels[t, w] = found[0, w]
    return changed


@compiled
def settle(labels: AnyArray, kept: Float32Array, has_moved: AnyArray, found: AnyArray, scores: Float32Array) -> bool:
    """Merge the nearest moved centroid of each point (`found`, `scores`) with what is kept; in place.

    Returns whether all labels are certain. Where not, `kept` is not good any more.
    """
    certain = True
    for w in range(LANES):
        new, second = scores[0, w], scores[1, w]
        own, others = kept[OWN, w], kept[OTHERS, w]
        if has_moved[labels[w]]:
            certain &= new < others
            kept[OWN, w] = new
            kept[OTHERS, w] = min(others, second)
        elif new < own or (new == own and found[w] < labels[w]):
            kept[OWN, w] = new
            kept[OTHERS, w] = min(own, second)
        else:
            kept[OTHERS, w] = min(others, new)
            found[w] = labels[w]
    return certain
