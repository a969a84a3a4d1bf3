"""One self-contained page on a released synopsis: choose k, see clusters and costs, watch the strategies converge.

The page holds the released points with their weights, and for each k the start from which `Synopsis.explore` came to
its clusters. From these it computes in the browser: the steps, the clusters, their costs and silhouettes. Beside that
it holds the table of `Synopsis.explore`, for readers without scripts and on paper. It opens offline, and makes no
request.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.readable import shortened
from dpkmeans.core.release import Release
from dpkmeans.errors import MethodError
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.progress import over
from dpkmeans.report.html import render_page
from dpkmeans.storage.json_files import write_text
from dpkmeans.synopsis.kmeans import Explored, explore_from_start
from dpkmeans.synopsis.settings import ZONE_EPSILON
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.weighted_points import WeightedPoints

KS = range(2, 21)  # numbers of clusters on the slider
SEED = 0  # of the starts: no secret is involved, and a page should not change when it is made again
MAX_COLUMNS = 12  # of the table of clusters
MAX_NUMBERS = 150_000  # that the page holds: four bytes each, a third more as text, stay below 1 MB
MAX_DOUBLES = MAX_NUMBERS // 2  # with eight bytes each: then its numbers are those of `Synopsis.explore` to six digits
CHOSEN = 5  # clusters at first, where a release does not say


def write_explorer(
    synopsis: Synopsis, path: str | Path, chosen: int = CHOSEN, *, in_a_model: bool = False
) -> list[Explored]:
    """Write the page, replacing an old one only when the new one is complete, and return its numbers.

    A synopsis `in_a_model` has no file of its own, from which a model with another k could be made.
    """
    page, rows = _rendered(synopsis, chosen, in_a_model)
    write_text(path, page)
    return rows


def synopsis_in(release: Release) -> Synopsis:
    """The synopsis in the certificate of a release, as it can be explored."""
    certificate = release.certificate
    if certificate is None:
        raise MethodError(
            f"a release of {release.method} holds no synopsis to explore.", hint="Fit with {method='synopsis'}."
        )
    return Synopsis(
        WeightedPoints(certificate.points, certificate.weights),
        release.bounds,
        release.guarantee,
        release.spends,
        release.epsilon_promised,
        str(release.parameters.get("synopsis", "")),
        release.feature_names,
        release.schema,
        release.delta,
        release.rho_promised,
    )


def render_explorer(synopsis: Synopsis, chosen: int = CHOSEN) -> str:
    """The page as text, with `chosen` clusters at first. The same synopsis gives the same page.

    Its numbers are those of `synopsis.explore(range(2, 21), random_state=0)`, to six digits where the points fit into
    it in double precision. Guarantee: that of the synopsis.
    """
    return _rendered(synopsis, chosen, in_a_model=False)[0]


def _rendered(synopsis: Synopsis, chosen: int, in_a_model: bool) -> tuple[str, list[Explored]]:
    """The page, and the numbers in it."""
    m, d = synopsis.data.points.shape
    if m * (d + 1) > MAX_NUMBERS:
        raise MethodError(
            f"the synopsis has {m} points of {d} features, which is too much for one page.",
            hint="Use dpkmeans explore without --page.",
        )
    rng = Randomness.of(SEED).generator
    ks = over(KS, "values of k", len(KS))
    found = [explore_from_start(synopsis.data, k, synopsis.bounds, rng) for k in ks]
    numbers = m * (d + 1) + sum(start.size for _, start in found)
    names = [shortened(name) for name in synopsis.feature_names or (f"feature {j}" for j in range(d))]
    rows = [row for row, _ in found]
    x, y = _widest(synopsis.data)
    shown = min(d, MAX_COLUMNS)
    content = {
        "label": synopsis.guarantee.label,
        "summary": synopsis.cost.statement(synopsis.guarantee),
        "m": f"{m:,}",
        "records": f"{synopsis.data.weights.sum():,.0f}",
        "names": names,
        "x": x,
        "y": y,
        "shown": shown,
        "hidden": f"The first {shown} of {d} features." if d > shown else "",
        "first": KS[0],
        "last": KS[-1],
        "chosen": min(max(chosen, KS[0]), KS[-1]),
        "cost_unit": "squared units of the data" if synopsis.bounds.weights is None else "squared units, after scaling",
        "rows": rows,
        "with_starts": numbers <= MAX_NUMBERS,
        "in_a_model": in_a_model,
        "data": _data(synopsis, names, [start for _, start in found], shown, numbers),
    }
    return render_page("explorer", content), rows


def _data(synopsis: Synopsis, names: list[str], starts: list[FloatArray], shown: int, numbers: int) -> dict[str, Any]:
    """What the script reads: places in unit coordinates, as floating-point numbers in base 64.

    They are double where all `numbers` fit so, and the starts are left out where they do not fit at all.
    """
    bounds, double = synopsis.bounds, numbers <= MAX_DOUBLES
    return {
        "names": names,
        "double": double,
        "points": _packed(synopsis.data.points, double),
        "weights": _packed(synopsis.data.weights, double),
        "lower": list(bounds.lower),
        "unit": bounds.unit.tolist(),
        "box": bounds.unit_box.tolist(),
        "longest": bounds.longest_side,
        "zone_epsilon": float(ZONE_EPSILON),
        "shown": shown,
        "first": KS[0],
        "starts": [_packed(start, double) if numbers <= MAX_NUMBERS else None for start in starts],
    }


def _packed(values: FloatArray, double: bool) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f8" if double else "<f4").tobytes()).decode()


def _widest(points: WeightedPoints) -> tuple[int, int]:
    """The two features over which the points spread most, in their own order; one twice where there is no other."""
    middle = np.average(points.points, axis=0, weights=points.weights)
    spread = np.average((points.points - middle) ** 2, axis=0, weights=points.weights)
    first, second = sorted(np.argsort(-spread, kind="stable")[:2].tolist()) if len(spread) > 1 else (0, 0)
    return int(first), int(second)
