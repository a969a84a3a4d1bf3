"""`Query`: a question about records, and `Sensitivity`: what one record can change in its answer, declared with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Protocol

from dpkmeans._typing import Float32Array, IntArray
from dpkmeans.errors import BudgetError


@dataclass(frozen=True)
class Sensitivity:
    """The most that one record, added or removed, changes in an answer of integers. None: not declared.

    `l1`, `l2_squared` and `linf` are norms of the change over all entries, `columns` the largest change of an entry by
    column. `gap` bounds how far the changes of two entries lie apart, which is what a choice among scores depends on.
    With `one_row`, a record changes a single row of the table.

    Guarantee: each is an upper bound for add/remove-one neighbours, proved on the page that cites it.

    >>> Sensitivity.of_row((1, 4)).l1
    5
    """

    l1: int | None = None
    l2_squared: int | None = None
    linf: int | None = None
    gap: int | None = None
    columns: tuple[int, ...] | None = None
    one_row: bool = False

    def __post_init__(self) -> None:
        norms = [getattr(self, f.name) for f in fields(self) if f.name not in ("columns", "one_row")]
        for bound in (*norms, *(self.columns or ())):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
                raise BudgetError(
                    f"a sensitivity must be a Python integer of at least 0; got {bound!r}. "
                    "Put the answer on an integer grid, and say by how many steps one record can move it."
                )

    @classmethod
    def of_row(cls, columns: Iterable[int]) -> Sensitivity:
        """One record changes one row, and entry j of it by at most `columns[j]`."""
        return replace(cls.of_table(1, columns), one_row=True)

    @classmethod
    def of_table(cls, n_rows: int, columns: Iterable[int]) -> Sensitivity:
        """One record may change every row, and entry j of each by at most `columns[j]`."""
        most = tuple(columns)
        largest = max(most)
        return cls(n_rows * sum(most), n_rows * sum(c * c for c in most), largest, 2 * largest, most)

    def times(self, factor: int) -> Sensitivity:
        """That of the answer times an integer."""
        size = abs(factor)

        def scaled(bound: int | None, by: int = size) -> int | None:
            return None if bound is None else by * bound

        columns = None if self.columns is None else tuple(size * c for c in self.columns)
        return Sensitivity(
            scaled(self.l1),
            scaled(self.l2_squared, size**2),
            scaled(self.linf),
            scaled(self.gap),
            columns,
            self.one_row,
        )


class Query(Protocol):
    """A table of integers over public cells, to which every record adds by itself alone. Records come in tiles."""

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and entries."""

    @property
    def sensitivity(self) -> Sensitivity:
        """What one record adds, at most. Public: it follows from the query's own, public values."""

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the first `n` points of the tiles to the table."""
