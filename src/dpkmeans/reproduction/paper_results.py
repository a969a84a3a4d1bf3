"""The numbers that the paper prints: its two iteration tables and its text. The data of its figures are not printed."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Average passes of one data set. Lloyd appears twice, once in each table."""

    lloyd: float
    posterior: float
    posterior_ratio: float
    lloyd_beside_prior: float
    prior: float
    prior_ratio: float


PASSES = {
    "iris": Published(6.07, 5.89, 0.97, 6.1, 8.2, 1.34),
    "house": Published(17.22, 16.40, 0.95, 17.3, 21.4, 1.24),
    "s1": Published(17.64, 17.05, 0.97, 18.0, 23.9, 1.33),
    "birch2": Published(15.52, 14.73, 0.95, 15.6, 20.7, 1.33),
    "image": Published(14.26, 13.60, 0.95, 14.1, 19.8, 1.40),
    "lifesci": Published(29.72, 28.92, 0.97, 29.9, 36.6, 1.22),
}


class Shape(NamedTuple):
    """A line of the paper's table of data sets."""

    records: int
    features: int
    clusters: int


SHAPES = {
    "iris": Shape(150, 4, 3),
    "house": Shape(1837, 3, 3),
    "s1": Shape(5000, 2, 15),
    "birch2": Shape(12_000, 2, 5),
    "image": Shape(34_112, 3, 3),
    "lifesci": Shape(26_733, 10, 3),
}

EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RUNS = 300
