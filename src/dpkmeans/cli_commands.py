"""The commands. What is slow to import is imported inside them, so that `--help` answers at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

import dpkmeans
from dpkmeans import cli_output as output
from dpkmeans.cli import DATA, DONE, USAGE
from dpkmeans.cli_audit import audit
from dpkmeans.cli_inputs import ESTIMATED, check_outputs, parse_bounds, read, read_for, sides, split_columns
from dpkmeans.cli_ledger import app as ledger_app
from dpkmeans.cli_plan import plan
from dpkmeans.cli_reproduce import reproduce
from dpkmeans.cli_scale import (
    EngineName,
    NullsName,
    in_memory,
    label_files,
    open_files_for,
    where,
    write_labels,
)
from dpkmeans.cli_synopsis import explore, synopsis

if TYPE_CHECKING:
    from dpkmeans.arrays import AnyArray
    from dpkmeans.privacy.store import Store
    from dpkmeans.release import Release
    from dpkmeans.tables import Table

BOUNDS_HELP = (
    "The public box, known without looking at the data: LOW:HIGH for all features, as in 0:1, or one pair per "
    'feature with commas, as in 0:10,-5:5 or -1e3:1e3,0:1. Write "from data" to read it from the records, which '
    "makes the result not private."
)

app = App(
    name="dpkmeans",
    help="Differentially private k-means that says honestly what is proved and what is not.",
    version=dpkmeans.__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)

app.command(ledger_app)
app.command(audit)
app.command(synopsis)
app.command(explore)
app.command(reproduce)
app.command(plan)

Json = Annotated[bool, Parameter(show_default=False)]
Header = Annotated[bool | None, Parameter(name="--header", negative="--no-header")]


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; 2 where the arguments make no sense. Library errors pass through."""
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        output.note(f"error: {' '.join(str(error).split())} Try: dpkmeans --help")
        return USAGE
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else DONE


@app.command
def fit(
    data: Path,
    /,
    *,
    k: Annotated[int, Parameter(name=["--k", "-k"])] = 8,
    bounds: Annotated[str | None, Parameter(allow_leading_hyphen=True, help=BOUNDS_HELP)] = None,
    bounds_epsilon: float | None = None,
    epsilon: float | None = None,
    method: str | None = None,
    guarantee: Literal["proved", "paper", "none"] = "proved",
    step_epsilon: float | None = None,
    release_epsilon: float | None = None,
    n_records: int | None = None,
    init: str | None = None,
    max_iter: int | None = None,
    seed: int | None = None,
    columns: str | None = None,
    header: Header = None,
    ledger: Path | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    engine: EngineName | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    memory: str | None = None,
    nulls: NullsName = "refuse",
    out: Path | None = None,
    transcript: Path | None = None,
    report: Path | None = None,
    json: Json = False,
) -> None:
    """Cluster the records of CSV or Parquet files and release the centroids.

    Example: dpkmeans fit visits.csv --k 8 --bounds 0:100 --epsilon 1 --out model.json

    Parameters
    ----------
    data:
        CSV (also .gz) or Parquet: a file, a folder, or a pattern in quotes such as 'visits/*.parquet'.
    k:
        Number of clusters.
    bounds_epsilon:
        In place of --bounds: spend this much of epsilon on a private estimate of the box.
    epsilon:
        The promised total. Methods that split a total need it; for others it is a cap.
    method:
        Name of a method; see: dpkmeans methods.
    guarantee:
        The weakest guarantee that is accepted.
    step_epsilon:
        Budget of each step (posterior, prior).
    release_epsilon:
        Budget of the last step (posterior, prior).
    n_records:
        The number of records, only if it is public.
    init:
        Where to start: rows, uniform or packing.
    max_iter:
        A safety net for methods that stop by themselves.
    seed:
        Makes the run repeatable and so not private; needs --guarantee none.
    columns:
        Columns to use, with commas, in this order: names, or numbers from 0 if there is no header.
    header:
        Whether the first row of a CSV file holds names. Found out by default.
    ledger:
        A durable ledger, from: dpkmeans ledger create. What is spent is written there before noise is drawn.
    dataset:
        The name of these records in the ledger.
    analyst:
        In whose name to spend; by default the user's.
    engine:
        Where the work is done. By default one small file is held in memory, and all else is streamed.
    scheduler:
        Address of a Dask scheduler (tcp://...) or a Spark master; workers are started here by default.
    workers:
        How many worker processes to start here (dask, spark).
    memory:
        What each of them may use, such as 500MB.
    nulls:
        What becomes of missing values: they are refused, or the middle of the bounds takes their place.
    out:
        Write the model here (JSON).
    transcript:
        Write the published transcript here (one JSON object per line).
    report:
        Write a report here (HTML).
    json:
        Print the release as JSON.
    """
    pairs = parse_bounds(bounds, estimated=bounds_epsilon is not None)
    check_outputs(out, transcript, report, inputs=(data,) if ledger is None else (data, ledger))
    if report is not None:
        _require_report()
    place = where(engine, scheduler, workers, memory)
    with output.status(f"Reading {data}"):
        records: Any
        if in_memory(data, engine, nulls):
            table = read(data, columns, header)
            records, n_features, names = table.records, table.records.shape[1], table.names
        else:
            opened = open_files_for(data, split_columns(columns), header, nulls, place)
            records, n_features, names = opened, opened.n_features, opened.names
    release = _fitted(
        records,
        names,
        n_clusters=k,
        bounds=None if pairs == ESTIMATED else pairs if isinstance(pairs, str) else sides(pairs, n_features),
        bounds_epsilon=bounds_epsilon,
        epsilon=epsilon,
        method=method,
        guarantee=guarantee,
        step_epsilon=step_epsilon,
        release_epsilon=release_epsilon,
        n_records=n_records,
        init=init,
        max_iter=max_iter,
        random_state=seed,
        ledger=None if ledger is None else _store(ledger, analyst),
        dataset=dataset,
    )
    try:  # the budget is spent: whatever happens to a file, the result is printed
        _write_files(release, out, transcript, report)
    finally:
        output.print_json(release.to_dict()) if json else output.print_release(release)


