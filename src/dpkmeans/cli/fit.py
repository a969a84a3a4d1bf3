"""The command `dpkmeans fit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, engine_for, given_box, refuse_existing
from dpkmeans.cli.options import (
    ANY,
    LOCAL,
    OWN,
    ROW,
    UNSAID,
    BoxOptions,
    Clusters,
    Data,
    Delta,
    EngineOptions,
    Force,
    GuaranteeName,
    Json,
    PublicCount,
    Reading,
    RhoBudget,
    Seed,
    Spending,
    UnitOptions,
    WholeOrNone,
)
from dpkmeans.cli.places import Saved, reserved, save
from dpkmeans.engines.limits import check_memory

if TYPE_CHECKING:
    from dpkmeans.core.release import Release
    from dpkmeans.storage.outputs import Output


def fit(
    data: Data,
    /,
    *,
    k: Clusters = 8,
    box: BoxOptions = UNSAID,
    bounds_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: Delta = None,
    rho: RhoBudget = None,
    method: str | None = None,
    guarantee: GuaranteeName = "proved",
    step_epsilon: float | None = None,
    release_epsilon: float | None = None,
    n_records: PublicCount = None,
    init: str | None = None,
    max_iter: WholeOrNone = None,
    seed: Seed = None,
    unit: UnitOptions = ROW,
    reading: Reading = ANY,
    spending: Spending = OWN,
    place: EngineOptions = LOCAL,
    out: Path | None = None,
    transcript: Path | None = None,
    report: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Cluster the records of CSV or Parquet files and release the centroids.

    Example: dpkmeans fit visits.csv --k 8 --bounds east=0:100,north=0:100 --epsilon 1 --out model.json

    Parameters
    ----------
    k:
        Number of clusters.
    bounds_epsilon:
        Instead of --bounds: how much of epsilon to spend on a private estimate of them.
    epsilon:
        Total privacy budget. Required by most methods; for posterior and prior it is a cap.
    method:
        Name of a method; for a list see: dpkmeans methods.
    step_epsilon:
        Budget of each step (posterior, prior).
    release_epsilon:
        Budget of the last step (posterior, prior).
    init:
        Initial centroids: rows, uniform or packing.
    max_iter:
        Largest number of iterations, for methods that stop by themselves.
    out:
        Write the model to this file (JSON); - for standard output.
    transcript:
        Write the transcript to this file (one JSON object per line).
    report:
        Write a report to this file (HTML). A report that exists is replaced.
    """
    given = given_box(box, estimable=True, estimated=bounds_epsilon is not None)
    check_outputs(out, transcript, report, inputs=(data, *spending.files()))
    refuse_existing(out, transcript, force=force)
    if report is not None:
        from dpkmeans.report import require

        require()
    spec = place.to_spec()
    check_memory()
    from dpkmeans.session import FitRequest, run

    request = FitRequest(
        n_clusters=k,
        **given,
        bounds_epsilon=bounds_epsilon,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        method=method,
        guarantee=guarantee,
        step_epsilon=step_epsilon,
        release_epsilon=release_epsilon,
        n_records=n_records,
        init=init,
        max_iter=max_iter,
        unit=unit.unit(),
        random_state=seed,
        ledger=spending.store(),
        dataset=spending.dataset,
        engine=engine_for(data) if spec is None else spec,
    )
    key = spending.key()
    with reserved(out, transcript, report) as (model_place, transcript_place, report_place):
        with output.status(f"Fitting {data}"):
            release = run(request, reading.files(data)).release
        if key is not None:
            release = release.signed(key)
        saved = Saved(None, on_stdout=False)
        try:  # the budget is spent: whatever happens to a file, the result is printed
            if model_place is not None:
                saved = save(release.save, model_place, "model", printed=json)
            _write_more(release, transcript_place, report_place)
        finally:
            if not saved.on_stdout:
                output.print_json(release.to_dict()) if json else output.print_release(release)
    if saved.error is not None:
        raise saved.error
    model = "The model was not saved: give --out next time."
    if out is not None:
        where = "on standard output" if saved.on_stdout else f"in {out}"
        again = out.is_file() and not saved.on_stdout
        model = f"The model is {where}." + (f" Try: dpkmeans show {out} --verify" if again else "")
    output.note(model)


def _write_more(release: Release, transcript: Output | None, report: Output | None) -> None:
    if transcript is not None:
        release.save_transcript(transcript)
        output.note(f"The transcript is in {transcript}")
    if report is not None:
        from dpkmeans.report import write_report

        with output.status(f"Writing {report}", line=False):
            write_report(release, report)
        output.note(f"The report is in {report}")
