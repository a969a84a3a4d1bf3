"""Private histograms of columns within the clusters of a release. Proof: proofs/evaluation.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

from dpkmeans.core.exact import Exact
from dpkmeans.core.release import Release
from dpkmeans.data.open import nulls_of
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines.open import EngineSpec, OpenedData, open_data
from dpkmeans.engines.persons import Door
from dpkmeans.errors import SchemaError
from dpkmeans.evaluation.answers import LEVEL, Basis, Histogram, Profile
from dpkmeans.evaluation.asking import Asking, Draw, Question, ask, features_of
from dpkmeans.evaluation.bins import MAX_CELLS, binned
from dpkmeans.evaluation.queries import ClusterHistograms
from dpkmeans.methods.persons import schema_with_ids
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.storage.schema_files import read_schema


def profile(release: Release, X: Any, columns: Any, epsilon: float, bins: Any, how: Asking) -> Profile:
    """See `Release.profile`."""
    features = features_of(release)
    if features is None:
        raise SchemaError(
            "columns are found by name, and this model has no names of features.",
            hint="Fit a frame or a file with named columns.",
        )
    nulls = nulls_of(X, "refuse")
    named = read_schema(columns) if isinstance(columns, PathLike) else columns
    sides = dict(zip(release.names, zip(release.bounds.lower, release.bounds.upper, strict=True), strict=True))
    schema, wanted = binned(named, release.schema, features.with_missing(nulls), sides, bins)
    task = ClusterHistograms(release.bounds, release.bounds.unit_of(release.centroids), nulls, wanted)
    if task.starts[-1] > MAX_CELLS:
        raise SchemaError(f"give {task.starts[-1]} cells in all; at most {MAX_CELLS} can be counted.", parameter="bins")

    def opened(door: Door | None, engine: EngineSpec) -> OpenedData:
        records, read = _all_columns(X), schema
        if door is not None:
            read, records = schema_with_ids(records, schema, door)
        return open_data(records, engine, schema=read, door=door, keep_missing=True)

    def answer(draw: Draw, basis: Callable[[], Basis]) -> Profile:
        epsilon, exact = draw.epsilon, Exact(draw.data.survey(task), task.sensitivity)
        noisy = Laplace(epsilon).release(exact, ledger=draw.ledger, rng=draw.rng, label="profile")
        margin = laplace_margin(LEVEL, len(wanted) / float(epsilon))
        found = {
            column.name: Histogram(column.bins, noisy[start:stop].reshape(-1, len(column.bins)), margin)
            for column, start, stop in zip(wanted, task.starts, task.starts[1:], strict=False)
        }
        return Profile(found, basis())

    return ask(release, epsilon, Question("profile", opened, answer), how)


def _all_columns(X: Any) -> Any:
    """The records with all of their columns: which are read follows from the schema."""
    return replace(X, columns=None) if isinstance(X, Files | FrameSource) else X


def laplace_margin(level: float, scale: float) -> int:
    """The smallest whole t with P(|z| <= t) >= level, where P(z) ∝ exp(-|z|/scale) on whole numbers.

    P(|z| > t) = 2·r^(t + 1)/(1 + r) with r = exp(-1/scale).

    >>> laplace_margin(0.95, 1.0)
    3
    """
    r = math.exp(-1 / scale)
    return max(math.ceil(-scale * math.log((1 - level) * (1 + r) / 2) - 1), 0)
