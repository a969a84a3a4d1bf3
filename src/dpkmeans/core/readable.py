"""Released values as people read them: one text per cell of a table, and a frame. For reports and commands alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpkmeans.core.kinds import OTHER, Boolean, Category, Kind
from dpkmeans.core.times import Date
from dpkmeans.core.vectors import Vector
from dpkmeans.errors import FileError

if TYPE_CHECKING:
    from dpkmeans.core.release import Release

MAX_NAME = 60  # characters of a name or a level
MAX_SHARES = 3  # of a category in one cell
MAX_LEVELS = 20  # listed in one cell
SIZE = "size"


def shortened(name: str) -> str:
    """A name or a level, cut if it is long."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def text(value: Any, kind: Kind | None = None) -> str:
    """A value of a described centroid: a number, a date, a share, or the largest shares of a category.

    >>> text(0.25, Boolean()), text(0.25), text({"N": 0.7, "S": 0.2996, "other": 0.0004})
    ('25 %', '0.25', 'N 70 %, S 30 %')
    """
    if isinstance(value, dict):
        (first, most), *others = [(level, round(100 * share)) for level, share in value.items()][:MAX_SHARES]
        shares = [(first, most), *((level, share) for level, share in others if share)]
        return ", ".join(f"{shortened(level)} {share} %" for level, share in shares)
    if isinstance(kind, Boolean):
        return f"{round(100 * value)} %"
    if isinstance(value, list):
        more = ", …" * (len(value) > MAX_SHARES)
        return f"({', '.join(f'{number:.3g}' for number in value[:MAX_SHARES])}{more})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def column_names(release: Release) -> tuple[str, ...]:
    """The columns of a table of centroids: those of the schema, or the features where there is none."""
    return release.names if release.schema is None else release.schema.names


def centroid_rows(release: Release, columns: int | None = None) -> Iterator[list[str]]:
    """The centroids, one text per column, for at most so many `columns`."""
    schema = release.schema
    if schema is None:
        for centroid in release.centroids[:, :columns].tolist():
            yield [text(value) for value in centroid]
        return
    for centroid in release.centroids.tolist():
        shown = list(zip(schema.columns, schema.readable(centroid).values(), strict=True))[:columns]
        yield [text(value, column.kind) for column, value in shown]


@dataclass(frozen=True)
class BoxRow:
    """A column of the public box: its lower and its upper end, or the levels of a category, as texts.

    `scaled_width` is how far apart its two ends are, or two of its levels, for a method that measures distances.
    """

    name: str
    ends: tuple[str, ...]
    scaled_width: str


def box_rows(release: Release) -> Iterator[BoxRow]:
    """The public box, column by column."""
    bounds, j = release.bounds, 0
    weights = bounds.weights or (1.0,) * bounds.n_features
    scaled = [width * weight for width, weight in zip(bounds.widths, weights, strict=True)]
    for name, kind in zip(column_names(release), _kinds_of_columns(release), strict=True):
        if isinstance(kind, Category):
            yield BoxRow(shortened(name), (_levels(kind),), text(scaled[j] / kind.weight))
            j += len(kind.levels)
            continue
        ends = bounds.lower[j], bounds.upper[j]
        if isinstance(kind, Vector):
            yield BoxRow(shortened(name), tuple(map(text, ends)), text(scaled[j]))
            j += kind.length
            continue
        shown = tuple(text(end if kind is None else kind.readable([end])) for end in ends)
        if isinstance(kind, Boolean):
            shown = ("false", "true")
        yield BoxRow(shortened(name), shown, text(scaled[j]))
        j += 1


def has_shares(release: Release) -> bool:
    """Whether some column of the centroids is shown in shares."""
    return any(isinstance(kind, Boolean | Category) for kind in _kinds_of_columns(release))


def _levels(kind: Category) -> str:
    levels = [shortened(level) for level in kind.texts[:MAX_LEVELS]]
    more = len(kind.texts) - len(levels)
    return ", ".join(levels) + (f" and {more} more" if more else "")


def kinds_of_features(release: Release) -> list[Kind | None]:
    """The kind behind each feature; None where there is no schema."""
    if release.schema is None:
        return [None] * release.bounds.n_features
    return [column.kind for column in release.schema.columns for _ in column.coordinates]


def to_frame(release: Release) -> Any:
    """See `Release.to_frame`."""
    try:
        import numpy as np
        import pandas as pd
    except ImportError:
        raise FileError("A data frame needs pandas. Install it with: pip install pandas") from None
    described = release.describe()
    found: dict[str, Any] = {}
    for name, kind in zip(column_names(release), _kinds_of_columns(release), strict=True):
        values = [cluster[name] for cluster in described]
        if isinstance(kind, Category):
            found[name] = [next(iter(shares)) for shares in values]
            levels = dict.fromkeys((*kind.texts, OTHER))
            found |= {f"{name}={level}": [shares[level] for shares in values] for level in levels}
        else:
            found[name] = np.array(values, "datetime64[s]") if isinstance(kind, Date) else values
    if release.sizes is not None:
        found[SIZE if SIZE not in found else f"noisy {SIZE}"] = list(release.sizes)
    return pd.DataFrame(found, index=pd.RangeIndex(release.n_clusters, name="cluster"))


def _kinds_of_columns(release: Release) -> list[Kind | None]:
    if release.schema is None:
        return [None] * release.bounds.n_features
    return [column.kind for column in release.schema.columns]