@app.command
def predict(
    model: Path,
    data: Path,
    /,
    *,
    columns: str | None = None,
    header: Header = None,
    nulls: NullsName = "refuse",
    out: Path | None = None,
) -> None:
    """The nearest centroid of each record, as a column called cluster. Not private.

    Example: dpkmeans predict model.json visits.csv --out clusters.csv

    Parameters
    ----------
    model:
        Model file from: dpkmeans fit --out.
    data:
        CSV (also .gz) or Parquet: a file, a folder, or a pattern in quotes.
    columns:
        Columns to use, with commas, in the order of the fit. By default those the model was fitted on.
    header:
        Whether the first row of a CSV file holds names. Found out by default.
    nulls:
        What becomes of missing values: they are refused, or the middle of the bounds takes their place.
    out:
        Write here instead of to stdout: Parquet if the name ends in .parquet, else CSV.
    """
    from dpkmeans.release import Release

    check_outputs(out, inputs=(model, data))
    release = Release.load(model)
    if in_memory(data, None, nulls):
        labels = iter([_nearest(release, read_for(release, data, columns, header))])
    else:
        labels = label_files(release, data, split_columns(columns), header, nulls)
    output.note("Predictions are not private: they say where each record lies. Keep them with the records.")
    write_labels(labels, out)


@app.command
def show(model: Path, /, *, verify: Annotated[bool, Parameter(show_default=False)] = False, json: Json = False) -> int:
    """What a model file holds: the guarantee, the budget and the centroids.

    Example: dpkmeans show model.json --verify

    Parameters
    ----------
    model:
        Model file from: dpkmeans fit --out.
    verify:
        Recompute the certificate of convergence from the model alone; exit code 4 where a statement does not hold.
    json:
        Print it as JSON.
    """
    from dpkmeans.release import Release

    release = Release.load(model)
    if verify:
        return _verified(release, json=json)
    output.print_json(release.to_dict()) if json else output.print_release(release)
    return DONE


