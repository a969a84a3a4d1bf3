"""The commands of `dpkmeans ledger`: a privacy budget for data sets that is kept on disk and shared by all users."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs
from dpkmeans.cli.options import Flag, Json
from dpkmeans.errors import LedgerError

if TYPE_CHECKING:
    from dpkmeans.privacy.durable.ledger import DataSet

LedgerFile = Annotated[Path, Parameter(help="The ledger's file, on a local disk.")]
DataName = Annotated[str, Parameter(help="The name of the data set.")]
Cap = Annotated[float, Parameter(help="The largest total epsilon that all fits together may ever spend on it.")]
Analyst = Annotated[str | None, Parameter(help="Name to record with the entry; by default your user name.")]

app = App(
    name="ledger",
    help="A privacy budget for data sets that is kept on disk and shared by all users.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)


@app.command
def create(
    ledger: LedgerFile,
    /,
    *,
    dataset: DataName,
    cap: Cap,
    unit: Literal["row", "person"] = "row",
    analyst: Analyst = None,
    json: Json = False,
) -> None:
    """Register a data set in a ledger; the ledger is created if it does not exist.

    Example: dpkmeans ledger create ledger.db --dataset visits --cap 1.5 --unit person

    Parameters
    ----------
    unit:
        What the cap protects, from now on: a row, or all rows of a person. Fits with another unit are refused.
    """
    from dpkmeans.core.epsilon import Epsilon
    from dpkmeans.privacy.durable.ledger import DurableLedger

    check_outputs(ledger)
    budget = Epsilon.of(cap, "cap")
    store = DurableLedger.create(ledger, analyst=analyst)
    store.add(dataset, budget, unit=unit)
    output.note(f"{ledger} has the data set {dataset} with a cap of {budget} per {unit}.")
    if json:
        output.print_json(_left(store.dataset(dataset)))


@app.command
def cap(ledger: LedgerFile, /, *, dataset: DataName, cap: Cap, analyst: Analyst = None, json: Json = False) -> None:
    """Change the cap of a data set. The change is recorded as an entry.

    Example: dpkmeans ledger cap ledger.db --dataset visits --cap 2
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger, analyst=analyst)
    store.set_cap(dataset, cap)
    left = store.dataset(dataset)
    output.note(f"{dataset} now has a cap of {left.cap}; {left.spent} is spent, {left.remaining} is left.")
    if json:
        output.print_json(_left(left))


@app.command
def show(ledger: LedgerFile, /, *, dataset: str | None = None, json: Json = False) -> None:
    """Show the data sets of a ledger with their caps, what is spent and what is left; with --dataset also the entries.

    Example: dpkmeans ledger show ledger.db --dataset visits

    Parameters
    ----------
    dataset:
        Show this data set alone, with its entries.
    """
    from dpkmeans.core.epsilon import Epsilon
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger)
    datasets = store.datasets() if dataset is None else (store.dataset(dataset),)
    entries = [] if dataset is None else [entry for entry in store.entries() if entry.dataset == dataset]
    if json:
        listed = [_left(d) for d in datasets]
        output.print_json({"datasets": listed, "entries": [asdict(entry) for entry in entries]})
        return
    body = [[d.name, d.unit, str(d.cap), str(d.spent), str(d.remaining)] for d in datasets]
    output.print_table(["data set", "per", "cap", "spent", "left"], body)
    if entries:
        rows = [[str(e.number), e.time, e.kind, str(Epsilon(e.nano)), e.analyst, e.label] for e in entries]
        output.print_table(["entry", "time", "kind", "epsilon", "analyst", "label"], rows, right=False)


@app.command
def export(ledger: LedgerFile, /, *, out: Path | None = None, json: Flag = False) -> None:
    """Print all entries with their hashes, one JSON object per line.

    Example: dpkmeans ledger export ledger.db --out entries.jsonl

    Parameters
    ----------
    out:
        Write here instead of to stdout.
    json:
        Print one JSON document instead of one line per entry.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger
    from dpkmeans.storage.json_files import write_text

    check_outputs(out, inputs=(ledger,))
    entries = [asdict(entry) for entry in DurableLedger(ledger).entries()]
    lines = [json_module.dumps(entries, indent=1)] if json else [json_module.dumps(entry) for entry in entries]
    if out is None:
        output.print_lines(lines)
    else:
        write_text(out, "".join(f"{line}\n" for line in lines))


@app.command
def verify(ledger: LedgerFile, /, *, head: str | None = None, json: Json = False) -> None:
    """Check that no entry was changed, removed or inserted. Exit code 4 if the hash chain is broken.

    Example: dpkmeans ledger verify ledger.db

    Parameters
    ----------
    head:
        The head that an earlier check printed. Detects entries that were removed from the end since then.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    found = DurableLedger(ledger).verify(head)
    if json:
        output.print_json({**asdict(found), "intact": found.intact})
    if not found.intact:
        raise LedgerError(f"the chain of {ledger} breaks at entry {found.broken_at}: {found.why}. Restore a copy.")
    if not json:
        output.print_lines([f"intact: {found.entries} entries", f"head: {found.head}"])


def _left(dataset: DataSet) -> dict[str, Any]:
    """A data set's cap and what is left of it, as plain values."""
    amounts = {"cap": float(dataset.cap), "spent": float(dataset.spent), "remaining": float(dataset.remaining)}
    return {"dataset": dataset.name, "unit": dataset.unit, **amounts}
