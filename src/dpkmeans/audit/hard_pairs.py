"""Neighbours that are hard on purpose, for replay: D, one record more, where it stands, and how D is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.audit.replay import Outcome, Replayed, replay
from dpkmeans.engines.config import Stream
from dpkmeans.errors import DPKMeansError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.session import run as fit

LOWER, UPPER = -1.0, 3.0


@dataclass(frozen=True, eq=False)
class HardPair:
    """D (`records`, shape (n, d)), the extra record (d,), where it stands among them, k, and how D is read.

    It is held in memory, or streamed from a file with so many rows in a chunk.
    """

    name: str
    records: FloatArray
    extra: FloatArray
    position: int
    n_clusters: int
    chunk_rows: int | None

    def side(self, with_record: bool) -> FloatArray:
        """The records of D or D'."""
        return np.insert(self.records, self.position, self.extra, axis=0) if with_record else self.records


def hard_pairs(n: int, seed: int = 0) -> Iterator[HardPair]:
    """`n` pairs: every kind of data with every kind of record in turn, first, last or anywhere.

    One in ten is streamed, each kind in turn, and in a third of these the extra record has a chunk of its own.

    >>> [pair.name for pair in hard_pairs(2)]
    ['blobs, at a corner, in a chunk of its own', 'one place, at a corner']
    """
    rng = np.random.default_rng(seed)
    for i in range(n):
        kind, make = list(_DATA.items())[i % len(_DATA)]
        place, extra = list(_RECORDS.items())[i // len(_DATA) % len(_RECORDS)]
        d = int(rng.integers(1, 5))
        records = make(rng, d)
        n_records = len(records)
        position = int(rng.choice(np.array([0, n_records, int(rng.integers(n_records + 1))])))
        pair = HardPair(f"{kind}, {place}", records, extra(rng, records), position, int(rng.integers(1, 5)), None)
        turn = i // len(_DATA)
        yield _streamed(pair, turn, rng) if i % len(_DATA) == turn % len(_DATA) else pair


def _streamed(pair: HardPair, turn: int, rng: np.random.Generator) -> HardPair:
    """The extra record alone in the last chunk, or small chunks, or any."""
    n = len(pair.records)
    if turn % 3 == 0:
        return replace(pair, name=f"{pair.name}, in a chunk of its own", position=n, chunk_rows=n)
    if turn % 3 == 1:
        return replace(pair, name=f"{pair.name}, in small chunks", chunk_rows=max(1, n // 100))
    return replace(pair, name=f"{pair.name}, in chunks", chunk_rows=int(rng.integers(1 + n // 100, n + 2)))


def replay_pair(pair: HardPair, request: FitRequest, seed: int) -> Replayed:
    """Both sides of a pair under one request, from the records or their file to the release."""
    asked = replace(request, n_clusters=pair.n_clusters, bounds=(LOWER, UPPER), engine="memory", nulls="midpoint")
    if pair.chunk_rows is None:
        return replay(run_of(asked, pair.side(False)), run_of(asked, pair.side(True)), seed)
    streamed = replace(asked, engine=Stream(batch_rows=pair.chunk_rows, n_threads=1))
    if find_spec("pyarrow") is None:  # a plain install reads no files: the same chunks, of an array
        return replay(run_of(streamed, pair.side(False)), run_of(streamed, pair.side(True)), seed)
    with TemporaryDirectory() as folder:
        file = Path(folder, "records.parquet")
        without, with_record = (partial(_from_file, streamed, pair, more, file) for more in (False, True))
        return replay(without, with_record, seed)


def _from_file(request: FitRequest, pair: HardPair, with_record: bool, file: Path, rng: Randomness) -> Outcome:
    """A fit of one side, streamed from a file that has its name on both."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({f"x{j}": column for j, column in enumerate(pair.side(with_record).T)})
    parquet.write_table(table, file, row_group_size=pair.chunk_rows)
    return run_of(request, file)(rng)


def run_of(request: FitRequest, X: Any) -> Callable[[Randomness], Outcome]:
    """A whole fit, and all that it shows; one that stops with an error shows the error."""

    def run(rng: Randomness) -> Outcome:
        ledger = Ledger()
        try:
            asked = replace(request, random_state=rng, guarantee="none", ledger=ledger)
            shown: Any = fit(asked, X).release.to_dict()
        except DPKMeansError as error:
            shown = f"{type(error).__name__}: {error}"
        return Outcome(shown, ledger.loss.pure.fraction, ledger.loss.rho.fraction)

    return run


def many_records(n: int, seed: int = 0) -> Iterator[HardPair]:
    """Those of the hard pairs that have thousands of records, held in memory."""
    pairs = (pair for pair in hard_pairs(len(_DATA) * n, seed) if len(pair.records) >= 2000)
    return (replace(pair, chunk_rows=None) for pair in islice(pairs, n))


def uneven_pairs(n: int, seed: int = 0) -> Iterator[HardPair]:
    """`n` pairs whose sides are loose by very different factors, with every kind of record in turn, held in memory."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        place, extra = list(_RECORDS.items())[i % len(_RECORDS)]
        d = int(rng.integers(5, 7))
        records = LOWER + (UPPER - LOWER) * rng.random((7000, d)) * np.ldexp(1.0, -rng.permutation(d))
        position = int(rng.integers(len(records) + 1))
        yield HardPair(f"uneven sides, {place}", records, extra(rng, records), position, int(rng.integers(1, 5)), None)


def _blobs(rng: np.random.Generator, d: int) -> FloatArray:
    centres = rng.uniform(LOWER, UPPER, (3, d))
    return np.asarray(centres[rng.integers(3, size=40)] + 0.1 * rng.standard_normal((40, d)))


def _one_place(rng: np.random.Generator, d: int) -> FloatArray:
    return np.tile(rng.uniform(LOWER, UPPER, d), (int(rng.integers(2, 30)), 1))


def _on_borders(rng: np.random.Generator, d: int) -> FloatArray:
    """Multiples of a quarter of the box, where cells of grids and of public starts meet."""
    return np.asarray(LOWER + (UPPER - LOWER) * rng.integers(0, 5, (30, d)) / 4)


def _few(rng: np.random.Generator, d: int) -> FloatArray:
    return np.asarray(rng.uniform(LOWER, UPPER, (int(rng.integers(1, 5)), d)))


def _many(rng: np.random.Generator, d: int) -> FloatArray:
    """Enough for a fine synopsis."""
    centres = rng.uniform(LOWER, UPPER, (5, d))
    return np.asarray(centres[rng.integers(5, size=3000)] + 0.1 * rng.standard_normal((3000, d)))


def _in_a_corner(rng: np.random.Generator, d: int) -> FloatArray:
    """In a small part of the box, so that a synopsis zooms in."""
    return np.asarray(LOWER + 0.01 * rng.random((2000, d)))


def _wide(rng: np.random.Generator, d: int) -> FloatArray:
    """Many features."""
    return np.asarray(rng.uniform(LOWER, UPPER, (500, 10 + 8 * d)))


def _some_features(rng: np.random.Generator, d: int) -> FloatArray:
    """Enough records for a tree, in a part of a box of 5 to 8 features."""
    centres = rng.uniform(LOWER, LOWER + 1, (3, 4 + d))
    return np.asarray(centres[rng.integers(3, size=2500)] + 0.05 * rng.standard_normal((2500, 4 + d)))


def _wide_blobs(rng: np.random.Generator, d: int) -> FloatArray:
    """Enough records for hyperplanes, and for a zoom around a noisy mean."""
    centres = rng.uniform(LOWER, LOWER + 1, (3, 15 + 3 * d))
    return np.asarray(centres[rng.integers(3, size=2500)] + 0.05 * rng.standard_normal((2500, 15 + 3 * d)))


def _outside(rng: np.random.Generator, d: int) -> FloatArray:
    return np.asarray(rng.standard_normal((30, d)) * 10.0)


def _at_corner(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return np.asarray(rng.choice([LOWER, UPPER], X.shape[1]))


def _far_outside(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return np.asarray(rng.choice([-1e300, 1e300], X.shape[1]))


def _a_tie(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return np.asarray(X[rng.integers(len(X))])


def _between(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return np.asarray((X[rng.integers(len(X))] + X[rng.integers(len(X))]) / 2)


def _on_a_border(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return np.asarray(_on_borders(rng, X.shape[1])[0])


def _alone(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """The place, out of some, that is farthest from all records: an empty cell, if there is one."""
    places = rng.uniform(LOWER, UPPER, (50, X.shape[1]))
    gaps = np.array([((X - place) ** 2).sum(axis=1).min() for place in places])
    return np.asarray(places[gaps.argmax()])


def _missing(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """A record without its first value, or without any."""
    extra = _at_corner(rng, X)
    extra[: int(rng.choice([1, X.shape[1]]))] = np.nan
    return extra


Made = Callable[[np.random.Generator, int], FloatArray]
Placed = Callable[[np.random.Generator, FloatArray], FloatArray]

_DATA: dict[str, Made] = {
    "blobs": _blobs,
    "one place": _one_place,
    "borders of cells": _on_borders,
    "few records": _few,
    "mostly outside": _outside,
    "many records": _many,
    "in a corner": _in_a_corner,
    "many features": _wide,
    "some features": _some_features,
    "blobs in many features": _wide_blobs,
}
_RECORDS: dict[str, Placed] = {
    "at a corner": _at_corner,
    "far outside": _far_outside,
    "a tie": _a_tie,
    "between two": _between,
    "on a border": _on_a_border,
    "alone": _alone,
    "values missing": _missing,
}
