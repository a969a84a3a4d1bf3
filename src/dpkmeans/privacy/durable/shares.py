"""Shares of analysts: how much of the cap of a data set each of them may spend.

A share divides a budget among people. What protects the records is the cap: it holds whatever the shares are, and
whatever names the processes give themselves.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.errors import BudgetError
from dpkmeans.privacy.durable.terms import RHO, DataSet, Terms

# By +number, so that SQLite looks the kind up in its index: in order of numbers it would read the whole data set.
_SHARES = "SELECT label, nano FROM entries WHERE dataset = ? AND kind = 'analyst' ORDER BY +number"
_SPENT = (
    "SELECT kind, sum(nano) FROM entries WHERE dataset = ? AND analyst = ? AND kind IN "
    "('spend', 'reserve', 'settle', 'spend rho', 'reserve rho', 'settle rho') GROUP BY kind"
)


@dataclass(frozen=True)
class Share:
    """What one analyst may spend of a data set, and has spent."""

    analyst: str
    privacy: Privacy
    held: Loss


def shares_of(connection: sqlite3.Connection, dataset: str, terms: Terms) -> tuple[Share, ...]:
    """The shares in a data set, by name."""
    shares = dict(connection.execute(_SHARES, (dataset,)).fetchall())
    return tuple(
        Share(name, terms.cap(units), _held(connection, dataset, terms, name)) for name, units in sorted(shares.items())
    )


def check_share(connection: sqlite3.Connection, known: DataSet, terms: Terms, analyst: str, charged: Loss) -> None:
    """Refuse what the share of an analyst does not cover, in a data set that has shares."""
    shares = dict(connection.execute(_SHARES, (known.name,)).fetchall())
    if not shares:
        return
    if analyst not in shares:
        raise BudgetError(
            f"data set {known.name!r} is shared among {', '.join(sorted(shares))}, and {analyst} has no share. Nothing "
            "was spent or drawn. Have one set with: dpkmeans ledger cap --for."
        )
    share, held = terms.cap(shares[analyst]), _held(connection, known.name, terms, analyst)
    if not share.covers(held + charged):
        raise BudgetError(
            f"{charged} is asked for, but {analyst} has spent {held} of a share of {share} in data set {known.name!r}. "
            "Nothing was spent or drawn for it. Ask for less, or have the share raised with: dpkmeans ledger cap --for."
        )


def _held(connection: sqlite3.Connection, dataset: str, terms: Terms, analyst: str) -> Loss:
    sums = {False: 0, True: 0}
    for kind, total in connection.execute(_SPENT, (dataset, analyst)):
        sums[kind.endswith(RHO)] += total
    return terms.held(sums[False], sums[True])
