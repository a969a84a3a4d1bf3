"""`Schema`: which columns of a table become features, by name, of which kind, with which public bounds and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpkmeans.core.ball import Ball
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.kinds import MIDPOINT, Boolean, Category, Kind, Number
from dpkmeans.core.times import Date, Time
from dpkmeans.core.vectors import Vector
from dpkmeans.errors import SchemaError

KINDS: dict[str, type[Number] | type[Date] | type[Time] | type[Boolean] | type[Category] | type[Vector]] = {
    kind.name: kind for kind in (Number, Date, Time, Boolean, Category, Vector)
}
AUTO, BOX = "auto", "box"
MAX_WIDTH_RATIO = 10.0
"""Above this ratio of two widths a caller has to say how features are scaled: the narrower one would add at most a
hundredth to a squared distance."""

_HOW = "Write, say, dict(age=Number(0, 120), region=Category('N', 'S')), or dict(age=(0, 120)) for numbers alone."


@dataclass(frozen=True)
class Column:
    """One column of a table: its name and its kind."""

    name: str
    kind: Kind

    @property
    def coordinates(self) -> tuple[str, ...]:
        """A name for each of its coordinates."""
        return self.kind.coordinates(self.name)


@dataclass(frozen=True)
class Schema:
    """The columns that are used, in the order of the features. Public, and the same for every record.

    Guarantee: none of its own. A value of a record becomes coordinates by itself alone, so a record of the table is one
    record for the method. Source: proofs/schema.md.

    >>> schema = Schema.of({"age": Number(0, 120), "region": Category("N", "S"), "smoker": Boolean()})
    >>> schema.coordinates
    ('age', 'region=N', 'region=S', 'smoker')
    >>> schema.readable([42.0, 0.75, 0.25, 0.5])
    {'age': 42.0, 'region': {'N': 0.75, 'S': 0.25, 'other': 0.0}, 'smoker': 0.5}
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("a schema needs at least one column.", hint=_HOW)
        names = self.coordinates
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(f"two features would be called {twice!r}. Rename a column.")

    @classmethod
    def of(cls, given: Any, parameter: str = "schema") -> Schema:
        """Read a schema as a user writes it: names with kinds, or with pairs `(lower, upper)` of numbers."""
        if isinstance(given, Schema):
            return given
        if not isinstance(given, Mapping):
            raise SchemaError(f"must map names to kinds; got {type(given).__name__}.", parameter=parameter, hint=_HOW)
        return cls(tuple(Column(_name(name, parameter), _kind(name, kind, parameter)) for name, kind in given.items()))

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Schema:
        """Numbers whose bounds are given elsewhere."""
        return cls(tuple(Column(name, Number()) for name in names))

    @classmethod
    def from_dict(cls, plain: Any) -> Schema:
        """Out of the plain values of a file; errors name the column."""
        if not isinstance(plain, Mapping):
            raise SchemaError("a schema is a table with one entry per column.")
        return cls(tuple(Column(_name(name, "schema"), _plain_kind(name, options)) for name, options in plain.items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {column.name: {"kind": column.kind.name, **column.kind.options()} for column in self.columns}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.coordinates)

    @property
    def sides(self) -> tuple[tuple[float, float] | None, ...]:
        """Lower and upper end of each feature; None where it is not known."""
        found: list[tuple[float, float] | None] = []
        for column in self.columns:
            known = column.kind.sides()
            found += [None] * len(column.coordinates) if known is None else known
        return tuple(found)

    def bounds(self, estimated: Bounds | None = None) -> Bounds:
        """The box of the features; those without ends have them in `estimated`, in order."""
        found = iter(() if estimated is None else zip(estimated.lower, estimated.upper, strict=True))
        unknown = [column.name for column in self.columns if column.kind.sides() is None]
        if unknown and estimated is None:
            vectors = any(isinstance(column.kind, Vector) for column in self.columns)
            otherwise = (
                "bound its norm with {max_norm=1.0}, or keep its direction alone with {normalize=True}."
                if vectors
                else "spend a share of epsilon on an estimate with {bounds_epsilon}."
            )
            raise SchemaError(
                f"column {unknown[0]!r} of the schema has no bounds.",
                hint=f"Give its lower and upper end, as they are known without looking at the data; or {otherwise}",
            )
        sides = [next(found) if side is None else side for side in self.sides]
        return Bounds(tuple(low for low, _ in sides), tuple(high for _, high in sides))

    def in_ball(self, ball: Ball) -> Bounds:
        """The ball around the features, none of which may have ends of its own."""
        ended = [column.name for column in self.columns if column.kind.sides() is not None]
        if ended:
            raise SchemaError(
                f"column {ended[0]!r} of the schema has bounds of its own, and a ball bounds all columns together.",
                hint="Leave its ends out, or leave out the ball ({max_norm}, {normalize}).",
            )
        return Bounds.of(ball, len(self.coordinates))

    def with_bounds(self, bounds: Bounds) -> Schema:
        """The same columns, with the ends in `bounds` where none were given."""
        columns, j = [], 0
        for column in self.columns:
            kind = column.kind
            if isinstance(kind, Number) and kind.lower is None and bounds.widths[j] > 0:
                column = Column(column.name, replace(kind, lower=bounds.lower[j], upper=bounds.upper[j]))
            columns.append(column)
            j += len(column.coordinates)
        return Schema(tuple(columns))

    def with_missing(self, nulls: str) -> Schema:
        """The same columns, where `nulls` says what becomes of missing values unless a column says it itself."""
        if nulls != MIDPOINT:
            return self
        return Schema(
            tuple(
                column
                if column.kind.missing is not None or column.kind.sides() is None
                else Column(column.name, _remade(column.kind, missing=MIDPOINT))
                for column in self.columns
            )
        )

    def readable(self, values: Sequence[float]) -> dict[str, Any]:
        """Released features, shape (d,), as a person reads them: one entry per column."""
        found, j = {}, 0
        for column in self.columns:
            m = len(column.coordinates)
            found[column.name] = column.kind.readable(values[j : j + m])
            j += m
        return found


def scaled(bounds: Bounds, scale: Any, schema: Schema | None, names: Sequence[str] | None) -> Bounds:
    """`bounds` with the weights that `scale` asks for.

    `"box"` divides every feature by its width; a mapping also multiplies the named ones; None keeps units; `"auto"`
    keeps them too, unless widths differ so much that the caller has to decide.
    """
    columns = [(name, 1.0) for name in names or [f"feature {j}" for j in range(bounds.n_features)]]
    if schema is not None:
        columns = [(column.name, column.kind.weight) for column in schema.columns for _ in column.coordinates]
    if bounds.ball is not None:
        if isinstance(scale, Mapping):
            raise SchemaError("cannot weigh columns in a ball, where all count alike.", parameter="scale")
        return bounds
    factors = np.array([weight for _, weight in columns])
    if isinstance(scale, str) and scale == AUTO:
        _check_widths(bounds, [name for name, _ in columns])
    elif scale is not None:
        check_weighed(scale, [name for name, _ in columns])
        factors *= [
            _factor(scale, name) / (width or 1.0) for (name, _), width in zip(columns, bounds.widths, strict=True)
        ]
    if (factors == 1.0).all():
        return replace(bounds, weights=None)
    return replace(bounds, weights=tuple(factors.tolist()))


def check_scale(scale: Any) -> None:
    """Refuse what is no way to scale features, before anything is read."""
    if scale is None or (isinstance(scale, str) and scale in (AUTO, BOX)):
        return
    if not isinstance(scale, Mapping):
        raise SchemaError(f"got {scale!r}.", parameter="scale", hint=SCALES)
    for name, factor in scale.items():
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1e100:
            raise SchemaError(f"must have positive numbers as weights; {name!r} has {factor!r}.", parameter="scale")


SCALES = (
    "Write {scale='box'} to give every feature the same say, whatever its width; {scale=None} to keep units, so that "
    "the widest feature decides most; or weigh columns by name on top of that: scale=dict(age=2.0), "
    "in the command --scale age=2."
)


def _check_widths(bounds: Bounds, names: Sequence[str]) -> None:
    sides = sorted((width, name) for width, name in zip(bounds.widths, names, strict=True) if width > 0)
    if bounds.from_data or len(sides) < 2 or sides[-1][0] <= MAX_WIDTH_RATIO * sides[0][0]:
        return
    (narrow, least), (wide, most) = sides[0], sides[-1]
    raise SchemaError(
        f"the bounds are {wide / narrow:.3g} times as wide in {most!r} as in {least!r}. k-means adds squared "
        f"differences across features, so {most!r} would dominate and {least!r} would hardly matter.",
        hint=f"{SCALES} Centroids are in your units either way.",
    )


def _factor(scale: Any, name: str) -> float:
    return float(scale.get(name, 1.0)) if isinstance(scale, Mapping) else 1.0


def check_weighed(scale: Any, names: Sequence[str]) -> None:
    """Refuse weights of columns that are not used."""
    unknown = [name for name in scale if name not in names] if isinstance(scale, Mapping) else []
    if unknown:
        known = ", ".join(dict.fromkeys(names))
        raise SchemaError(f"weighs a column that is not used: {unknown[0]!r}. Used are: {known}.", parameter="scale")


def _name(name: Any, parameter: str) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"names must be texts; got {name!r}.", parameter=parameter)
    return name


