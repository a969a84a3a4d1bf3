"""How the commands of `dpkmeans ledger` print caps, amounts, releases and reservations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpkmeans.cli import output

if TYPE_CHECKING:
    from dpkmeans.core.privacy import Privacy
    from dpkmeans.privacy.durable.history import RecordedRelease, Reservation
    from dpkmeans.privacy.durable.shares import Share
    from dpkmeans.privacy.durable.terms import DataSet


def cap_in_words(privacy: Privacy) -> str:
    """A cap as it is printed: the amount alone where it is pure epsilon."""
    if privacy.delta is not None:
        return f"{privacy.epsilon} at delta {privacy.delta!r}"
    return f"rho {privacy.rho}" if privacy.rho is not None else str(privacy.epsilon)


def spent_in_words(dataset: DataSet) -> str:
    """What is spent: the total, and for a cap at a delta the parts in either currency."""
    if dataset.kind == "rho":
        return f"rho {dataset.spent}"
    return f"{dataset.spent} ({dataset.held})" if dataset.held.rho.femto else str(dataset.spent)


def remaining_in_words(dataset: DataSet) -> str:
    """What is left, in either currency where fits may spend either."""
    if dataset.kind == "rho":
        return f"rho {dataset.remaining}"
    return (
        str(dataset.remaining) if dataset.kind == "epsilon" else f"{dataset.remaining} or rho {dataset.remaining_rho}"
    )


def plain(row: Reservation | RecordedRelease) -> dict[str, Any]:
    """A reservation or a release as plain values."""
    return {name: float(value) if name == "amount" else value for name, value in vars(row).items()}


def print_open(reservations: Iterable[Reservation]) -> None:
    """A table of reservations that are not settled."""
    rows = [[r.fit, r.dataset, r.analyst, r.time, str(r.amount), r.state] for r in reservations]
    output.print_table(["fit not settled", "data set", "analyst", "since", "reserved", "state"], rows, right=False)


def as_json(dataset: DataSet, shares: Iterable[Share] = ()) -> dict[str, Any]:
    """A data set's cap and what is left of it, as plain values; `cap`, `spent` and `remaining` are epsilons or rhos."""
    amounts = {"cap": float(dataset.cap), "spent": float(dataset.spent), "remaining": float(dataset.remaining)}
    rho = dataset.remaining_rho
    rhos = {"spent_rho": float(dataset.held.rho), "remaining_rho": None if rho is None else float(rho)}
    kind = {"kind": dataset.kind, "delta": dataset.privacy.delta}
    listed = [
        {"analyst": s.analyst, "cap": float(s.privacy.rho or s.privacy.pure), "spent": str(s.held)} for s in shares
    ]
    return {"dataset": dataset.name, "unit": dataset.unit, **kind, **amounts, **rhos, "shares": listed}
