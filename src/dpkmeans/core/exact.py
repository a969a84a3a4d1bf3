"""`Exact`: a wrapper that keeps exact answers about records away from everything but mechanisms.

Engines answer in `Exact[...]`. A mechanism opens it, adds noise and records the spend. Methods that are not
private say so by calling `reveal` with a reason. For everyone else a leak is a type error, and at run time an
exact value has no text, no truth value and no equality.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Exact(Generic[T]):
    """An exact value computed from records. It can be transformed, not looked at."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def map(self, function: Callable[[T], U]) -> Exact[U]:
        """Apply `function` inside; the result stays exact."""
        return Exact(function(self._value))

    def __repr__(self) -> str:
        return "Exact(...)"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("An exact value about records cannot be compared or tested; pass it to a mechanism.")

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
    assert why
    return exact._value