def _kind(name: str, given: Any, parameter: str) -> Kind:
    if isinstance(given, Number | Date | Time | Boolean | Category | Vector):
        return given
    try:
        low, high = given
        return Number(low, high)
    except SchemaError as error:
        raise SchemaError(f"of column {name!r}: {error.message}", parameter=parameter) from None
    except (TypeError, ValueError):
        raise SchemaError(
            f"of column {name!r} must be a kind or a pair (lower, upper); got {given!r}.",
            parameter=parameter,
            hint=_HOW,
        ) from None


def _plain_kind(name: str, options: Any) -> Kind:
    if not isinstance(options, Mapping) or str(options.get("kind")) not in KINDS:
        known = ", ".join(repr(kind) for kind in KINDS)
        given = f"; got {options['kind']!r}" if isinstance(options, Mapping) and "kind" in options else ""
        raise SchemaError(f"column {name!r} needs a kind, one of {known}{given}.")
    kind = KINDS[str(options["kind"])]
    rest = {key: value for key, value in options.items() if key != "kind"}
    if not isinstance(rest.get("levels", []), list):
        raise SchemaError(f"column {name!r}: levels must be a list; got {rest['levels']!r}.")
    try:
        return kind(*rest.pop("levels", ()), **rest) if kind is Category else kind(**rest)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error.message}") from None
    except TypeError:
        takes = ", ".join(field.name for field in fields(kind))
        raise SchemaError(f"column {name!r}: a {kind.name} takes {takes}; got {', '.join(rest)}.") from None


def _remade(kind: Kind, **changes: Any) -> Kind:
    return _plain_kind("", {"kind": kind.name, **kind.options(), **changes})
