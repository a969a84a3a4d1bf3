"""Whether bounds look as if they had been computed from the records. For the data holder only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.kinds import Boolean, Category
from dpkmeans.core.schema import Schema
from dpkmeans.errors import TightBoundsWarning, warn


def are_extremes(bounds: Bounds, schema: Schema | None, chunks: Iterable[AnyArray]) -> bool:
    """Whether the bounds are the extremes of the records, in chunks of shape (n, d). For the data holder only.

    Booleans and categories do not count: both ends of them occur in most tables.
    """
    measured = np.ones(bounds.n_features, bool)
    if schema is not None:
        kinds = [column.kind for column in schema.columns for _ in column.coordinates]
        measured = np.array([not isinstance(kind, Boolean | Category) for kind in kinds])
    if not measured.any():
        return False
    low, high = np.full(bounds.n_features, np.inf), np.full(bounds.n_features, -np.inf)
    for chunk in chunks:
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64
            values = chunk.astype(np.float64, copy=False)
        low, high = np.fmin(low, _fold(np.fmin, values, np.inf)), np.fmax(high, _fold(np.fmax, values, -np.inf))
    gaps = np.concatenate([low - bounds.lower, high - bounds.upper])
    return bool((np.abs(gaps) < np.tile(bounds.unit, 2) / GRID)[np.tile(measured, 2)].all())


def _fold(extreme: np.ufunc, values: AnyArray, initial: float) -> AnyArray:
    """`extreme` over the rows of `values`, (n, d) -> (d,). Rows side by side: short ones are slow to reduce."""
    n, d = values.shape
    rest = n % 64
    folded = extreme.reduce(values[: n - rest].reshape(-1, 64 * d), initial=initial).reshape(64, d)
    return np.asarray(extreme.reduce(np.concatenate([folded, values[n - rest :]])))


def warn_of_tight_bounds() -> None:
    """Warn the data holder, once the release is made. Never an error: a failed fit would show what the records are."""
    warning = TightBoundsWarning(
        "in every feature the smallest and the largest record lie exactly on the bounds. If the bounds, or a scaler "
        "that was applied to the records (such as MinMaxScaler), were computed from these records, the release is not "
        "private, whatever its label says.",
        hint="Give {bounds} that are known without looking at the records. If they are, ignore this.",
    )
    try:
        warn(warning)
    except TightBoundsWarning:
        warnings.showwarning(warning, TightBoundsWarning, __file__, 0)
