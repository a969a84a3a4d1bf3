"""The commands of `dpkmeans ledger`: a privacy budget for data sets that is kept on disk and shared by all users."""

from __future__ import annotations

import gc
import json as json_module
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs
from dpkmeans.cli.ledger_words import as_json, cap_in_words, plain, print_open, remaining_in_words, spent_in_words
from dpkmeans.cli.options import Flag, Json
from dpkmeans.errors import BudgetError, LedgerError

if TYPE_CHECKING:
    from dpkmeans.core.privacy import Privacy
    from dpkmeans.privacy.durable.ledger import DurableLedger

LedgerFile = Annotated[Path, Parameter(help="The ledger's file, on a local disk.")]
DataName = Annotated[str, Parameter(help="The name of the data set.")]
CAP_HELP = "The most that all fits together may ever spend on the data set."
Cap = Annotated[float | None, Parameter(name=["--cap", "--epsilon"], help=CAP_HELP)]
AtDelta = Annotated[float | None, Parameter(help="The delta of the cap, which lets fits use Gaussian noise.")]
InRho = Annotated[float | None, Parameter(help="Instead of --cap: the largest total rho (zero-concentrated privacy).")]
Analyst = Annotated[str | None, Parameter(help="Name to record with the entry; by default your user name.")]
Sign = Annotated[Path | None, Parameter(help="The private key of a signed ledger, from: dpkmeans key create.")]

app = App(
    name="ledger",
    help="Privacy budgets of data sets, kept on disk and shared by all users.",
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
    sign: Sign = None,
    json: Json = False,
) -> None:
    """Register a data set in a ledger. Creates the ledger if it does not exist, signed if --sign is given.

    Example: dpkmeans ledger create ledger.db --dataset visits --cap 1.5 --unit person

    The cap is a pure epsilon, an epsilon with a delta, or a rho. Its kind cannot be changed later.

    Parameters
    ----------
    unit:
        What the cap protects: a row, or all rows of a person. Cannot be changed; fits with another unit are refused.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    check_outputs(ledger)
    budget = _promise(cap, delta, rho)
    store = DurableLedger.create(ledger, analyst=analyst, key=sign)
    store.add(dataset, budget, unit=unit)
    output.note(f"{ledger} has the data set {dataset} with a cap of {cap_in_words(budget)} per {unit}.")
    if json:
        output.print_json(as_json(store.dataset(dataset)))


@app.command
def cap(
    ledger: LedgerFile,
    /,
    *,
    dataset: DataName,
    cap: Cap = None,
    rho: InRho = None,
    share_of: Annotated[str | None, Parameter(name="--for")] = None,
    analyst: Analyst = None,
    sign: Sign = None,
    json: Json = False,
) -> None:
    """Change the cap of a data set to another of the same kind; its delta stays. The change is recorded as an entry.

    Example: dpkmeans ledger cap ledger.db --dataset visits --cap 0.5 --for grace

    Parameters
    ----------
    share_of:
        Instead, change the share of this analyst in the cap. Once one has a share, those without one spend nothing.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger, analyst=analyst, key=sign)
    if share_of is not None:
        share = _promise(cap, None, rho)
        store.set_share(dataset, share_of, share)
        output.note(f"{share_of} may spend {cap_in_words(share)} of {dataset}, under the cap of all.")
        if json:
            output.print_json(as_json(store.dataset(dataset), store.shares(dataset)))
        return
    store.set_cap(dataset, _promise(cap, None, rho))
    left = store.dataset(dataset)
    now = f"{dataset} now has a cap of {cap_in_words(left.privacy)}"
    output.note(f"{now}; {left.spent} is spent, {remaining_in_words(left)} is left.")
    if json:
        output.print_json(as_json(left))


@app.command
def sign(ledger: LedgerFile, /, *, sign: Path, analyst: Analyst = None, json: Json = False) -> None:
    """Sign all entries of a ledger from now on. Nobody without the key can then change an entry unnoticed.

    Example: dpkmeans ledger sign ledger.db --sign curator.key

    From then on, every command and fit that writes to it needs --sign. The key cannot be changed.

    Parameters
    ----------
    sign:
        The private key, from: dpkmeans key create.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger, analyst=analyst, key=sign)
    store.sign()
    output.note(f"{ledger} is signed from now on. Keep its head elsewhere: dpkmeans ledger head {ledger}")
    if json:
        output.print_json({"signer": store.verify().signer, "head": store.head()})


@app.command
def show(ledger: LedgerFile, /, *, dataset: str | None = None, json: Json = False) -> None:
    """Show the data sets of a ledger with their caps, what is spent and what is left, and fits that did not end.

    Example: dpkmeans ledger show ledger.db --dataset visits

    Parameters
    ----------
    dataset:
        Show only this data set, with its releases and entries.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    gc.disable()  # which would look through 100 000 entries again and again, for a third of the time
    try:
        _show(DurableLedger(ledger), dataset, json=json)
    finally:
        gc.enable()


