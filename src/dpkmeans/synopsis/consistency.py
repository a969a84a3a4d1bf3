"""Post-processing of noisy counts. Costs no privacy."""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray, IntArray


def blend(
    children: FloatArray, parents: FloatArray, owner: IntArray, child_variance: float, parent_variance: float
) -> FloatArray:
    """Move noisy children (m,) towards the noisy count of their parent (p,), by inverse variances.

    The gap between a parent and the sum of its children is shared evenly among them: least squares for two levels.
    """
    sizes = np.bincount(owner, minlength=len(parents))
    gaps = parents - np.bincount(owner, children, minlength=len(parents))
    trust = child_variance / (sizes * child_variance + parent_variance)
    return np.asarray(children + (gaps * trust)[owner])


def project(noisy: FloatArray) -> FloatArray:
    """The nearest weights that are not negative and keep the total, shape (m,).

    One threshold is taken off all of them, which clears cells that hold noise only. Without any total, all weigh the
    same. Source: the L2 projection on a simplex (Held, Wolfe and Crowder 1974).
    """
    total = noisy.sum()
    if total <= 0:
        positive = np.maximum(noisy, 0.0)
        return positive if positive.sum() > 0 else np.ones(len(noisy))
    ordered = np.sort(noisy)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(noisy) + 1)
    return np.asarray(np.maximum(noisy - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0.0))
