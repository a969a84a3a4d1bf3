"""The commands that read a model file: `predict`, `show` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, open_for, refuse_existing
from dpkmeans.cli.options import ANY, LOCAL, Data, EngineOptions, Flag, Force, Json, Reading, split_columns
from dpkmeans.cli.outcomes import DATA, DONE
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.core.release import Release

ModelFile = Annotated[Path, Parameter(help="Model file from: dpkmeans fit --out.")]


def predict(
    model: ModelFile,
    data: Data,
    /,
    *,
    keep: tuple[str, ...] = (),
    reading: Reading = ANY,
    place: EngineOptions = LOCAL,
    out: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the nearest centroid of each record, as a column called cluster. Not private.

    The columns are those the model was fitted on, unless others are named, in the same order.

    Example: dpkmeans predict model.json visits.csv --keep patient_id --out clusters.csv

    Parameters
    ----------
    keep:
        Columns to write beside the cluster as they are, such as ids, with commas; may be given several times.
    out:
        Write to this file instead of stdout: Parquet if the name ends in .parquet, otherwise CSV.
    """
    from dpkmeans.cli.labels import label_table, open_kept
    from dpkmeans.core.release import Release
    from dpkmeans.engines.labels import label_batches

    if json and out is not None:
        raise MethodError("--json prints the clusters and --out writes them to a file. Give one of the two.")
    check_outputs(out, inputs=(model, data))
    refuse_existing(out, force=force, paid=False)
    spec = place.to_spec()
    release = Release.load(model)
    kept = open_kept(reading.files(data), [name for names in keep for name in split_columns(names)])
    table = label_table(label_batches(release, open_for(release, data, reading, spec)), kept)
    output.note("Predictions are not private: they say where each record lies. Keep them with the records.")
    if json:
        output.print_json(table.as_json())
    else:
        table.write(out)
        if out is not None:
            output.note(f"The predictions are in {out}")


def show(model: ModelFile, /, *, verify: Flag = False, json: Json = False) -> int:
    """Show the guarantee, the budget and the centroids of a model file.

    Example: dpkmeans show model.json --verify

    Parameters
    ----------
    verify:
        Check the certificate of convergence from the model alone; exit code 4 if a statement does not hold.
    """
    from dpkmeans.core.release import Release

    release = Release.load(model)
    if verify:
        return _verified(release, json=json)
    output.print_json(release.to_dict()) if json else output.print_release(release)
    return DONE


def report(model: ModelFile, /, *, out: Path = Path("report.html"), json: Json = False) -> None:
    """Write a report (HTML) about a model file. Needs no records.

    Example: dpkmeans report model.json --out report.html

    Parameters
    ----------
    out:
        Where to write the report.
    """
    from dpkmeans.core.release import Release

    check_outputs(out, inputs=(model,))
    from dpkmeans.report import require, write_report

    require()
    release = Release.load(model)
    write_report(release, out)
    output.note(f"The report is in {out}")
    if json:
        output.print_json({"report": str(out), "guarantee": release.guarantee.label, "bytes": out.stat().st_size})


def _verified(release: Release, *, json: bool) -> int:
    """Print each statement of the certificate with its verdict; the exit code says whether all hold."""
    from dpkmeans.synopsis.verify import verify

    verdicts = verify(release)
    if json:
        output.print_json([{"statement": v.statement, "holds": v.holds} for v in verdicts])
    else:
        output.print_release(release)
        output.print_lines(f"{'holds' if v.holds else 'DOES NOT HOLD'}: {v.statement}" for v in verdicts)
    return DONE if all(v.holds for v in verdicts) else DATA