@app.command
def report(model: Path, /, *, out: Path = Path("report.html")) -> None:
    """A report (HTML) about a model file. It needs no records.

    Example: dpkmeans report model.json --out report.html

    Parameters
    ----------
    model:
        Model file from: dpkmeans fit --out.
    out:
        Where to write the report.
    """
    from dpkmeans.release import Release

    check_outputs(out, inputs=(model,))
    _require_report()
    from dpkmeans.report import write_report

    write_report(Release.load(model), out)
    output.note(f"The report is in {out}")


@app.command
def methods(*, json: Json = False) -> None:
    """All methods: what each is, what it guarantees, and where it comes from.

    Example: dpkmeans methods

    Parameters
    ----------
    json:
        Print them as JSON.
    """
    from dpkmeans.estimator import DEFAULT_METHOD
    from dpkmeans.methods import registry

    entries = registry().values()
    if not json:
        output.print_methods(entries, DEFAULT_METHOD)
        return
    listed = [
        {"name": e.name, "summary": e.summary, "guarantee": e.guarantee, "source": e.source, "options": e.options}
        for e in entries
    ]
    output.print_json({"default": DEFAULT_METHOD, "methods": listed})


@app.command
def demo(*, out: Path = Path("report.html"), picture: Path | None = None, json: Json = False) -> None:
    """Fit 50 000 made-up visits around eight towns, and write a report.

    Example: dpkmeans demo --out report.html

    Parameters
    ----------
    out:
        Where to write the report.
    picture:
        Write a picture of the towns and the centroids here (PNG).
    json:
        Print the result as JSON.
    """
    check_outputs(out, picture)
    _require_report()
    from dpkmeans.demo import BOX_KM, DEMO_OPTIONS, FAR_KM, FEATURES, TOWNS, match, visits
    from dpkmeans.report import write_report
    from dpkmeans.tables import Table

    table = Table(visits(), FEATURES)
    release = _fitted(table.records, table.names, n_clusters=len(TOWNS), bounds=(0.0, BOX_KM), **DEMO_OPTIONS)
    write_report(release, out)
    if picture is not None:
        from dpkmeans.report.demo_picture import write_demo_picture

        write_demo_picture(release, picture)
    found = match(release.centroids)
    if json:
        towns = [{"town": f.town.name, "cluster": f.cluster, "distance_km": f.distance} for f in found]
        output.print_json({"towns": towns, "release": release.to_dict(), "report": str(out)})
        return
    output.print_guarantee(release)
    output.print_towns(found)
    if any(f.distance > FAR_KM for f in found):
        output.note(
            "A bad start can miss a town, as in any k-means. With real records, running again would spend again."
        )
    output.note(f"The report is in {out}")


def _verified(release: Release, *, json: bool) -> int:
    """Print each statement of the certificate with its verdict; the exit code says whether all hold."""
    from dpkmeans.synopsis.certificate import verify

    verdicts = verify(release)
    if json:
        output.print_json([{"statement": v.statement, "holds": v.holds} for v in verdicts])
    else:
        output.print_lines(f"{'holds' if v.holds else 'DOES NOT HOLD'}: {v.statement}" for v in verdicts)
    return DONE if all(v.holds for v in verdicts) else DATA


def _fitted(records: Any, names: tuple[str, ...] | None, **parameters: Any) -> Release:
    """Fit and return the release alone; labels stay behind."""
    with output.status("Fitting"):
        from dpkmeans.estimator import DPKMeans

        release = DPKMeans(**parameters).fit(records).release_
    return replace(release, feature_names=names)


def _store(ledger: Path, analyst: str | None) -> Store:
    from dpkmeans.privacy.store import Store

    return Store(ledger, analyst=analyst)


def _nearest(release: Release, table: Table) -> AnyArray:
    """Number of the nearest centroid, record by record. Not private."""
    from dpkmeans.engines.memory import MemoryEngine

    box = release.bounds
    return MemoryEngine.of_records(table.records, box).labels(box.unit_of(release.centroids))


def _write_files(release: Release, out: Path | None, transcript: Path | None, report: Path | None) -> None:
    if out is not None:
        release.save(out)
    if transcript is not None:
        release.save_transcript(transcript)
    if report is not None:
        from dpkmeans.report import write_report

        write_report(release, report)


def _require_report() -> None:
    from dpkmeans.report import require

    require()
