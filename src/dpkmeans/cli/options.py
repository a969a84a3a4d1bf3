"""Options that several commands share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from dpkmeans.privacy.durable.ledger import DurableLedger

BOUNDS_HELP = (
    "Public bounds, known without looking at the data: LOW:HIGH for all features, as in 0:1, or one pair per "
    'feature, separated by commas, as in 0:10,-5:5 or -1e3:1e3,0:1. Write "from data" to read them from the '
    "records, which makes the result not private."
)

BoundsText = Annotated[str | None, Parameter(allow_leading_hyphen=True, help=BOUNDS_HELP)]
Clusters = Annotated[int, Parameter(name=["--k", "-k"])]
GuaranteeName = Literal["proved", "paper", "none"]
Header = Annotated[bool | None, Parameter(name="--header", negative="--no-header")]
Json = Annotated[bool, Parameter(show_default=False)]


NullsName = Literal["refuse", "midpoint"]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How files are read."""

    columns: str | None = None
    """Columns to use, with commas, in this order: names, or numbers from 0 if there is no header."""

    header: Header = None
    """Whether the first row of a CSV file holds names. Found out by default."""

    nulls: NullsName = "refuse"
    """What becomes of missing values: they are refused, or the middle of the bounds takes their place."""


@Parameter(name="*")
@dataclass(frozen=True)
class Spending:
    """The budget to spend from."""

    ledger: Path | None = None
    """Durable ledger from: dpkmeans ledger create. Spends are written to it before any noise is drawn."""

    dataset: str | None = None
    """Name of these records in the ledger."""

    analyst: str | None = None
    """Name to record with the spends; by default your user name."""

    def files(self) -> tuple[Path, ...]:
        """The ledger's file, if there is one: no output may replace it."""
        return () if self.ledger is None else (self.ledger,)

    def store(self) -> DurableLedger | None:
        """The durable ledger, if there is one."""
        if self.ledger is None:
            return None
        from dpkmeans.privacy.durable.ledger import DurableLedger

        return DurableLedger(self.ledger, analyst=self.analyst)


ANY, OWN = Reading(), Spending()


def all_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0))
