"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from dpkmeans.privacy.store import Store

BOUNDS_HELP = (
    "The public box, known without looking at the data: LOW:HIGH for all features, as in 0:1, or one pair per "
    'feature with commas, as in 0:10,-5:5 or -1e3:1e3,0:1. Write "from data" to read it from the records, which '
    "makes the result not private."
)

BoundsText = Annotated[str | None, Parameter(allow_leading_hyphen=True, help=BOUNDS_HELP)]
Clusters = Annotated[int, Parameter(name=["--k", "-k"])]
GuaranteeName = Literal["proved", "paper", "none"]
Header = Annotated[bool | None, Parameter(name="--header", negative="--no-header")]
Json = Annotated[bool, Parameter(show_default=False)]


def open_ledger(ledger: Path | None, analyst: str | None) -> Store | None:
    """The durable ledger of the option --ledger, if it was given."""
    if ledger is None:
        return None
    from dpkmeans.privacy.store import Store

    return Store(ledger, analyst=analyst)
