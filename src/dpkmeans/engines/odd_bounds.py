"""Bounds that look as if they had been computed from the records, or fit none of them. For the data holder only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.kinds import Boolean, Category
from dpkmeans.core.schema import Schema
from dpkmeans.errors import DPKMeansWarning, MisfitWarning, TightBoundsWarning, warn


def look_at(bounds: Bounds, schema: Schema | None, chunks: Iterable[AnyArray]) -> list[DPKMeansWarning]:
    """What is odd about the bounds, given the records in chunks of shape (n, d). For the data holder only."""
    low, high = np.full(bounds.n_features, np.inf), np.full(bounds.n_features, -np.inf)
    for chunk in chunks:
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64
            values = chunk.astype(np.float64, copy=False)
        low, high = np.fmin(low, _fold(np.fmin, values, np.inf)), np.fmax(high, _fold(np.fmax, values, -np.inf))
    found: list[DPKMeansWarning] = []
    measured, j = np.ones(bounds.n_features, bool), 0
    for column in () if schema is None else schema.columns:
        part = slice(j, j + len(column.coordinates))
        measured[part] = not isinstance(column.kind, Boolean | Category)  # both ends of those occur in most tables
        if isinstance(column.kind, Category) and (high[part] <= 0).all():
            found.append(_misfit(column.name, "has any of its levels", "Levels must match exactly, capitals included."))
        elif measured[j] and ((high <= bounds.lower) | (low >= bounds.upper))[part].all():
            found.append(_misfit(column.name, "lies between its bounds", "Are they in the unit of the column?"))
        j = part.stop
    gaps = np.concatenate([low - bounds.lower, high - bounds.upper])
    if measured.any() and (np.abs(gaps) < np.tile(bounds.unit, 2) / GRID)[np.tile(measured, 2)].all():
        found.append(TightBoundsWarning(_TIGHT, hint=_TIGHT_HINT))
    return found


def _misfit(column: str, what: str, hint: str) -> MisfitWarning:
    return MisfitWarning(f"no record {what} in column {column!r}, so what was released of it means nothing.", hint=hint)


def _fold(extreme: np.ufunc, values: AnyArray, initial: float) -> AnyArray:
    """`extreme` over the rows of `values`, (n, d) -> (d,). Rows side by side: short ones are slow to reduce."""
    n, d = values.shape
    rest = n % 64
    folded = extreme.reduce(values[: n - rest].reshape(-1, 64 * d), initial=initial).reshape(64, d)
    return np.asarray(extreme.reduce(np.concatenate([folded, values[n - rest :]])))


def warn_holder(found: Iterable[DPKMeansWarning]) -> None:
    """Warn the data holder, once the release is made. Never an error: a failed fit would show what the records are."""
    for warning in found:
        try:
            warn(warning)
        except DPKMeansWarning:
            warnings.showwarning(warning, type(warning), __file__, 0)


_TIGHT = (
    "in every feature the smallest and the largest record lie exactly on the bounds. If the bounds, or a scaler that "
    "was applied to the records (such as MinMaxScaler), were computed from these records, the release is not private, "
    "whatever its label says."
)
_TIGHT_HINT = "Give {bounds} that are known without looking at the records. If they are, ignore this."
