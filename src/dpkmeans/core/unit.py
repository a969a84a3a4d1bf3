"""The privacy unit: what a neighbouring table has more or less of. A row, up to m rows, or all rows of a person.

A unit is public. `records` is how many records of one unit a method sees at most: a method that is ε-differentially
private for one record is `records` · ε for one unit. Proof: proofs/persons.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from dpkmeans.core.checks import check_integer
from dpkmeans.errors import MethodError

Keep = Literal["rows", "mean", "one"]
MissingIds = Literal["refuse", "own"]
KEEPS: tuple[Keep, ...] = ("rows", "mean", "one")
MISSING_IDS: tuple[MissingIds, ...] = ("refuse", "own")
AUTO = "auto"
MAX_ROWS = 10**6  # a budget of 1000 still has a nano-epsilon for each


@dataclass(frozen=True)
class Row:
    """One row is one unit: each row is a person of its own, or what is protected is a single row.

    Guarantee: that of the method, for neighbours that differ by one row. Source: proofs/README.md.

    >>> Row().records
    1
    """

    name: ClassVar[str] = "row"
    neighbours: ClassVar[str] = "add or remove one record"
    difference: ClassVar[str] = "one record added or removed"
    records: ClassVar[int] = 1


ROWS_PER_PERSON = "rows per person"
"""The label of the spend that chooses how many rows of a person count: the one that is paid per person."""


@dataclass(frozen=True)
class Rows:
    """Up to `at_most` rows belong to one person, and no column says which: the caller's word, which is not checked.

    Guarantee: ε for all rows of a person, if nobody has more: methods get an `at_most`-th of it. Source:
    proofs/persons.md.

    >>> Rows(5).difference
    'up to 5 records of one person added or removed'
    """

    at_most: int
    name: ClassVar[str] = "person"

    def __post_init__(self) -> None:
        most = check_integer(self.at_most, "at_most", most=MAX_ROWS, hint="Write, say, Rows(5).")
        object.__setattr__(self, "at_most", most)

    @property
    def records(self) -> int:
        return self.at_most

    @property
    def neighbours(self) -> str:
        return f"add or remove up to {self.at_most} records of one person"

    @property
    def difference(self) -> str:
        return f"up to {self.at_most} records of one person added or removed"


@dataclass(frozen=True)
class Person:
    """All rows with the same id in `column` belong to one person.

    `keep` says what becomes of them: `"rows"`, at most `at_most` rows, chosen evenly at random, each of which is a
    record; `"mean"`, one record, the mean of the rows after clipping; `"one"`, one row, chosen evenly at random.
    `at_most="auto"` spends 2 % of epsilon on a private choice of it. `missing_ids` says what becomes of rows without an
    id: `"refuse"`, or `"own"`, each counts as a person of its own.

    Guarantee: what is kept of a person depends on that person's rows alone, so a person more or less changes at most
    `records` records of what a method sees. Source: proofs/persons.md.

    >>> Person("patient_id", at_most=5).records, Person("patient_id", keep="mean").records
    (5, 1)
    >>> Person("patient_id", at_most=5).difference
    'all rows of one person (at most 5 of which count) added or removed'
    """

    column: str
    at_most: int | Literal["auto"] | None = None
    keep: Keep = "rows"
    missing_ids: MissingIds = "refuse"
    name: ClassVar[str] = "person"
    neighbours: ClassVar[str] = "add or remove all rows of one person"

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise MethodError(f"must be the name of the column with the ids; got {self.column!r}.", parameter="person")
        if self.keep not in KEEPS:
            raise MethodError(f"must be one of {', '.join(KEEPS)}; got {self.keep!r}.", parameter="keep")
        if self.missing_ids not in MISSING_IDS:
            raise MethodError(
                f"must be one of {', '.join(MISSING_IDS)}; got {self.missing_ids!r}.", parameter="missing_ids"
            )
        if self.keep != "rows" and self.at_most is not None:
            raise MethodError(
                f"is for rows that are kept; with {self.keep!r} a person is one record.",
                parameter="at_most",
                hint="Leave {at_most} out, or keep rows.",
            )
        if self.keep == "rows" and self.at_most != AUTO:
            hint = "Write, say, {at_most=5}, or {at_most='auto'} to spend 2 % of epsilon on a private choice."
            if self.at_most is None:
                raise MethodError("is missing: how many rows of a person count.", parameter="at_most", hint=hint)
            object.__setattr__(self, "at_most", check_integer(self.at_most, "at_most", most=MAX_ROWS, hint=hint))

    @property
    def records(self) -> int:
        if self.keep != "rows":
            return 1
        if not isinstance(self.at_most, int):
            raise MethodError("is not chosen yet.", parameter="at_most")
        return self.at_most

    @property
    def difference(self) -> str:
        counts = {"mean": "whose mean counts", "one": "one of which counts"}
        count = counts.get(self.keep) or f"at most {self.at_most} of which count"
        return f"all rows of one person ({count}) added or removed"

    def with_at_most(self, at_most: int) -> Person:
        """The same with a number in place of `"auto"`."""
        return replace(self, at_most=at_most)


Unit = Row | Rows | Person


def as_unit(unit: Any) -> Unit:
    """The unit that a caller gives; a row where none is given."""
    if unit is None:
        return Row()
    if isinstance(unit, Row | Rows | Person):
        return unit
    raise MethodError(
        f"must be Row(), Rows(5) or Person('patient_id', at_most=5), for example; got {unit!r}.", parameter="unit"
    )
