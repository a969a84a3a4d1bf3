"""The demo: synthetic visits around eight fictitious towns, and the distance of each to its centroid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray

N_VISITS = 50_000
EPSILON = 1.0
SMALL_EPSILON = 0.05  # at which one sees what the noise does
BOX_KM = 100.0
MAX_FOUND_KM = 10.0  # a town farther from its centroid than this was not found
FEATURES = ("east_km", "north_km")


@dataclass(frozen=True)
class Town:
    """A town: its name, its place in km, its share of all visits, and how far its visits spread in km."""

    name: str
    east: float
    north: float
    share: float
    spread: float


TOWNS = (
    Town("Ambervale", 20.0, 22.0, 0.24, 7.0),
    Town("Brackwater", 52.0, 14.0, 0.08, 5.0),
    Town("Cinderford", 83.0, 24.0, 0.16, 6.0),
    Town("Dunmarrow", 16.0, 55.0, 0.07, 5.0),
    Town("Eastholm", 82.0, 57.0, 0.13, 6.0),
    Town("Fennick", 46.0, 50.0, 0.18, 7.0),
    Town("Gallowmere", 24.0, 86.0, 0.09, 5.0),
    Town("Hartsend", 67.0, 86.0, 0.05, 4.0),
)


@dataclass(frozen=True)
class Found:
    """A town, the centroid that was matched to it, and the distance between them in km."""

    town: Town
    cluster: int
    east: float
    north: float
    distance: float


def visits(n_visits: int = N_VISITS) -> FloatArray:
    """Synthetic visits, shape (n_visits, 2), in km; from a fixed seed."""
    rng = np.random.default_rng(20)
    shares = np.array([town.share for town in TOWNS])
    town = rng.choice(len(TOWNS), size=n_visits, p=shares / shares.sum())
    places = np.array([(t.east, t.north) for t in TOWNS])
    spreads = np.array([t.spread for t in TOWNS])
    points = places[town] + spreads[town, None] * rng.standard_normal((n_visits, 2))
    return BOX_KM - np.abs(BOX_KM - np.abs(points))  # reflected at the border: clipped ones would lie on the bounds


def match(centroids: FloatArray) -> list[Found]:
    """Each town with a centroid of its own, nearest pairs first, in the order of `TOWNS`.

    `centroids` has shape (8, 2).
    """
    places = np.array([(town.east, town.north) for town in TOWNS])
    distances = np.linalg.norm(places[:, None, :] - centroids, axis=2)
    found: dict[int, Found] = {}
    while len(found) < len(TOWNS):
        i, j = map(int, np.unravel_index(np.argmin(distances), distances.shape))
        found[i] = Found(TOWNS[i], j, float(centroids[j, 0]), float(centroids[j, 1]), float(distances[i, j]))
        distances[i, :] = np.inf
        distances[:, j] = np.inf
    return [found[i] for i in range(len(TOWNS))]
