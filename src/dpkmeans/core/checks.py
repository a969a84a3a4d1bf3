"""Whole numbers that a user gives, checked in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpkmeans.errors import MethodError

MAX_CLUSTERS = 2**20


def check_integer(value: Any, parameter: str, *, least: int = 1, most: int | None = None, hint: str = "") -> int:
    """`value` as an int, or an error that names `parameter`. True and False are no numbers.

    >>> check_integer(np.int32(3), "n_clusters")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise MethodError(f"must be a whole number of at least {least}; got {value!r}.", parameter=parameter, hint=hint)
    if most is not None and value > most:
        raise MethodError(f"must be a whole number of at most {most}; got {value}.", parameter=parameter, hint=hint)
    return int(value)


def check_n_clusters(n_clusters: Any) -> int:
    """A number of clusters."""
    return check_integer(n_clusters, "n_clusters", most=MAX_CLUSTERS)
