"""A budget for persons, and what a method may spend of it that sees records.

A method that is ε-differentially private for one record is m · ε for a unit of m records, so it gets an m-th of what is
promised, and the ledger books m times what it spends. Proof: proofs/persons.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from dpkmeans._typing import IntArray
from dpkmeans.core.cost import promised_fields
from dpkmeans.core.exact import Exact
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.schema import Column, Schema
from dpkmeans.core.unit import AUTO, ROWS_PER_PERSON, Person, Unit
from dpkmeans.data.open import column_names
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines.persons import CANDIDATES, Door
from dpkmeans.errors import BudgetError, DataError, MethodError, SchemaError
from dpkmeans.privacy.ledger import Ledger, ledger_of_records
from dpkmeans.privacy.mechanisms import PermuteAndFlip
from dpkmeans.privacy.randomness import Randomness

AUTO_SHARE = 0.02  # of epsilon: at epsilon 1 the quantile is off by some hundred persons, seldom more
R = TypeVar("R", bound=Any)


class UnitBudget:
    """What a fit may spend per unit, and per record once it is known how many records a unit has at most."""

    def __init__(self, units: Ledger, unit: Unit, rng: Randomness) -> None:
        self.units = units
        self.unit = unit
        self._rng = rng
        self.door = Door(unit, rng.key(), self._choose) if isinstance(unit, Person) else None
        self._records: Ledger | None = None

    def of_records(self) -> Ledger:
        """The ledger for what asks about records."""
        if self._records is None:
            self._records = ledger_of_records(self.units, self.unit.records)
        return self._records

    def of_units(self, release: R) -> R:
        """The release with what was spent per unit, and a guarantee that says so."""
        if self._records is self.units and release.guarantee.unit == self.unit:
            return release
        promised, guarantee = promised_fields(self.units.privacy), replace(release.guarantee, unit=self.unit)
        changed: R = replace(release, guarantee=guarantee, spends=self.units.spends, **promised)
        return changed

    def _choose(self, scores: Exact[IntArray]) -> int:
        """A private choice of how many rows of a person count: close to the 95 % quantile of rows per person."""
        share = self.units.remaining.share(AUTO_SHARE)
        chosen = PermuteAndFlip(share).release(scores, ledger=self.units, rng=self._rng, label=ROWS_PER_PERSON)
        assert isinstance(self.unit, Person)
        self.unit = self.unit.with_at_most(CANDIDATES[chosen])
        return CANDIDATES[chosen]


def check_unit(unit: Unit, promise: Privacy | None, n_records: int | None) -> None:
    """Refuse what does not go together, before anything is read."""
    if isinstance(unit, Person) and unit.at_most == AUTO:
        if promise is None:
            raise BudgetError(
                "is needed to choose how many rows of a person count.", parameter="epsilon", hint="Write {epsilon=1.0}."
            )
        promise.pure.share(AUTO_SHARE)
    elif promise is not None:
        promise.pure.per(unit.records)
    if isinstance(unit, Person) and unit.keep == "rows" and n_records is not None:
        raise MethodError(
            "cannot be given where rows of persons are cut down: how many are left is private.",
            parameter="n_records",
            hint="Leave {n_records} out; or keep one record per person, and give the number of persons.",
        )


def schema_with_ids(X: Any, schema: Schema | None, door: Door) -> tuple[Schema, Any]:
    """The columns to read, the ids last, and the records to read them from."""
    column = door.unit.column
    if schema is None:
        names = column_names(X)
        if not names:
            raise DataError(
                f"ids are found by name, and {type(X).__name__} has no names of columns.",
                parameter="unit",
                hint="Give a frame or files.",
            )
        schema = Schema.of_numbers(name for name in names if name != column)
    if column in schema.names:
        raise SchemaError(f"column {column!r} holds ids, and cannot be a feature.", hint="Leave it out of the bounds.")
    chosen = isinstance(X, Files | FrameSource) and X.columns is not None
    return Schema((*schema.columns, Column(column, door.column))), replace(X, columns=None) if chosen else X
