"""One self-contained HTML page on a release: opens offline, makes no request, holds no record."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from importlib.resources import files
from itertools import islice
from os import PathLike
from typing import Any
from urllib.parse import quote

from dpkmeans.core.conversion import pure_as_rho
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import MEANING
from dpkmeans.core.readable import (
    INTERVALS_IN_WORDS,
    box_rows,
    centroid_rows,
    column_names,
    has_shares,
    intervals_of,
    shortened,
    size_texts,
)
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.core.rounding import number
from dpkmeans.core.unit import Row, Rows
from dpkmeans.errors import FileError
from dpkmeans.report.animation import make_animation
from dpkmeans.report.decision import decision
from dpkmeans.report.derived import cost_unit, explored, named, verdicts
from dpkmeans.report.figures import Picture, centroids_picture, costs_picture, explored_picture, radii_picture
from dpkmeans.storage.json_files import write_text

NEEDED = "jinja2 and matplotlib: pip install 'dpkmeans[all]'"
MAX_OPEN_ROWS = 12  # longer tables are folded
MAX_SPENDS = 40  # more entries are grouped by kind
MAX_FEATURES = 60  # columns of a table
MAX_CELLS = 3000  # of the table of centroids
MAX_BOUNDS = 300  # rows


def write_report(release: Release, path: str | PathLike[str], explorer: str | PathLike[str] | None = None) -> None:
    """Write the report, replacing an old one only when the new one is complete; it links to an `explorer` page."""
    link = (
        None
        if explorer is None
        else quote(os.path.relpath(explorer, os.path.dirname(path) or os.curdir).replace(os.sep, "/"))
    )
    write_text(path, render_report(release, link))


def require() -> None:
    """Check that the packages for a report are installed, before anything is spent."""
    if missing():
        raise FileError(f"A report needs {NEEDED}")


def missing() -> bool:
    """Whether a package for reports is not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError:
        return True
    return False


def render_report(release: Release, explorer: str | None = None) -> str:
    """The page as text, with a link to an `explorer` page where there is one. The same release gives the same page."""
    return render_page("report", {**_content(release), "explorer": explorer})


def render_page(name: str, content: dict[str, Any]) -> str:
    """A self-contained page: the template and the script of this name, and the style of all pages."""
    require()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = number
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    style, script = _part("report.css"), _part(f"{name}.js")
    return environment.from_string(_part(f"{name}.html.jinja")).render(
        style=Markup(style), script=Markup(script), style_hash=_hash(style), script_hash=_hash(script), **content
    )


def _part(name: str) -> str:
    return files("dpkmeans.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """The hash by which a content security policy admits this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _content(release: Release) -> dict[str, Any]:
    label = release.guarantee.label
    names = named(release)
    shown_names = [shortened(name) for name in column_names(release)[:MAX_FEATURES]]
    max_rows = max(MAX_CELLS // len(shown_names), 1)
    convergence: list[Picture] = []
    if release.certificate is not None:
        convergence += [costs_picture(release)]
    if release.transcript:
        convergence.append(radii_picture(release))
    rows, found, checked = explored(release), intervals_of(release), verdicts(release)
    return {
        "release": release,
        "decision": decision(release, checked),
        "parameters": _parameters(release),
        "label": label,
        "unit": "record" if release.guarantee.unit == Row() else "person",
        "unit_is_given": isinstance(release.guarantee.unit, Rows),
        "meaning": MEANING[label],
        "summary": release.summary(),
        "odds": _odds(release),
        "names": shown_names,
        "centroids": list(islice(centroid_rows(release, MAX_FEATURES, found), max_rows)),
        "sizes": size_texts(release, found),
        "intervals": None if found is None else INTERVALS_IN_WORDS,
        "hidden": _hidden(release, max_rows),
        "shares": has_shares(release),
        "box": list(islice(box_rows(release), MAX_BOUNDS)),
        "cost_unit": cost_unit(release),
        "spends": _spends(release),
        "grouped": len(release.spends) > MAX_SPENDS,
        "pictures": [centroids_picture(release, names)],
        "convergence": convergence,
        "animation": make_animation(release, names),
        "iterations": len({zone.iteration for zone in release.transcript}),
        "verdicts": checked,
        "explored": {"rows": rows, "picture": explored_picture(rows, release.n_clusters)} if rows else None,
        "max_open_rows": MAX_OPEN_ROWS,
    }


def _parameters(release: Release) -> dict[str, str]:
    """What the method chose, where it is a word or a number; lists and matrices are in the model file."""
    shown = {name: value for name, value in release.parameters.items() if isinstance(value, str | bool | int | float)}
    return {
        name.replace("_", " "): str(value) if isinstance(value, str | bool) else number(value)
        for name, value in shown.items()
    }


def _odds(release: Release) -> str | None:
    """e^ε, rounded up; None if it would say nothing."""
    spent = release.epsilon_spent
    if release.guarantee.label != "proved" or spent is None or release.cost.in_rho or spent > 20:
        return None
    odds = math.exp(spent)
    return f"{math.ceil(odds * 100) / 100:.2f}" if odds < 100 else f"{math.ceil(odds)}"


def _hidden(release: Release, max_rows: int) -> str:
    k, d = release.n_clusters, len(column_names(release))
    what = "features" if release.schema is None else "columns"
    parts = [f"the first {max_rows} of {k} clusters"] if k > max_rows else []
    parts += [f"the first {MAX_FEATURES} of {d} {what}"] if d > MAX_FEATURES else []
    return f"Shown: {' and '.join(parts)}; the model file holds all." if parts else ""


def _spends(release: Release) -> list[dict[str, Any]]:
    """One line per spend, or per kind if there are many, with the running total and the share in percent.

    Where Gaussian noise was used, all amounts are rhos: pure spends are shown as what they are in zCDP.
    """
    lines: list[dict[str, Any]] = []
    for spend in release.spends:
        over = f"{len(spend.parts)} disjoint cells" if len(spend.parts) > 1 else "all records"
        lines.append({"label": spend.label, "amount": _amount(spend, release.cost.in_rho), "over": over})
    if len(lines) > MAX_SPENDS:
        kinds: dict[str, dict[str, Any]] = {}
        for line in lines:
            kind = re.sub(r"\d+", "…", line["label"])
            entry = kinds.setdefault(kind, {"label": kind, "amount": line["amount"] - line["amount"], "over": 0})
            entry["amount"] += line["amount"]
            entry["over"] += 1
        lines = list(kinds.values())[:MAX_BOUNDS]
    whole = sum(float(line["amount"]) for line in lines)
    for i, line in enumerate(lines):
        line["total"] = line["amount"] if i == 0 else lines[i - 1]["total"] + line["amount"]
        line["share"] = 100 * float(line["amount"]) / whole
    return lines


def _amount(spend: Spend, in_rho: bool) -> Epsilon | Rho:
    return spend.epsilon if not in_rho else spend.rho or pure_as_rho(spend.epsilon)
