"""Kinds of columns that hold dates and times of day, as numbers of a unit. See `kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar, Literal

from dpkmeans.core.kinds import MIDPOINT, REFUSE, Side, check_order, fill_of, given
from dpkmeans.errors import SchemaError

EPOCH = datetime(1970, 1, 1)
LAST = (datetime.max - EPOCH) // timedelta(microseconds=1)  # the last instant that Python knows
MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}

Unit = Literal["day", "hour", "minute", "second"]


@dataclass(frozen=True)
class Date:
    """A date, or a point in time, from `lower` to `upper`, as a number of `unit`s since 1970-01-01.

    Dates are written as 2015-01-31 or 2015-01-31T14:30 (ISO 8601), or in `format`, as `strptime` takes it. A time with
    a zone is converted to UTC, and one without is taken as UTC. `missing` may be a date, `"midpoint"` or `"refuse"`.

    Guarantee: none of its own; each value is mapped by itself. Source: proofs/schema.md.

    >>> Date("1970-01-02", "1970-01-11").sides()
    ((1.0, 10.0),)
    """

    lower: Any
    upper: Any
    unit: Unit = "day"
    format: str | None = None
    missing: Any = None
    name: ClassVar[str] = "date"
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check_unit(self.unit)
        if self.format is not None and not isinstance(self.format, str):
            raise SchemaError(f"format must be a text such as '%d.%m.%Y'; got {self.format!r}.")
        for end in ("lower", "upper"):
            object.__setattr__(self, end, self._text(getattr(self, end)))
        if self.missing not in (None, REFUSE, MIDPOINT):
            object.__setattr__(self, "missing", self._text(self.missing))
        check_order(self.sides(), self)

    def number(self, value: str | date | datetime) -> float:
        """A value of the column as a number of units. A text may be in `format` or in ISO 8601, if both agree."""
        if not isinstance(value, str) or self.format is None:
            return in_units(microseconds_of_date(value), self.unit)
        found = set()
        for form in (self.format, None):
            with suppress(ValueError):
                found.add(microseconds_of_date(value, form))
        if len(found) != 1:
            raise ValueError("no date, or two")
        return in_units(found.pop(), self.unit)

    def coordinates(self, column: str) -> tuple[str, ...]:
        return (column,)

    def sides(self) -> tuple[Side, ...]:
        return ((_date_end(self.lower, self.unit), _date_end(self.upper, self.unit)),)

    def fill(self) -> tuple[float, ...] | None:
        return fill_of(self.missing, self.sides(), lambda value: _date_end(value, self.unit))

    def readable(self, values: Sequence[float]) -> date | datetime:
        (low, high), at = self.sides()[0], float(values[0])
        microseconds = round(min(max(at, low), high) * MICROSECONDS[self.unit])
        found = EPOCH + timedelta(microseconds=min(microseconds, LAST))
        return found.date() if self.unit == "day" else found.replace(microsecond=0)

    def options(self) -> dict[str, Any]:
        unit = None if self.unit == "day" else self.unit
        return given(lower=self.lower, upper=self.upper, format=self.format, missing=self.missing, unit=unit)

    def _text(self, value: Any) -> str:
        """An end as ISO 8601, whatever the format of the column."""
        try:
            microseconds_of_date(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise SchemaError(f"not a date: {value!r}. Write, say, Date('2015-01-01', '2025-12-31').") from None
        return value if isinstance(value, str) else str(value.isoformat())


@dataclass(frozen=True)
class Time:
    """A time of day from `lower` to `upper`, as a number of `unit`s since midnight: `Time("08:00", "18:00")`.

    Guarantee: none of its own; each value is mapped by itself. Source: proofs/schema.md.

    >>> Time("08:00", "24:00").sides()
    ((8.0, 24.0),)
    """

    lower: Any
    upper: Any
    unit: Unit = "hour"
    missing: Any = None
    name: ClassVar[str] = "time"
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check_unit(self.unit)
        for end in ("lower", "upper", "missing"):
            value = getattr(self, end)
            if end == "missing" and value in (None, REFUSE, MIDPOINT):
                continue
            try:
                self.number(value)
            except (ValueError, TypeError, AttributeError):
                raise SchemaError(f"not a time of day: {value!r}. Write, say, Time('08:00', '18:00').") from None
            object.__setattr__(self, end, value if isinstance(value, str) else value.isoformat())
        check_order(self.sides(), self)

    def number(self, value: str | time) -> float:
        """A time of day as a number of units."""
        if isinstance(value, str):
            value = value.strip()
            if value in ("24:00", "24:00:00"):
                return in_units(MICROSECONDS["day"], self.unit)
            value = time.fromisoformat(value)
        if value.tzinfo is not None:
            raise ValueError("a time of day has no zone")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return in_units(seconds * 10**6 + value.microsecond, self.unit)

    def coordinates(self, column: str) -> tuple[str, ...]:
        return (column,)

    def sides(self) -> tuple[Side, ...]:
        return ((self.number(self.lower), self.number(self.upper)),)

    def fill(self) -> tuple[float, ...] | None:
        return fill_of(self.missing, self.sides(), self.number)

    def readable(self, values: Sequence[float]) -> str:
        (low, high), at = self.sides()[0], float(values[0])
        minutes = round(min(max(at, low), high) * MICROSECONDS[self.unit] / MICROSECONDS["minute"])
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def options(self) -> dict[str, Any]:
        unit = None if self.unit == "hour" else self.unit
        return given(lower=self.lower, upper=self.upper, missing=self.missing, unit=unit)


def microseconds_of_date(value: str | date | datetime, format: str | None = None) -> int:
    """A date or a point in time, as microseconds since 1970 in UTC."""
    if isinstance(value, str):
        value = datetime.strptime(value.strip(), format) if format else datetime.fromisoformat(value.strip())
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - EPOCH) // timedelta(microseconds=1)


def _date_end(text: str, unit: Unit) -> float:
    return in_units(microseconds_of_date(text), unit)


def in_units(microseconds: int, unit: Unit) -> float:
    """A time as a number of units. Whole units and the rest apart, so that both ways of reading give the same bits."""
    whole, rest = divmod(microseconds, MICROSECONDS[unit])
    return float(whole) + rest / MICROSECONDS[unit]


def _check_unit(unit: str) -> None:
    if unit not in MICROSECONDS:
        raise SchemaError(f"unit must be one of {', '.join(MICROSECONDS)}; got {unit!r}.")
