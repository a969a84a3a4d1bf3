"""The commands `dpkmeans demo` and `dpkmeans methods`, which need no data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs
from dpkmeans.cli.options import Json


def methods(*, json: Json = False) -> None:
    """List all methods: what each does, what it guarantees, which package says so, and its source.

    Example: dpkmeans methods
    """
    from dpkmeans.methods.registry import registry
    from dpkmeans.session import DEFAULT_METHOD

    entries = registry().values()
    if not json:
        names = [e.name + (" (default)" if e.name == DEFAULT_METHOD else "") for e in entries]
        body = [[name, e.summary, e.guarantee, e.package, e.source] for name, e in zip(names, entries, strict=True)]
        output.print_table(["method", "what it is", "guarantee", "vouched for by", "source"], body, right=False)
        return
    shown = ("name", "summary", "guarantee", "package", "proof", "source", "options")
    listed = [{name: getattr(entry, name) for name in shown} for entry in entries]
    output.print_json({"default": DEFAULT_METHOD, "methods": listed})


def demo(*, out: Path | None = None, picture: Path | None = None, json: Json = False) -> None:
    """Fit 50 000 synthetic visits around eight towns, and write a report.

    Example: dpkmeans demo --out report.html

    Parameters
    ----------
    out:
        Where to write the report; report.html by default.
    picture:
        Write a picture here (PNG): released densities and centroids with their uncertainty, also for a small epsilon.
    """
    page = out or Path("report.html")
    check_outputs(page, picture)
    from dpkmeans.demo.towns import BOX_KM, EPSILON, FEATURES, MAX_FOUND_KM, SMALL_EPSILON, TOWNS, match, visits
    from dpkmeans.report import NEEDED, missing, require, write_report
    from dpkmeans.session import FitRequest, run

    if out is not None or picture is not None:
        require()
    can_report = not missing()  # a plain installation has no report, and the demo shows the rest
    request = FitRequest(n_clusters=len(TOWNS), bounds=(0.0, BOX_KM), feature_names=FEATURES, epsilon=EPSILON)
    with output.status("Fitting"):
        release = run(request, visits()).release
    if can_report:
        write_report(release, page)
    if picture is not None:
        from dpkmeans.demo.picture import write_demo_picture

        with output.status("Fitting again for the picture"):
            less = run(replace(request, epsilon=SMALL_EPSILON), visits()).release
        write_demo_picture((release, less), picture)
    found = match(release.centroids)
    if json:
        towns = [{"town": f.town.name, "cluster": f.cluster, "distance_km": f.distance} for f in found]
        output.print_json({"towns": towns, "release": release.to_dict(), "report": str(page) if can_report else None})
        return
    output.print_guarantee(release)
    body = [
        [f.town.name, f"{f.town.east:.1f}, {f.town.north:.1f}", f"{f.east:.1f}, {f.north:.1f}", f"{f.distance:.1f}"]
        for f in found
    ]
    output.print_table(["town", "is at (km)", "found at (km)", "distance (km)"], body)
    if any(f.distance > MAX_FOUND_KM for f in found):
        output.note(
            "A bad start can miss a town, as in any k-means. With real records, running again would spend again."
        )
    output.note(f"The report is in {page}" if can_report else f"There is no report: it needs {NEEDED}.")
