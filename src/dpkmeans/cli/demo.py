"""The commands `dpkmeans demo` and `dpkmeans methods`, which need no data."""

from __future__ import annotations

from pathlib import Path

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs
from dpkmeans.cli.options import Json


def methods(*, json: Json = False) -> None:
    """List all methods: what each does, what it guarantees, and its source.

    Example: dpkmeans methods
    """
    from dpkmeans.methods.registry import registry
    from dpkmeans.session import DEFAULT_METHOD

    entries = registry().values()
    if not json:
        names = [e.name + (" (default)" if e.name == DEFAULT_METHOD else "") for e in entries]
        body = [[name, e.summary, e.guarantee, e.source] for name, e in zip(names, entries, strict=True)]
        output.print_table(["method", "what it is", "guarantee", "source"], body, right=False)
        return
    listed = [
        {"name": e.name, "summary": e.summary, "guarantee": e.guarantee, "source": e.source, "options": e.options}
        for e in entries
    ]
    output.print_json({"default": DEFAULT_METHOD, "methods": listed})


def demo(*, out: Path = Path("report.html"), picture: Path | None = None, json: Json = False) -> None:
    """Fit 50 000 synthetic visits around eight towns, and write a report.

    Example: dpkmeans demo --out report.html

    Parameters
    ----------
    out:
        Where to write the report.
    picture:
        Write a picture of the towns and the centroids here (PNG).
    """
    check_outputs(out, picture)
    from dpkmeans.demo.towns import BOX_KM, EPSILON, FEATURES, MAX_FOUND_KM, TOWNS, match, visits
    from dpkmeans.report import require, write_report
    from dpkmeans.session import FitRequest, run

    require()
    request = FitRequest(n_clusters=len(TOWNS), bounds=(0.0, BOX_KM), feature_names=FEATURES, epsilon=EPSILON)
    with output.status("Fitting"):
        release = run(request, visits()).release
    write_report(release, out)
    if picture is not None:
        from dpkmeans.demo.picture import write_demo_picture

        write_demo_picture(release, picture)
    found = match(release.centroids)
    if json:
        towns = [{"town": f.town.name, "cluster": f.cluster, "distance_km": f.distance} for f in found]
        output.print_json({"towns": towns, "release": release.to_dict(), "report": str(out)})
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
    output.note(f"The report is in {out}")
