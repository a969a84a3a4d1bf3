"""Attacks on the algorithm of Lu and Shen as published, each a function of what an attacker sees and knows.

The attacker knows all records but one and wants to learn whether the last one is there, or what it is. Shapes: k
clusters, d features. Every attack is also a score for the auditor, which runs the algorithm on a pair of neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.audit.method_targets import MethodCase
from dpkmeans.audit.neighbours import Pair, duplicate, empty_cluster, outlier
from dpkmeans.audit.protocols import Target
from dpkmeans.audit.scores import FixedScore, Score, Scorer, centroids_of
from dpkmeans.core.exact import reveal
from dpkmeans.core.release import Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.lu_shen.strategies import posterior

CLOSE = 1e-9  # in units of the box: misfits below it are rounding errors
MAX_STEPS = 200
ATTACKER = "an attacker who knows the records"

Attack = Callable[[Pair, FloatArray], Scorer]
"""From a pair and the public start (k, d) to a score of transcripts."""


def infer_missing_record(mean: FloatArray, count: float, mean_without: FloatArray) -> FloatArray:
    """The missing record, shape (d,): x₀ = N S - (N - 1) S'. Paper: Figure 1.

    The attacker knows the exact centroid S of a cluster, its count N, and the centroid S' of the same cluster over all
    records but one.
    """
    return count * mean - (count - 1) * mean_without


def mean_from_zone(previous: float, center: float, radius: float) -> float:
    """The exact mean of a cluster in one dimension, from its published posterior zone.

    The zone touches X = 2 mean - previous, the far end of the convergent zone. So X is the end of the zone that lies
    farther from the previous centroid, and the mean is halfway between the two.
    """
    far_end = center + np.sign(center - previous) * radius
    return float((previous + far_end) / 2)


def zone_misfit(previous: FloatArray, center: FloatArray, radius: FloatArray, means: FloatArray) -> FloatArray:
    """How far each published posterior zone is from one that `means` (k, d) could have produced, shape (k,).

    |X - mean| = |previous - mean| and the zone touches X from inside, on the line to the mean. Hence
    |center - mean| + radius = |previous - mean|, whatever the random turn and offset were. A wrong mean violates it.
    """
    reach = np.linalg.norm(previous - means, axis=-1)
    return np.asarray(np.abs(np.linalg.norm(center - means, axis=-1) + radius - reach))


def ray_misfit(centroids: FloatArray, sums: FloatArray, lower: FloatArray) -> FloatArray:
    """The smallest sine between each final centroid (..., k, d) and the rays of exact `sums` (m, d), shape (..., k).

    The last step divides an exact sum by a noisy count, so the released centroid, seen from the corner `lower` where
    sums start, has the direction of the sum. Only its length is noisy. Needs two features or more.
    """
    points = centroids - lower
    length = np.linalg.norm(points, axis=-1, keepdims=True)
    units = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    rays = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    apart = units[..., None, :] - rays
    return np.asarray(np.linalg.norm(apart, axis=-1).min(axis=-1))


def fixed_point_sums(engine: MemoryEngine, n_clusters: int, starts: int, rng: np.random.Generator) -> FloatArray:
    """Sums of clusters at fixed points of Lloyd's algorithm, shape (m, d), which the attacker computes beforehand.

    The paper's algorithm ends when an assignment repeats, which is such a fixed point.
    """
    found = []
    for _ in range(starts):
        start = reveal(engine.sample_rows(n_clusters, rng), why=ATTACKER)
        end = reveal(engine.lloyd(start, MAX_STEPS), why=ATTACKER).centroids
        stats = reveal(engine.cell_statistics(end), why=ATTACKER)
        found.append(stats.sums[stats.counts > 0])
    return np.unique(np.concatenate(found), axis=0)


def outside_support(previous: FloatArray, released: FloatArray, means: FloatArray) -> AnyArray:
    """Which released centroids Ŝ (..., k, d) cannot come from clusters with `means` (k, d), shape (..., k).

    Seen from the mean, with a = |previous - mean|: Ŝ lies at δ a with 0 < δ <= 1, and the angle between it and the line
    previous -> mean is at most π/2 + arccos δ, or 0 with one feature. A point outside has density 0 under this mean,
    and a positive one under the true mean: the ratio is infinite, whatever epsilon was claimed.
    """
    line, move = means - previous, released - means
    a, length = np.linalg.norm(line, axis=-1), np.linalg.norm(move, axis=-1)
    ratio = np.divide(length, a, out=np.full(length.shape, np.inf), where=np.broadcast_to(a > 0, length.shape))
    cosine = np.sum(line * move, axis=-1) / np.maximum(a * length, 1e-300)
    widest = 1.0 if released.shape[-1] == 1 else -np.sqrt(np.maximum(1 - np.minimum(ratio, 1.0) ** 2, 0.0))
    outside = (ratio > 1 + CLOSE) | (cosine < widest - CLOSE)
    still = (a == 0) & (length == 0)  # a degenerate zone is the mean itself
    return np.asarray(outside & ~still)


def degenerate_zones(radius: FloatArray) -> AnyArray:
    """Which published zones are points, shape (..., k): their centroid did not move, so it is the exact mean.

    The algorithm adds no noise in that case, and its transcript shows it.
    """
    return np.asarray(radius == 0)


def transcript_start(release: Release, pair: Pair) -> FloatArray:
    """The first published zones: centers (k d), radii (k), centroids (k d). And the final centroids (k d)."""
    first = release.transcript[: release.n_clusters]
    centers, radii = np.array([z.center for z in first]), np.array([z.radius for z in first])
    drawn = np.array([z.centroid for z in first], dtype=np.float64)
    return np.concatenate([centers.ravel(), radii, drawn.ravel(), release.centroids.ravel()])


def zone_attack(pair: Pair, start: FloatArray) -> Scorer:
    """The means from the published zones: those of D' fit, those of D do not."""
    means = _first_means(pair, start)

    def misfit(rows: FloatArray, side: int) -> AnyArray:
        zones, radii, *_ = _columns(rows, *start.shape)
        return zone_misfit(start, zones, radii, means[side]) > CLOSE

    return _fits_better(misfit)


