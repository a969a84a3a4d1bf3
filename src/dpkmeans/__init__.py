"""Differentially private k-means with honest guarantees."""

from __future__ import annotations

TYPE_CHECKING = False  # typing is slow to import, and the command must take signals soon
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

_HOME = {
    "DPKMeans": "dpkmeans.estimator",
    "Ball": "dpkmeans.core.ball",
    "Bounds": "dpkmeans.core.bounds",
    **dict.fromkeys(("Boolean", "Category", "Number"), "dpkmeans.core.kinds"),
    **dict.fromkeys(("Date", "Time"), "dpkmeans.core.times"),
    "Vector": "dpkmeans.core.vectors",
    "Schema": "dpkmeans.core.schema",
    **dict.fromkeys(("Person", "Row", "Rows"), "dpkmeans.core.unit"),
    "Release": "dpkmeans.core.release",
    "Guarantee": "dpkmeans.core.guarantee",
    "Ledger": "dpkmeans.privacy.ledger",
    "Synopsis": "dpkmeans.synopsis.synopsis",
    "Transcript": "dpkmeans.methods.lu_shen.transcript",
    "make_synopsis": "dpkmeans.spend_once",
    "DurableLedger": "dpkmeans.privacy.durable.ledger",
}

__all__ = [
    "Ball",
    "Boolean",
    "Bounds",
    "Category",
    "DPKMeans",
    "Date",
    "DurableLedger",
    "Guarantee",
    "Ledger",
    "Number",
    "Person",
    "Release",
    "Row",
    "Rows",
    "Schema",
    "Synopsis",
    "Time",
    "Transcript",
    "Vector",
    "__version__",
    "make_synopsis",
]

if TYPE_CHECKING:
    from dpkmeans.core.ball import Ball
    from dpkmeans.core.bounds import Bounds
    from dpkmeans.core.guarantee import Guarantee
    from dpkmeans.core.kinds import Boolean, Category, Number
    from dpkmeans.core.release import Release
    from dpkmeans.core.schema import Schema
    from dpkmeans.core.times import Date, Time
    from dpkmeans.core.unit import Person, Row, Rows
    from dpkmeans.core.vectors import Vector
    from dpkmeans.estimator import DPKMeans
    from dpkmeans.methods.lu_shen.transcript import Transcript
    from dpkmeans.privacy.durable.ledger import DurableLedger
    from dpkmeans.privacy.ledger import Ledger
    from dpkmeans.spend_once import make_synopsis
    from dpkmeans.synopsis.synopsis import Synopsis


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import dpkmeans` stays light."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dpkmeans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