def _show(store: DurableLedger, dataset: str | None, *, json: bool) -> None:
    from dpkmeans.privacy.durable.processes import unmarked
    from dpkmeans.privacy.durable.terms import Terms

    datasets = store.datasets() if dataset is None else (store.dataset(dataset),)
    history = store.history(dataset)
    shares = {d.name: store.shares(d.name) for d in datasets}
    entries = () if dataset is None else history.entries
    if json:
        few = {"datasets": [as_json(d, shares[d.name]) for d in datasets]}
        few["open"] = list(map(plain, history.reservations))
        output.print_json_lines(few, {"releases": map(plain, history.releases), "entries": map(vars, entries)})
        return
    body = [[d.name, d.unit, cap_in_words(d.privacy), spent_in_words(d), remaining_in_words(d)] for d in datasets]
    output.print_table(["data set", "per", "cap", "spent", "left"], body)
    by_analyst = [[d, s.analyst, cap_in_words(s.privacy), str(s.held)] for d, group in shares.items() for s in group]
    if by_analyst:
        output.print_table(["data set", "analyst", "may spend", "has spent"], by_analyst, right=False)
    if history.reservations:
        print_open(history.reservations)
    if dataset is not None and history.releases:
        as_text = cache(str)
        rows = [[r.fit, r.time, r.analyst, as_text(r.amount), r.digest] for r in history.releases]
        output.print_table(["fit", "released", "analyst", "spent", "digest"], rows, right=False)
    if entries:
        terms = Terms.read(entries[0].label, entries[0].dataset)
        states = {r.fit: f" ({r.state})" for r in history.reservations}
        in_words = cache(lambda nano, kind: str(terms.amount(nano, kind)))
        rows = [
            [
                str(e.number),
                e.time,
                e.kind + (states.get(e.fit, "") if e.kind.startswith("reserve") else ""),
                in_words(e.nano, e.kind),
                e.analyst,
                unmarked(e.label),
            ]
            for e in entries
        ]
        amount = "rho" if terms.in_rho else "epsilon" if terms.delta is None else "amount"
        output.print_table(["entry", "time", "kind", amount, "analyst", "label"], rows, right=False)


@app.command
def recover(
    ledger: LedgerFile,
    /,
    *,
    dataset: str | None = None,
    fit: str | None = None,
    analyst: Analyst = None,
    sign: Sign = None,
    json: Json = False,
) -> None:
    """Settle the reservations of crashed fits: everything they reserved is recorded as spent.

    Example: dpkmeans ledger recover ledger.db

    A fit that is still running is left alone. For a fit by an older version or in another container, that cannot be
    determined: name it with --fit.

    Parameters
    ----------
    dataset:
        Only fits of this data set.
    fit:
        This fit, which you know is not running.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    store = DurableLedger(ledger, analyst=analyst, key=sign)
    settled = store.recover(dataset, fit=fit)
    left = store.history(dataset).reservations
    if json:
        output.print_json({"settled": list(map(plain, settled)), "open": list(map(plain, left))})
        return
    output.print_lines([f"settled as spent: {len(settled)}"])
    if settled:
        print_open(settled)
    if left:
        output.note("Still open, and counted as spent:")
        print_open(left)


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
    entries = [vars(entry) for entry in DurableLedger(ledger).entries()]
    lines = [json_module.dumps(entries, indent=1)] if json else [json_module.dumps(entry) for entry in entries]
    if out is None:
        output.print_lines(lines)
    else:
        write_text(out, "".join(f"{line}\n" for line in lines))


@app.command
def head(ledger: LedgerFile, /, *, json: Json = False) -> None:
    """Print the head of the hash chain. Keep it elsewhere: with it, verify detects an older copy of the ledger.

    Example: dpkmeans ledger head ledger.db
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger

    found = DurableLedger(ledger).head()
    output.print_json({"head": found}) if json else output.print_lines([found])


@app.command
def verify(ledger: LedgerFile, /, *, head: str | None = None, key: Path | None = None, json: Json = False) -> None:
    """Check that no entry was changed, removed or inserted. Exit code 4 if the hash chain is broken.

    Example: dpkmeans ledger verify ledger.db --key curator.pub

    Parameters
    ----------
    head:
        The head that an earlier check printed, or that a model names. Detects an older copy of the ledger.
    key:
        The public key that must have signed the entries. Detects a chain that somebody else rewrote.
    """
    from dpkmeans.privacy.durable.ledger import DurableLedger
    from dpkmeans.storage.keys import read_public_key

    found = DurableLedger(ledger).verify(head, None if key is None else read_public_key(key))
    if json:
        output.print_json({**asdict(found), "intact": found.intact})
    if not found.intact:
        raise LedgerError(f"the chain of {ledger} breaks at entry {found.broken_at}: {found.why}. Restore a copy.")
    if not json:
        signer = "nobody (anyone who can write the file can rewrite it)" if found.signer is None else found.signer
        trusted = " (the key given)" if key else " (not compared: give --key)" if found.signer else ""
        output.print_lines([f"intact: {found.entries} entries", f"signed by: {signer}{trusted}", f"head: {found.head}"])
        if head is None:
            output.note("Not compared with an earlier head: give --head.")


def _promise(cap: float | None, delta: float | None, rho: float | None) -> Privacy:
    """The cap that was written."""
    from dpkmeans.core.epsilon import Epsilon
    from dpkmeans.core.privacy import Privacy

    made = Privacy.of(None if cap is None else Epsilon.of(cap, "cap"), delta, rho)
    if made is None:
        raise BudgetError("is missing.", parameter="cap", hint="Write, say, {cap=1.0}, or {rho=0.1}.")
    return made