def support_attack(pair: Pair, start: FloatArray) -> Scorer:
    """The first released centroids: they lie in the support of the means of D', not in that of D."""
    means = _first_means(pair, start)
    return _fits_better(lambda rows, side: outside_support(start, _columns(rows, *start.shape)[2], means[side]))


def ray_attack(pair: Pair, start: FloatArray) -> Scorer:
    """The final centroids: they lie on rays of exact sums of D', not on those of D."""
    rng, lower = np.random.default_rng(1), np.array(pair.bounds.lower)
    sums = [fixed_point_sums(pair.engine(side), len(start), 200, rng) for side in (False, True)]
    return _fits_better(lambda rows, side: ray_misfit(_columns(rows, *start.shape)[3], sums[side], lower) > CLOSE)


def degenerate_zone_attack(pair: Pair, start: FloatArray) -> Scorer:
    """How many published zones are points."""
    return lambda rows: np.asarray(degenerate_zones(_columns(rows, *start.shape)[1]).sum(axis=1), np.float64)


def _columns(rows: FloatArray, k: int, d: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The columns of `transcript_start`: zone centers (runs, k, d), radii (runs, k), released and final centroids."""
    radii = rows[:, k * d : k * (d + 1)]
    return (
        centroids_of(rows, k, d),
        radii,
        centroids_of(rows[:, k * (d + 1) :], k, d),
        centroids_of(rows[:, k * (2 * d + 1) :], k, d),
    )


def _fits_better(misfit: Callable[[FloatArray, int], AnyArray]) -> Scorer:
    """By how many clusters a transcript fits D' better than D. The attacker knows both data sets and needs no runs."""
    return lambda rows: np.asarray(misfit(rows, 0).sum(axis=1, dtype=float) - misfit(rows, 1).sum(axis=1, dtype=float))


def _first_means(data: Pair, start: FloatArray) -> list[FloatArray]:
    """Exact means of the first cells, for D and D'."""
    engines = (data.engine(side) for side in (False, True))
    return [reveal(e.cell_statistics(start), why=ATTACKER).means(empty=start) for e in engines]


def _scores(pair: Pair, name: str, attack: Attack, start: FloatArray) -> tuple[Score, ...]:
    return (FixedScore(name, attack(pair, start)),)


def attack_targets(epsilon: float) -> tuple[Target, ...]:
    """Every attack against the posterior strategy at a total of about `epsilon`, from a public start."""
    apart, triangle = np.array([[0.25, 0.75], [0.75, 0.25]]), np.array([[0.25, 0.25], [0.75, 0.75], [0.1, 0.9]])
    attacks: dict[str, tuple[Attack, Pair, FloatArray]] = {
        "mean from a published zone": (zone_attack, duplicate(), apart),
        "support of the released centroids": (support_attack, outlier(), apart),
        "ray of the final centroids": (ray_attack, duplicate(), apart),
        "degenerate zone": (degenerate_zone_attack, empty_cluster(), triangle),
    }
    targets = []
    for name, (attack, pair, start) in attacks.items():
        method = posterior(step_epsilon=epsilon / 20, release_epsilon=epsilon / 2, init=start, publish_centroids=True)
        scored = partial(_scores, name=name, attack=attack, start=start)
        targets.append(Target(name, "method", "paper", (MethodCase(method, pair, None, scored, transcript_start),)))
    return tuple(targets)
