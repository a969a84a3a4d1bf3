"""The commands that read a model file: `predict`, `show` and `report`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, open_for, refuse_existing
from dpkmeans.cli.options import ANY, LOCAL, Data, EngineOptions, Flag, Force, Json, Reading, split_columns
from dpkmeans.cli.outcomes import DATA, DONE, printable
from dpkmeans.cli.synopsis import print_synopsis
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.core.release import Release
    from dpkmeans.synopsis.synopsis import Synopsis

ModelFile = Annotated[Path, Parameter(help="Model file from: dpkmeans fit --out.")]
Shown = Annotated[Path, Parameter(help="Model file from: dpkmeans fit --out; or a synopsis file.")]


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
        Columns to copy next to the cluster, such as ids, separated by commas; may be given several times.
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
    with nullcontext() if out is None else output.status(f"Finding the clusters of {data}", line=False):
        table = label_table(label_batches(release, open_for(release, data, reading, spec)), kept)
        output.note("Predictions are not private: they say where each record lies. Keep them with the records.")
        if not json:
            table.write(out)
    if json:
        output.print_json(table.as_json())
    elif out is not None:
        output.note(f"The predictions are in {out}")


def show(
    model: Shown,
    /,
    *,
    verify: Flag = False,
    registry: Flag = False,
    contact: str | None = None,
    purpose: str | None = None,
    key: Path | None = None,
    ledger: Path | None = None,
    json: Json = False,
) -> int:
    """Show the guarantee, the budget, the identity and the centroids of a model file, or what a synopsis file holds.

    Example: dpkmeans show model.json --verify --key curator.pub --ledger ledger.db

    Parameters
    ----------
    verify:
        Check the certificate of convergence and the digest; exit code 4 if a statement does not hold. The last line
        says what was checked and what is only claimed.
    registry:
        Print the fields that public registries of deployments ask for; unknown ones are shown as "?".
    contact:
        With --registry: who answers questions about the deployment.
    purpose:
        With --registry: what the result is used for.
    key:
        With --verify: the public key that must have signed the file, and the ledger if it is signed.
    ledger:
        With --verify: the ledger that must contain the fit, its spend and its digest, in an intact chain.
    """
    from dpkmeans.core.release import Release
    from dpkmeans.storage.json_files import is_of_kind
    from dpkmeans.synopsis.synopsis import KIND, Synopsis

    if not verify and (key is not None or ledger is not None):
        raise MethodError("--key and --ledger say what to check with. Write --verify too.")
    if not registry and (contact is not None or purpose is not None):
        raise MethodError("--contact and --purpose belong to a record for a registry. Write --registry too.")
    if registry and verify:
        raise MethodError("--registry and --verify print different things. Give one of the two.")
    if is_of_kind(model, KIND) and not registry:
        synopsis = Synopsis.load(model)
        if verify:
            return _verified(synopsis, key, ledger, json=json)
        print_synopsis(synopsis, model, identity=True, json=json)
        return DONE
    release = Release.load(model)
    if registry:
        from dpkmeans.report.record import deployment_record

        record = deployment_record(release, contact=contact, purpose=purpose)
        if json:
            output.print_json(record)
        else:
            lines = ((name.replace("_", " "), value) for name, value in record.items())
            output.print_lines(f"{name:<14} {'-' if value is None else printable(str(value))}" for name, value in lines)
        return DONE
    if verify:
        return _verified(release, key, ledger, json=json)
    output.print_json(release.to_dict()) if json else output.print_release(release, identity=True)
    return DONE


def report(
    model: ModelFile, /, *, out: Path = Path("report.html"), page: Path | None = None, json: Json = False
) -> None:
    """Write a report (HTML) about a model file. Needs no records.

    Example: dpkmeans report model.json --out report.html --page explore.html

    Parameters
    ----------
    out:
        Where to write the report.
    page:
        Also write a page for exploring the released synopsis, and link to it from the report.
    """
    from dpkmeans.core.release import Release

    check_outputs(out, page, inputs=(model,))
    from dpkmeans.report import require, write_report
    from dpkmeans.report.explorer import synopsis_in, write_explorer

    require()
    release = Release.load(model)
    if page is not None:
        with output.status(f"Computing the page {page}"):
            write_explorer(synopsis_in(release), page, release.n_clusters, in_a_model=True)
        output.note(f"The page is in {page}")
    with output.status(f"Writing {out}", line=False):
        write_report(release, out, page)
    output.note(f"The report is in {out}")
    if json:
        output.print_json({"report": str(out), "guarantee": release.guarantee.label, "bytes": out.stat().st_size})


def _verified(made: Release | Synopsis, key: Path | None, ledger: Path | None, *, json: bool) -> int:
    """Print each statement with its verdict, then what was checked and what is claimed; the exit code says the rest."""
    from dpkmeans.storage.keys import read_public_key
    from dpkmeans.synopsis.synopsis import Synopsis
    from dpkmeans.verification import check_release, check_synopsis

    public = None if key is None else read_public_key(key)
    if isinstance(made, Synopsis):
        checks = check_synopsis(made, key=public, ledger=ledger)
    else:
        checks = check_release(made, key=public, ledger=ledger)
    if json:
        verdicts = [{"statement": v.statement, "holds": v.holds} for v in checks.verdicts]
        claimed = {"checked": list(checks.checked), "claimed": list(checks.claimed)}
        output.print_json({"holds": checks.hold, "verdicts": verdicts, **claimed})
    else:
        print_synopsis(made, identity=True) if isinstance(made, Synopsis) else output.print_release(made, identity=True)
        output.print_lines(f"{'holds' if v.holds else 'DOES NOT HOLD'}: {v.statement}" for v in checks.verdicts)
        output.print_lines([checks.in_words()])
    return DONE if checks.hold else DATA
