"""`Identity`: which release this is, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans.core.privacy import Privacy


@dataclass(frozen=True)
class Signature:
    """An Ed25519 signature of the digest of a release, and the public `key` that checks it, both in hexadecimal.

    That the key belongs to whom one thinks is not said here: compare it with one that came another way.
    """

    key: str
    value: str


@dataclass(frozen=True)
class Identity:
    """What tells a release from all others. The unit and the neighbours are in its guarantee.

    | field | |
    | --- | --- |
    | `digest` | SHA-256 of everything in the release but the signature, in hexadecimal; the ledger has it too |
    | `version` | the version of dpkmeans that made it |
    | `schema` | the version of its file format |
    | `time` | when it was made, in UTC; None where it is the same whenever it is made |
    | `dataset`, `fit` | the names of the data set and of the fit in a durable ledger; None without one |
    | `head` | the head of that ledger's chain at that moment: a copy of the ledger without it is older |
    | `cap` | of all that may ever be spent on the data set, as the ledger had it then; None without one |
    | `signature` | None where nobody signed it |
    | `made_from` | the digest of the synopsis that it was computed from, whose data set, fit and head are then named |

    Guarantee: that of the release. Nothing here comes from the records.
    """

    digest: str
    version: str
    schema: int
    time: str | None = None
    dataset: str | None = None
    fit: str | None = None
    head: str | None = None
    signature: Signature | None = None
    made_from: str | None = None
    cap: Privacy | None = None
