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
from dpkmeans.errors import BudgetError, LedgerError

if TYPE_CHECKING:
    from dpkmeans.core.privacy import Privacy
    from dpkmeans.privacy.durable.terms import DataSet

LedgerFile = Annotated[Path, Parameter(help="The ledger's file, on a local disk.")]
DataName = Annotated[str, Parameter(help="The name of the data set.")]
CAP_HELP = "The largest total epsilon that all fits together may ever spend on it."
Cap = Annotated[float | None, Parameter(name=["--cap", "--epsilon"], help=CAP_HELP)]
AtDelta = Annotated[
    float | None, Parameter(help="The cap is an epsilon at this delta, so that fits may use Gaussian noise.")
]
InRho = Annotated[float | None, Parameter(help="Instead of --cap: the largest total rho (zero-concentrated privacy).")]
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
    cap: Cap = None,
    delta: AtDelta = None,
    rho: InRho = None,
    unit: Literal["row", "person"] = "row",
    analyst: Analyst = None,
    json: Json = False,
) -> None:
    """Register a data set in a ledger; the ledger is created if it does not exist.

    Example: dpkmeans ledger create ledger.db --dataset visits --cap 1.5 --unit person

    The cap is a pure epsilon, an epsilon at a delta, or a rho, and of this kind from now on.

    Parameters
    ----------
    unit:
        What the cap protects, from now on: a row, or all rows of a person. Fits with another unit are refused.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    check_outputs(ledger)
    budget = _promise(cap, delta, rho)
    store = DurableLedger.create(ledger, analyst=analyst)
    store.add(dataset, budget, unit=unit)
    output.note(f"{ledger} has the data set {dataset} with a cap of {_cap(budget)} per {unit}.")
    if json:
        output.print_json(_left(store.dataset(dataset)))


@app.command
def cap(
    ledger: LedgerFile,
    /,
    *,
    dataset: DataName,
    cap: Cap = None,
    rho: InRho = None,
    analyst: Analyst = None,
    json: Json = False,
) -> None:
    """Change the cap of a data set, to one of the same kind; its delta stays. The change is recorded as an entry.

    Example: dpkmeans ledger cap ledger.db --dataset visits --cap 2
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger, analyst=analyst)
    store.set_cap(dataset, _promise(cap, None, rho))
    left = store.dataset(dataset)
    output.note(f"{dataset} now has a cap of {_cap(left.privacy)}; {left.spent} is spent, {_remaining(left)} is left.")
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
    from dpkmeans.privacy.durable.ledger import DurableLedger
    from dpkmeans.privacy.durable.terms import Terms

    store = DurableLedger(ledger)
    datasets = store.datasets() if dataset is None else (store.dataset(dataset),)
    entries = [] if dataset is None else [entry for entry in store.entries() if entry.dataset == dataset]
    if json:
        listed = [_left(d) for d in datasets]
        output.print_json({"datasets": listed, "entries": [asdict(entry) for entry in entries]})
        return
    body = [[d.name, d.unit, _cap(d.privacy), _spent(d), _remaining(d)] for d in datasets]
    output.print_table(["data set", "per", "cap", "spent", "left"], body)
    if entries:
        terms = Terms.read(entries[0].label, entries[0].dataset)
        rows = [[str(e.number), e.time, e.kind, str(terms.amount(e.nano, e.kind)), e.analyst, e.label] for e in entries]
        amount = "rho" if terms.in_rho else "epsilon" if terms.delta is None else "amount"
        output.print_table(["entry", "time", "kind", amount, "analyst", "label"], rows, right=False)


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


def _promise(cap: float | None, delta: float | None, rho: float | None) -> Privacy:
    """The cap that was written."""
    from dpkmeans.core.epsilon import Epsilon
    from dpkmeans.core.privacy import Privacy

    made = Privacy.of(None if cap is None else Epsilon.of(cap, "cap"), delta, rho)
    if made is None:
        raise BudgetError("is missing.", parameter="cap", hint="Write, say, {cap=1.0}, or {rho=0.1}.")
    return made


def _cap(privacy: Privacy) -> str:
    """A cap as it is printed: the amount alone where it is pure epsilon."""
    if privacy.delta is not None:
        return f"{privacy.epsilon} at delta {privacy.delta!r}"
    return f"rho {privacy.rho}" if privacy.rho is not None else str(privacy.epsilon)


def _spent(dataset: DataSet) -> str:
    """What is spent: the total, and for a cap at a delta the parts in either currency."""
    if dataset.kind == "rho":
        return f"rho {dataset.spent}"
    return f"{dataset.spent} ({dataset.held})" if dataset.held.rho.femto else str(dataset.spent)


def _remaining(dataset: DataSet) -> str:
    """What is left, in either currency where fits may spend either."""
    if dataset.kind == "rho":
        return f"rho {dataset.remaining}"
    return (
        str(dataset.remaining) if dataset.kind == "epsilon" else f"{dataset.remaining} or rho {dataset.remaining_rho}"
    )


def _left(dataset: DataSet) -> dict[str, Any]:
    """A data set's cap and what is left of it, as plain values; `cap`, `spent` and `remaining` are epsilons or rhos."""
    amounts = {"cap": float(dataset.cap), "spent": float(dataset.spent), "remaining": float(dataset.remaining)}
    rho = dataset.remaining_rho
    rhos = {"spent_rho": float(dataset.held.rho), "remaining_rho": None if rho is None else float(rho)}
    kind = {"kind": dataset.kind, "delta": dataset.privacy.delta}
    return {"dataset": dataset.name, "unit": dataset.unit, **kind, **amounts, **rhos}
