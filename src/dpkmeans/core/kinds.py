"""Kinds of columns: a number, a boolean, a category; `times` has dates and times. Each maps one value to coordinates.

A kind is public. It knows the coordinates that it gives, their bounds, and how to read released coordinates; how a
value of a table becomes coordinates is in `data.encode`. Proof: proofs/schema.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from dpkmeans.errors import SchemaError

REFUSE, MIDPOINT, OTHER = "refuse", "midpoint", "other"
TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
MAX_LEVELS = 1000
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?")

Level = str | int | float | bool
Side = tuple[float, float]


class Kind(Protocol):
    """What the schema needs to know of a column."""

    name: ClassVar[str]
    weight: ClassVar[float]
    """By what a coordinate is multiplied so that the two ends of the column are as far apart as those of a number."""

    @property
    def missing(self) -> Any: ...
    def coordinates(self, column: str) -> tuple[str, ...]:
        """A name for each coordinate of the column."""

    def sides(self) -> tuple[Side, ...] | None:
        """Lower and upper end of each coordinate; None where they are not known yet."""

    def fill(self) -> tuple[float, ...] | None:
        """Coordinates of a missing value; None where it is refused."""

    def readable(self, values: Sequence[float]) -> Any:
        """Released coordinates as a person reads them."""

    def options(self) -> dict[str, Any]:
        """Plain values from which the kind can be made again."""


@dataclass(frozen=True)
class Number:
    """A number from `lower` to `upper`, both public; values outside are clipped.

    `missing` says what takes the place of a missing value: a number or `"midpoint"`; by default it is refused.
    `infinite="clip"` clips infinities, which are refused otherwise. Without bounds, they are estimated
    (`bounds_epsilon`).

    Guarantee: none of its own; each value is mapped by itself. Source: proofs/schema.md.

    >>> Number(0, 120).sides()
    ((0.0, 120.0),)
    """

    lower: float | None = None
    upper: float | None = None
    missing: float | str | None = None
    infinite: str = REFUSE
    name: ClassVar[str] = "number"
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        for end in ("lower", "upper"):
            value = getattr(self, end)
            if value is not None:
                object.__setattr__(self, end, _number(value, f"{end} must be a finite number"))
        if self.infinite not in (REFUSE, "clip"):
            raise SchemaError(f"infinite must be 'refuse' or 'clip'; got {self.infinite!r}.")
        if self.missing not in (None, REFUSE, MIDPOINT):
            object.__setattr__(
                self, "missing", _number(self.missing, "missing must be a number, 'midpoint' or 'refuse'")
            )
        if (self.lower is None) != (self.upper is None):
            raise SchemaError("a number needs both ends or none. Write, say, Number(0, 120).")
        if self.lower is None and (self.missing == MIDPOINT or self.infinite == "clip"):
            raise SchemaError("a number without bounds has no middle and no ends. Give lower and upper.")
        check_order(self.sides(), self)

    def coordinates(self, column: str) -> tuple[str, ...]:
        return (column,)

    def sides(self) -> tuple[Side, ...] | None:
        return None if self.lower is None or self.upper is None else ((self.lower, self.upper),)

    def fill(self) -> tuple[float, ...] | None:
        return fill_of(self.missing, self.sides(), float)

    def readable(self, values: Sequence[float]) -> float:
        return float(values[0])

    def options(self) -> dict[str, Any]:
        infinite = None if self.infinite == REFUSE else self.infinite
        return given(lower=self.lower, upper=self.upper, missing=self.missing, infinite=infinite)


@dataclass(frozen=True)
class Boolean:
    """True or false; a released coordinate is the share that is true.

    `true` and `false` are the texts that stand for them, one or several; `true`, `yes`, `1` and so on by default. What
    they do not name but is 1 or 0, `True` and `False` included, means itself.
    `missing` may be True, False, `"midpoint"` or `"refuse"`.

    Guarantee: none of its own; each value is mapped by itself. Source: proofs/schema.md.

    >>> Boolean(true="ja", false="nein").sides()
    ((0.0, 1.0),)
    """

    true: tuple[str, ...] = TRUE
    false: tuple[str, ...] = FALSE
    missing: bool | str | None = None
    name: ClassVar[str] = "boolean"
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        for side in ("true", "false"):
            given = getattr(self, side)
            texts = (given,) if isinstance(given, str) else tuple(given)
            if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
                raise SchemaError(f"{side} must be texts, such as {side}='ja'; got {given!r}.")
            object.__setattr__(self, side, tuple(text.strip().lower() for text in texts))
        if set(self.true) & set(self.false):
            raise SchemaError("a text cannot mean both true and false.")
        if self.missing not in (None, REFUSE, MIDPOINT) and not isinstance(self.missing, bool):
            raise SchemaError(f"missing must be True, False, 'midpoint' or 'refuse'; got {self.missing!r}.")

    def coordinates(self, column: str) -> tuple[str, ...]:
        return (column,)

    def sides(self) -> tuple[Side, ...]:
        return ((0.0, 1.0),)

    def fill(self) -> tuple[float, ...] | None:
        if isinstance(self.missing, bool):
            return (float(self.missing),)
        return (0.5,) if self.missing == MIDPOINT else None

    def readable(self, values: Sequence[float]) -> float:
        return min(max(float(values[0]), 0.0), 1.0)

    def options(self) -> dict[str, Any]:
        texts = {
            side: list(given)
            for side, given, usual in (("true", self.true, TRUE), ("false", self.false, FALSE))
            if given != usual
        }
        return {**texts, **given(missing=self.missing)}


@dataclass(frozen=True, init=False, repr=False)
class Category:
    """One of public `levels`; one coordinate per level, whose released value is the share of that level.

    A value that is no level counts as "other": it has zeros in all coordinates, or its own coordinate if "other" is
    listed among the levels. Numbers match by value, in texts too; `true` and `false` are 1 and 0. `missing` may be a
    level, `"other"`, `"midpoint"` (an equal share of each level) or `"refuse"`.

    Guarantee: none of its own; each value is mapped by itself. Source: proofs/schema.md.

    >>> Category("N", "S").coordinates("region")
    ('region=N', 'region=S')
    """

    levels: tuple[Level, ...]
    missing: Level | None
    name: ClassVar[str] = "category"
    weight: ClassVar[float] = math.sqrt(0.5)

    def __init__(self, *levels: Level, missing: Level | None = None) -> None:
        levels = tuple(level.item() if hasattr(level, "item") else level for level in levels)  # NumPy's own types
        if len(levels) == 1 and not isinstance(levels[0], Level):
            raise SchemaError("levels are given one by one: Category('N', 'S'), or Category(*levels).")
        if not 1 <= len(levels) <= MAX_LEVELS:
            raise SchemaError(f"a category needs 1 to {MAX_LEVELS} levels; got {len(levels)}.")
        for level in levels:
            if not isinstance(level, Level) or (isinstance(level, float) and not math.isfinite(level)):
                raise SchemaError(f"a level must be a text, a number or a boolean; got {level!r}.")
            if isinstance(level, str) and not level.strip():
                raise SchemaError("a level must not be empty; an empty cell is a missing value.")
        keys = [level_key(level) for level in levels]
        twice = next((level for level, key in zip(levels, keys, strict=True) if keys.count(key) > 1), None)
        if twice is not None:
            raise SchemaError(
                f"a level is listed twice: {twice!r}. Numbers are compared as numbers, in texts too; true and false "
                "are 1 and 0."
            )
        if missing not in (None, REFUSE, MIDPOINT, OTHER) and level_key(missing) not in keys:
            raise SchemaError(f"missing must be a level, 'other', 'midpoint' or 'refuse'; got {missing!r}.")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "missing", missing)

    def __repr__(self) -> str:
        extra = [] if self.missing is None else [f"missing={self.missing!r}"]
        return f"Category({', '.join([*map(repr, self.levels), *extra])})"

    @property
    def texts(self) -> tuple[str, ...]:
        """The levels as they are shown."""
        return tuple(map(level_text, self.levels))

    @property
    def keys(self) -> tuple[str, ...]:
        """The levels as they are compared."""
        return tuple(map(level_key, self.levels))

    def coordinates(self, column: str) -> tuple[str, ...]:
        return tuple(f"{column}={text}" for text in self.texts)

    def sides(self) -> tuple[Side, ...]:
        return ((0.0, 1.0),) * len(self.levels)

    def fill(self) -> tuple[float, ...] | None:
        m = len(self.levels)
        if self.missing in (None, REFUSE):
            return None
        if self.missing == MIDPOINT:
            return (1.0 / m,) * m
        return tuple(float(key == level_key(self.missing)) for key in self.keys)  # "other" may be none of them

    def readable(self, values: Sequence[float]) -> dict[str, float]:
        """The share of each level and of "other", the most likely first."""
        shares = [min(max(float(value), 0.0), 1.0) for value in values]
        total = max(sum(shares), 1.0)
        found = {text: share / total for text, share in zip(self.texts, shares, strict=True)}
        found[OTHER] = found.get(OTHER, 0.0) + max(1.0 - sum(shares), 0.0)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def options(self) -> dict[str, Any]:
        return {"levels": list(self.levels), **given(missing=self.missing)}


def level_key(value: Any) -> str:
    """A level, or a value of a table, in the one form in which they are compared, whatever its type.

    Libraries turn `True` into `1`, `1` into `1.0` and all of them into text for the sake of one other record, so these
    are the same: every number is compared as a float64, and `true` and `false` as 1 and 0.

    >>> [level_key(value) for value in (True, 1, 1.0, "1", "01", "1.0", " true ", "N")]
    ['1', '1', '1', '1', '1', '1', '1', 'N']
    """
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("true", "false"):
            return "1" if text.lower() == "true" else "0"
        if not _NUMBER.fullmatch(text):
            return text
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return str(int(number)) if number.is_integer() else repr(number)


def level_text(level: Level) -> str:
    """A level as it is shown."""
    if isinstance(level, bool):
        return str(level).lower()
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return level.strip() if isinstance(level, str) else str(level)


def _number(value: Any, what: str) -> float:
    try:
        found = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise SchemaError(f"{what}; got {value!r}.")
    return found


def check_order(sides: Sequence[Side] | None, kind: Any) -> None:
    """Refuse ends in the wrong order."""
    fill = kind.fill()
    for low, high in sides or ():
        if fill is not None and not low <= fill[0] <= high:
            raise SchemaError(f"missing must lie between lower and upper; got {kind.missing!r}.")
        if not low < high:
            ends = f"lower={kind.lower!r}, upper={kind.upper!r}"
            swapped = f" Did you mean {kind.upper} to {kind.lower}?" if high < low else ""
            raise SchemaError(f"lower must be below upper; got {ends}.{swapped}")


def fill_of(missing: Any, sides: Sequence[Side] | None, number: Callable[[Any], float]) -> tuple[float, ...] | None:
    """The one coordinate of a missing value: none, the middle, or a value of the column as `number` reads it."""
    if missing in (None, REFUSE):
        return None
    if missing == MIDPOINT:
        return tuple(low + (high - low) / 2 for low, high in sides or ())
    return (number(missing),)


def given(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
