"""`MovedQuery`: a query about records that are moved first, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dpkmeans._typing import Float32Array, IntArray
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.engines.corner_check import add_checked
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.synopsis import settings

Move = Callable[[Float32Array], Float32Array]
"""From tiles of records to tiles of as many: where a record ends depends on it and on public values alone."""


@dataclass(frozen=True)
class MovedQuery:
    """`query` about the records where `move` takes them."""

    moves: ClassVar[bool] = True  # a corner may end where `query` reaches no bound; `query` is checked by itself
    query: Query
    move: Move

    @property
    def shape(self) -> tuple[int, int]:
        return self.query.shape

    @property
    def sensitivity(self) -> Sensitivity:
        """That of the query: a record that was moved is still one record."""
        return self.query.sensitivity

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        for piece, size in pieces_of(tiles, n):
            add_checked(self.query, self.move(piece), size, table)


def pieces_of(tiles: Float32Array, n: int) -> Iterator[tuple[Float32Array, int]]:
    """The tiles, a few at a time, so that copies of them stay small, and the number of records in each piece."""
    for start in range(0, len(tiles), settings.TILES_AT_ONCE):
        piece = tiles[start : start + settings.TILES_AT_ONCE]
        yield piece, min(n - start * LANES, len(piece) * LANES)
