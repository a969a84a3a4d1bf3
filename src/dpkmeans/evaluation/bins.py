"""Public bins of a column: levels of a category, true and false, or ranges of numbers, dates and times."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.kinds import OTHER, Boolean, Category, Kind, Number
from dpkmeans.core.rounding import number
from dpkmeans.core.schema import Column, Schema
from dpkmeans.core.times import Date, Time
from dpkmeans.data.numbers import real_numbers
from dpkmeans.errors import SchemaError

MISSING = "missing"
BINS = 10  # of a column with bounds, unless the caller says otherwise
MAX_BINS = 1000
MAX_CELLS = 2**20  # clusters times bins, of all columns: what a person's door can carry
_HOW = (
    "Name columns with their kinds, such as columns=dict(age=Number(0, 120), region=Category('N', 'S')), in the "
    "command in a {schema}: levels and bounds must be known without looking at the data."
)


@dataclass(frozen=True)
class Binned:
    """A column with names for its bins; the last is for missing values. Public.

    `first` is the number of its first coordinate in a batch. `edges` are the ends of ranges, None where it has levels.
    A value beyond the ends counts in the first or the last range, as a fit clips it.
    """

    name: str
    kind: Kind
    bins: tuple[str, ...]
    first: int
    edges: tuple[float, ...] | None = None

    def bins_of(self, coordinates: Sequence[AnyArray] | AnyArray) -> IntArray:
        """The number of each record's bin, shape (n,). Reads each value by itself alone."""
        n = len(self.kind.coordinates(self.name))
        own = [real_numbers(np.asarray(coordinates[j])) for j in range(self.first, self.first + n)]
        missing = np.isnan(own[0])
        found: IntArray
        if self.edges is not None:
            found = np.searchsorted(np.array(self.edges[1:-1]), own[0], side="right").astype(np.int64)
        elif isinstance(self.kind, Boolean):
            found = np.where(own[0] > 0.5, 0, 1)
            missing |= own[0] == 0.5  # the middle of the bounds stands for a missing value
        else:
            found, filled = _levels(own, self.bins.index(OTHER))
            missing |= filled
        return np.where(missing, len(self.bins) - 1, found)


def _levels(own: list[FloatArray], other: int) -> tuple[IntArray, AnyArray]:
    """The level of each record, and whether equal shares of all levels stand for a missing value."""
    found: IntArray = np.full(len(own[0]), other)
    for i, share in enumerate(own):
        found = np.where(share == 1.0, i, found)
    filled = (own[0] > 0.0) & (own[0] < 1.0)
    return found, filled


def binned(
    columns: Any, known: Schema | None, features: Schema, ranges: Mapping[str, tuple[float, float]], bins: Any
) -> tuple[Schema, tuple[Binned, ...]]:
    """The schema to read, features first, and the bins of the wanted columns.

    `columns` are names, or names with kinds. Kinds of names alone come from `known`, and `ranges` of features that have
    bounds and no schema.
    """
    wanted = _wanted(columns, known, features)
    extras: list[Column] = []
    found: list[Binned] = []
    for name, kind in wanted.items():
        if name in features.names:
            first = len(Schema(features.columns[: features.names.index(name) + 1]).coordinates)
            first -= len(kind.coordinates(name))
        else:
            first = len(features.coordinates) + sum(len(column.coordinates) for column in extras)
            extras.append(Column(name, kind))
        found.append(_binned(name, kind, first, ranges, bins))
    if isinstance(bins, Mapping) and not set(bins) <= set(wanted):
        unknown = next(name for name in bins if name not in wanted)
        raise SchemaError(f"has a column that is not asked for: {unknown!r}.", parameter="bins")
    return Schema((*features.columns, *extras)), tuple(found)


def _wanted(columns: Any, known: Schema | None, features: Schema) -> dict[str, Kind]:
    """The kind of each column that is asked for."""
    if isinstance(columns, str) or not isinstance(columns, Mapping | Schema | list | tuple) or not columns:
        raise SchemaError(f"must be names of columns; got {columns!r}.", parameter="columns", hint=_HOW)
    if isinstance(columns, Mapping | Schema):
        given = Schema.of(columns, "columns")
        changed = [column.name for column in given.columns if column.name in features.names]
        if changed:
            raise SchemaError(
                f"column {changed[0]!r} is a feature of the model, with the kind and the bounds of the fit.",
                hint="Give its name alone.",
            )
        return {column.name: column.kind for column in given.columns}
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"names {twice!r} twice.", parameter="columns")
    kinds = {column.name: column.kind for schema in (known, features) if schema for column in schema.columns}
    unknown = next((name for name in columns if name not in kinds), None)
    if unknown is not None:
        raise SchemaError(f"nothing says of which kind column {unknown!r} is.", hint=_HOW)
    return {name: kinds[name] for name in columns}


def _binned(name: str, kind: Kind, first: int, ranges: Mapping[str, tuple[float, float]], bins: Any) -> Binned:
    asked = bins.get(name) if isinstance(bins, Mapping) else None
    if isinstance(kind, Category | Boolean):
        if asked is not None:
            raise SchemaError(f"are for ranges; column {name!r} is a {kind.name}.", parameter="bins")
        levels = ("true", "false") if isinstance(kind, Boolean) else kind.texts
        more = () if isinstance(kind, Boolean) or OTHER in levels else (OTHER,)
        return Binned(name, kind, (*levels, *more, MISSING), first)
    if not isinstance(kind, Number | Date | Time):
        raise SchemaError(f"a {kind.name} has no bins; column {name!r} is one.", hint="Leave it out.")
    edges = _edges(name, kind, ranges.get(name), BINS if isinstance(bins, Mapping) and asked is None else asked or bins)
    texts = [_text(edge, kind) for edge in edges]
    labels = tuple(f"{low} to {high}" for low, high in itertools.pairwise(texts))
    return Binned(name, kind, (*labels, MISSING), first, edges)


def _edges(name: str, kind: Number | Date | Time, known: tuple[float, float] | None, bins: Any) -> tuple[float, ...]:
    """The ends of the ranges: as they are given, or so many of the same width between the bounds."""
    if isinstance(bins, list | tuple | np.ndarray):
        return _given_edges(name, kind, list(bins))
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
        raise SchemaError(f"must be a number from 1 to {MAX_BINS}, or edges; got {bins!r}.", parameter="bins")
    sides = kind.sides()
    low, high = sides[0] if sides else known or (None, None)
    if low is None or high is None:
        raise SchemaError(f"column {name!r} has no bounds, and no edges of bins are given.", hint=_HOW)
    return (*(low + (high - low) * i / bins for i in range(bins)), high)


def _given_edges(name: str, kind: Number | Date | Time, edges: list[Any]) -> tuple[float, ...]:
    if not isinstance(kind, Number):
        raise SchemaError(f"edges are for numbers; column {name!r} is a {kind.name}.", hint="Give a number of bins.")
    try:
        numbers = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        numbers = ()
    rising = all(low < high for low, high in itertools.pairwise(numbers))
    if not 2 <= len(numbers) <= MAX_BINS + 1 or not rising or not np.isfinite(numbers).all():
        raise SchemaError(f"of {name!r} must be two or more finite numbers that rise; got {edges!r}.", parameter="bins")
    return numbers


def _text(edge: float, kind: Number | Date | Time) -> str:
    return number(edge) if isinstance(kind, Number) else str(kind.readable([edge]))
