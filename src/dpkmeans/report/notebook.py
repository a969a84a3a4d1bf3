"""A release as shown in a notebook: the guarantee first, then the centroids. Needs no further package."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from dpkmeans.core.readable import INTERVALS_IN_WORDS, centroid_rows, column_names, intervals_of, size_texts

if TYPE_CHECKING:
    from dpkmeans.core.release import Release

MAX_ROWS = 20
MAX_COLUMNS = 12
_COLOURS = {"proved": "#17703a", "paper": "#8a5a00", "none": "#b3261e"}


def fragment(release: Release) -> str:
    """An HTML fragment without scripts or links; all text in it is escaped."""
    names = column_names(release)
    k, d = release.n_clusters, len(names)
    head = ["cluster", *names[:MAX_COLUMNS]] + ([] if release.sizes is None else ["noisy size"])
    found = intervals_of(release)
    sizes, rows = size_texts(release, found), []
    for i, centroid in enumerate(islice(centroid_rows(release, MAX_COLUMNS, found), MAX_ROWS)):
        cells = [*centroid, *([] if sizes is None else [sizes[i]])]
        rows.append(f'<tr><th scope="row">{i}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>')
    of = "features" if release.schema is None else "columns"
    more = "" if k <= MAX_ROWS and d <= MAX_COLUMNS else f"<p>A part of {k} centroids with {d} {of}.</p>"
    more += "" if found is None else f"<p>{INTERVALS_IN_WORDS}</p>"
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    colour = _COLOURS[release.guarantee.label]
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    words = f"<strong>{escape(release.method)}:</strong> {escape(release.summary())}"
    return f'<div><p style="border-left: .3em solid {colour}; padding-left: .6em">{words}</p>{table}{more}</div>'
