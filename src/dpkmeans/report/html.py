"""One self-contained HTML page about a release: opens offline, makes no request, holds no record."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from dpkmeans.errors import FileError
from dpkmeans.files import write_text
from dpkmeans.guarantee import MEANING, Label
from dpkmeans.release import Release
from dpkmeans.report.pictures import Picture, centroids_picture, radii_picture

LONG = 12  # tables with more rows are folded

PROMISES: dict[Label, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "proved": (
        (
            "Whoever reads this page learns almost the same whether or not one given record was in the data.",
            "This holds against any reader, with any other knowledge, now and later.",
            "Anything computed from the centroids alone is covered too.",
        ),
        (
            "It does not hide facts about the group as a whole; those are what was asked for.",
            "A person with several records in the data is protected less, in proportion to their number.",
            "Other releases from the same records add to the total. Keep a ledger.",
        ),
    ),
    "paper": (
        ("The algorithm runs as it was published, and its steps can be inspected below.",),
        (
            "The epsilon is the paper's claim. Its proof has holes, and attacks that exceed it are known.",
            "Treat the centroids and the transcript as you would treat the records: do not publish them.",
        ),
    ),
    "none": (
        ("Nothing. The numbers may be used by those who may see the records.",),
        ("Single records can be inferred from these numbers. Do not publish them.",),
    ),
}


def write_report(release: Release, path: str | Path) -> None:
    """Write the report, replacing an old one only when the new one is complete."""
    write_text(path, render_report(release))


def require() -> None:
    """Check that what a report needs is installed, before anything is spent."""
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError:
        raise FileError("A report needs jinja2 and matplotlib: pip install 'dpkmeans[report]'") from None
    del jinja2


def render_report(release: Release) -> str:
    """The page as text."""
    require()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["short"] = lambda value: f"{value:.6g}"
    template = environment.from_string(files("dpkmeans.report").joinpath("report.html.jinja").read_text("utf-8"))
    return template.render(**_content(release))


def _content(release: Release) -> dict[str, Any]:
    does, does_not = PROMISES[release.guarantee.label]
    names = release.feature_names or tuple(f"feature {j}" for j in range(release.bounds.n_features))
    pictures: list[Picture] = [centroids_picture(release, names)]
    if release.transcript:
        pictures.append(radii_picture(release))
    return {
        "release": release,
        "label": release.guarantee.label,
        "meaning": MEANING[release.guarantee.label],
        "summary": release.summary(),
        "does": does,
        "does_not": does_not,
        "names": names,
        "centroids": release.centroids.tolist(),
        "box": list(zip(names, release.bounds.lower, release.bounds.upper, strict=True)),
        "spends": _spends(release),
        "pictures": pictures,
        "long": LONG,
    }


def _spends(release: Release) -> list[dict[str, Any]]:
    """Spend by spend, with the running total and each one's share of it in percent."""
    lines, total = [], 0.0
    for spend in release.spends:
        total += float(spend.epsilon)
        lines.append(
            {
                "label": spend.label,
                "epsilon": float(spend.epsilon),
                "over": f"{len(spend.parts)} disjoint cells" if len(spend.parts) > 1 else "all records",
                "total": total,
                "share": 100 * float(spend.epsilon) / release.epsilon_spent,
            }
        )
    return lines
