"""Released values as people read them: one text per cell of a table, and a frame. For reports and commands alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from dpkmeans.core.cost import in_words
from dpkmeans.core.kinds import OTHER, Boolean, Category, Kind
from dpkmeans.core.rounding import number, with_margin
from dpkmeans.core.times import Date, Time
from dpkmeans.core.vectors import Vector
from dpkmeans.errors import FileError, MethodError

if TYPE_CHECKING:
    from dpkmeans.core.guarantee import Guarantee
    from dpkmeans.core.identity import Identity
    from dpkmeans.core.intervals import Intervals
    from dpkmeans.core.release import Release

MAX_NAME = 60  # characters of a name or a level
SHORT = 16  # characters of a digest, a key or a chain's head
FEW = 4  # clusters and columns of a short text
MAX_SHARES = 3  # of a category in one cell
MAX_LEVELS = 20  # listed in one cell
SIZE = "size"
INTERVALS_IN_WORDS = (
    "After ±: how far the exact mean, and the exact number, of the records nearest to a centroid may be from what is "
    "released, with 95 % confidence."
)


def shortened(name: str) -> str:
    """A name or a level, cut if it is long."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def identity_rows(identity: Identity | None, guarantee: Guarantee) -> list[tuple[str, str]]:
    """Which release this is, where it is recorded and who signed it, as names and texts. Nothing is checked here."""
    about = ("unit", f"{guarantee.unit.name}; neighbours: {guarantee.neighbours}")
    if identity is None:
        return [about, ("identity", "none: a file of an older version, or one that was changed since")]
    signer = None if identity.signature is None else identity.signature.key
    rows = [about, ("data set", "none: not in a durable ledger, so under no cap")]
    if identity.dataset is not None:
        rows = [about, ("data set", identity.dataset), ("fit", identity.fit or "not known")]
        rows.append(("cap", "not known" if identity.cap is None else f"{in_words(identity.cap)} when it was made"))
        rows.append(("ledger's head", "not known" if identity.head is None else _start(identity.head)))
    if identity.made_from is not None:
        rows.append(("made from", f"the synopsis {_start(identity.made_from)}"))
    return [
        *rows,
        ("digest", _start(identity.digest)),
        ("signed by", "nobody" if signer is None else f"the key {_start(signer)}, as the file says"),
        ("made", f"{when(identity.time)} by dpkmeans {identity.version}, file format {identity.schema}"),
    ]


def _start(digits: str) -> str:
    return digits[:SHORT] + "…"


def when(time: str | None) -> str:
    """The time of a release.

    >>> when("2026-11-18T05:47:34+00:00"), when(None)
    ('on 2026-11-18 at 05:47 UTC', 'at a time that is not recorded')
    """
    if time is None:
        return "at a time that is not recorded"
    return f"on {time[:10]} at {time[11:16]} UTC" if time.endswith("+00:00") else f"at {time}"


def text(value: Any, kind: Kind | None = None, margin: float | None = None) -> str:
    """A value of a described centroid: a number, a date, a share, or the largest shares of a category.

    With a `margin` in the unit of the coordinates, numbers have the digits that it leaves.

    >>> text(0.25, Boolean()), text(0.25), text({"N": 0.7, "S": 0.2996, "other": 0.0004})
    ('25 %', '0.25', 'N 70 %, S 30 %')
    >>> text(0.2512, Boolean(), 0.03), text(82.03, None, 0.2), text({"N": 0.7, "S": 0.3}, None, 0.02)
    ('25 % ± 3 %', '82.0 ± 0.2', 'N 70 %, S 30 % (± 2 %)')
    """
    if isinstance(value, dict):
        (first, most), *others = [(level, round(100 * share)) for level, share in value.items()][:MAX_SHARES]
        shares = [(first, most), *((level, share) for level, share in others if share)]
        about = "" if margin is None else f" (± {max(math.ceil(100 * margin - 1e-9), 1)} %)"
        return ", ".join(f"{shortened(level)} {share} %" for level, share in shares) + about
    if isinstance(kind, Boolean):
        return f"{round(100 * value)} %" if margin is None else with_margin(100 * value, max(100 * margin, 1.0), " %")
    if isinstance(value, list):
        more = ", …" * (len(value) > MAX_SHARES)
        return f"({', '.join(f'{one:.3g}' for one in value[:MAX_SHARES])}{more})"
    if isinstance(kind, Date | Time) and margin is not None:
        return f"{value} ± {_rounded_up(margin, kind.unit)}"
    if not isinstance(value, float):
        return str(value)
    return number(value) if margin is None else with_margin(value, margin)


