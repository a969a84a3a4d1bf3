"""`Exact`: a wrapper that keeps exact answers about records away from everything but mechanisms.

Engines answer in `Exact[...]`, which carries the sensitivity that the question declares. A mechanism opens it, adds
noise for that sensitivity and records the spend. Methods that are not private say so by calling `reveal` with a reason.
For everyone else a leak is a type error, and at run time an exact value has no text, no truth value, no equality, and
no way into a file or another process.
"""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError

T = TypeVar("T")
_UNDECLARED = Sensitivity()


class Exact(Generic[T]):
    """An exact value computed from records, with what one record can change in it. It cannot be looked at.

    It can be transformed where the effect on the sensitivity is known: by choosing entries, or times an integer.
    """

    __slots__ = ("_value", "sensitivity")

    def __init__(self, value: T, sensitivity: Sensitivity | None = None) -> None:
        self._value = value
        self.sensitivity = sensitivity or _UNDECLARED

    def times(self: Exact[IntArray], factor: int) -> Exact[IntArray]:
        """All entries times an integer."""
        return Exact(factor * self._value, self.sensitivity.times(factor))

    def entries(self: Exact[IntArray], chosen: IntArray) -> Exact[IntArray]:
        """The chosen, different entries of a vector: no norm of the change grows."""
        vectors = self._value.ndim == 1 == np.ndim(chosen)
        if not vectors or np.bincount(chosen % self._value.size, minlength=1).max() > 1:
            raise BudgetError("entries are chosen from a vector, each at most once. Choose different ones.")
        s = self.sensitivity
        return Exact(self._value[chosen], Sensitivity(s.l1, s.l2_squared, s.linf, s.gap))

    def entry(self: Exact[IntArray], row: int, column: int) -> Exact[IntArray]:
        """One entry of a table, shape (1,), which one record changes by what its column declares."""
        if self.sensitivity.columns is None or not isinstance(row, int) or not isinstance(column, int):
            raise BudgetError("an entry is one number of an answer that declares its sensitivity by column.")
        return Exact(self._value[row, column : column + 1], Sensitivity.of_row((self.sensitivity.columns[column],)))

    def with_local_sensitivity(self, sensitivity: Sensitivity, *, why: str) -> Exact[T]:
        """The same value with a sensitivity that is not proved, such as one read from the records. Not private."""
        return Exact(reveal(self, why=why), sensitivity)

    def __repr__(self) -> str:
        return "Exact(...)"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("An exact value about records cannot be compared or tested; pass it to a mechanism.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("An exact value about records cannot be pickled or copied; release it, and keep the release.")

    __bool__ = _refuse
    __eq__ = _refuse
    __ne__ = _refuse
    __lt__ = _refuse
    __le__ = _refuse
    __gt__ = _refuse
    __ge__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def reveal(exact: Exact[T], *, why: str) -> T:
    """The value itself. Not private: for mechanisms, and for methods that are not labelled `proved`.

    `why` is for the reader of the calling line.
    """
    if not why:
        raise ValueError("an exact value is revealed for a reason only; got an empty one. Say why it is not a leak.")
    return exact._value
