"""`Vector`: a column that holds a list of numbers in each cell, such as an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dpkmeans.core.kinds import MIDPOINT, REFUSE, Number, Side, given
from dpkmeans.errors import SchemaError

MAX_LENGTH = 100_000


@dataclass(frozen=True)
class Vector:
    """`length` numbers in every cell, each from `lower` to `upper`, all public; one coordinate per number.

    Without ends, a ball bounds them (`max_norm`, `normalize`, `bounds=Ball(...)`). Lists of another length are refused.
    A cell with a missing number is missing: it is refused, or `missing="midpoint"` takes the middle.

    Guarantee: none of its own; each cell is mapped by itself. Source: proofs/schema.md.

    >>> Vector(3, -1, 1).coordinates("embedding")
    ('embedding[0]', 'embedding[1]', 'embedding[2]')
    """

    length: int
    lower: float | None = None
    upper: float | None = None
    missing: str | None = None
    name: ClassVar[str] = "vector"
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, int) or not 1 <= self.length <= MAX_LENGTH:
            raise SchemaError(f"length must be a whole number from 1 to {MAX_LENGTH}; got {self.length!r}.")
        if self.missing not in (None, REFUSE, MIDPOINT):
            raise SchemaError(f"missing must be 'midpoint' or 'refuse'; got {self.missing!r}.")
        one = Number(self.lower, self.upper)  # checks the ends
        object.__setattr__(self, "lower", one.lower)
        object.__setattr__(self, "upper", one.upper)

    def coordinates(self, column: str) -> tuple[str, ...]:
        return tuple(f"{column}[{i}]" for i in range(self.length))

    def sides(self) -> tuple[Side, ...] | None:
        return None if self.lower is None or self.upper is None else ((self.lower, self.upper),) * self.length

    def fill(self) -> tuple[float, ...] | None:
        if self.missing != MIDPOINT or self.lower is None or self.upper is None:
            return None
        return (self.lower + (self.upper - self.lower) / 2,) * self.length

    def readable(self, values: Sequence[float]) -> list[float]:
        return [float(value) for value in values]

    def options(self) -> dict[str, Any]:
        return {"length": self.length, **given(lower=self.lower, upper=self.upper, missing=self.missing)}