def _rounded_up(margin: float, unit: str) -> str:
    """A margin of time in whole units; hours with one decimal.

    >>> _rounded_up(11.2, "day"), _rounded_up(0.31, "hour")
    ('12 days', '0.4 hours')
    """
    steps = 10 if unit == "hour" else 1
    rounded = math.ceil(margin * steps - 1e-9) / steps
    return f"{number(rounded)} {unit}{'' if rounded == 1 else 's'}"


def intervals_of(release: Release, level: float = 0.95) -> Intervals | None:
    """The intervals of a release; None for methods that have none."""
    try:
        return release.intervals(level)
    except MethodError:
        return None


def size_texts(release: Release, found: Intervals | None) -> list[str] | None:
    """The noisy sizes, with margins where there are intervals; None where there are no sizes."""
    import numpy as np  # here: help and the first line of a command come without it

    if release.sizes is None:
        return None
    if found is None:
        return [f"{size:,.0f}" for size in release.sizes]
    margins = np.maximum(found.size_upper - release.sizes, release.sizes - found.size_lower)
    pairs = zip(release.sizes, margins.tolist(), strict=True)
    return [with_margin(size, max(margin, 1.0)) for size, margin in pairs]


def column_names(release: Release) -> tuple[str, ...]:
    """The columns of a table of centroids: those of the schema, or the features where there is none."""
    return release.names if release.schema is None else release.schema.names


def centroid_rows(release: Release, columns: int | None = None, found: Intervals | None = None) -> Iterator[list[str]]:
    """The centroids, one text per column, for at most so many `columns`; with margins where intervals are given."""
    schema, margins = release.schema, _margins(release, found)
    if schema is None:
        for centroid, margin in zip(release.centroids[:, :columns].tolist(), margins, strict=True):
            yield [text(value, None, off) for value, off in zip(centroid, margin[:columns], strict=True)]
        return
    for centroid, margin in zip(release.centroids.tolist(), margins, strict=True):
        shown, j, row = list(schema.readable(centroid).values())[:columns], 0, []
        for column, value in zip(schema.columns, shown, strict=False):
            m = len(column.coordinates)
            row.append(text(value, column.kind, None if found is None else max(margin[j : j + m], default=0.0)))
            j += m
        yield row


def _margins(release: Release, found: Intervals | None) -> list[list[Any]]:
    """How far the farther end of each interval is from its centroid, (k, d); None in all places without intervals."""
    import numpy as np  # here: help and the first line of a command come without it

    if found is None:
        return [[None] * release.bounds.n_features] * release.n_clusters
    farther: list[list[Any]] = np.maximum(found.upper - release.centroids, release.centroids - found.lower).tolist()
    return farther


def few_lines(release: Release) -> str:
    """What `repr` shows: method, shape and guarantee, then the first centroids in their first columns."""
    names, found = column_names(release), intervals_of(release)
    k, d, sizes = release.n_clusters, len(names), size_texts(release, found)
    what = ("feature" if release.schema is None else "column") + "s" * (d > 1)
    lines = [f"<Release of {release.method}: {k} centroid{'s' * (k > 1)}, {d} {what}>", release.summary()]
    for i, row in enumerate(islice(centroid_rows(release, FEW, found), FEW)):
        cells = [f"{shortened(name)} {cell}" for name, cell in zip(names, row, strict=False)]
        cells += ["…"] * (d > FEW) + ([] if sizes is None else [f"noisy size {sizes[i]}"])
        lines.append(f"{i}: {', '.join(cells)}")
    return "\n".join(lines + [f"and {k - FEW} more"] * (k > FEW))


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
    import numpy as np  # here: help and the first line of a command come without it

    try:
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
