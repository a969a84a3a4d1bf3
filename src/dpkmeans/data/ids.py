"""Ids of persons as four whole numbers of 32 bits each, so that they travel wherever columns of numbers do.

Each id is looked at by itself: `1`, `1.0`, `"1"` and `"1.0"` are one person, whatever type the column was given.
Whole numbers of 64 bits are taken as they are; other texts by a keyed digest of 127 bits. Proof: proofs/persons.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from math import isfinite
from typing import Any, ClassVar
from uuid import UUID

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.errors import DataError, DataTypeError

WORDS = 4
MISSING = (1, 0)
"""Stands for an id that is missing: whole numbers have 0 in the first half, digests have its highest bit set."""

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0*)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGEST = 1 << 63
_MAX_FLOAT = 2**53  # from here on, a float may stand for several whole numbers
ID_KINDS = "Ids are texts, whole numbers or UUIDs."


@dataclass(frozen=True)
class PersonId:
    """The kind of the column with the ids: four coordinates behind the features, which no method sees."""

    key: bytes = field(repr=False)
    refuse_missing: bool = True
    missing: ClassVar[None] = None
    name: ClassVar[str] = "id"
    weight: ClassVar[float] = 1.0

    def coordinates(self, column: str) -> tuple[str, ...]:
        return tuple(f"{column} (id, part {part})" for part in range(WORDS))

    def sides(self) -> None:
        return None

    def fill(self) -> None:
        return None

    def readable(self, values: Sequence[float]) -> None:
        """Nothing: an id is never released."""

    def options(self) -> dict[str, Any]:
        return {}


def split_words(ids: AnyArray) -> list[FloatArray]:
    """Ids, shape (n, 2), uint64, as four columns of whole numbers below 2^32."""
    low = np.uint64(0xFFFFFFFF)
    halves = [part for half in ids.T for part in (half >> np.uint64(32), half & low)]
    return [half.astype(np.float64) for half in halves]


def join_words(columns: Sequence[AnyArray] | AnyArray) -> AnyArray:
    """The inverse of `split_words`."""
    parts = [np.asarray(column).astype(np.uint64) for column in columns]
    return np.stack([(parts[j] << np.uint64(32)) | parts[j + 1] for j in (0, 2)], axis=1)


def check_missing(ids: AnyArray, kind: PersonId, place: str) -> AnyArray:
    """The ids, unless some are missing and that is refused."""
    if kind.refuse_missing and (ids == np.array(MISSING, np.uint64)).all(axis=1).any():
        raise DataError(
            f"{place} has rows without an id.",
            hint="Drop those rows; or let each count as a person of its own with {missing_ids='own'}.",
        )
    return ids


def ids_of_integers(values: IntArray, missing: AnyArray | None = None) -> AnyArray:
    """Whole numbers of 64 bits as ids, shape (n, 2)."""
    ids = np.zeros((len(values), 2), np.uint64)
    ids[:, 1] = values.astype(np.int64).view(np.uint64)
    if missing is not None:
        ids[missing] = MISSING
    return ids


def ids_of_values(codes: IntArray, values: Sequence[Any], missing: Sequence[bool], key: bytes, place: str) -> AnyArray:
    """Ids of records whose value is number `codes` among `values`, -1 where it is missing, shape (n, 2)."""
    table = np.empty((len(values) + 1, 2), np.uint64)  # the last one is for the code -1
    table[-1] = MISSING
    for i, value in enumerate(values):
        table[i] = MISSING if missing[i] else _id_of(value, key, place)
    found: AnyArray = table[codes]
    return found


def _id_of(value: Any, key: bytes, place: str) -> tuple[int, int]:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float | Decimal):
        value = _whole(value, place)
    if isinstance(value, bytes) and len(value) == 16:
        value = UUID(bytes=value)
    if isinstance(value, str):
        text = value.strip()
        found = _WHOLE.fullmatch(text)
        value = int(found[1]) if found and len(text) < 30 else text.lower() if _UUID.fullmatch(text) else text
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise DataTypeError(f"{place} holds values that cannot be ids.", hint=ID_KINDS)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return 0, value % 2**64
    digest = blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=16, key=key).digest()
    return int.from_bytes(digest[:8], "little") | _DIGEST, int.from_bytes(digest[8:], "little")


def _whole(value: float | Decimal, place: str) -> int:
    exact = not isinstance(value, float) or abs(value) < _MAX_FLOAT
    if not exact or not isfinite(value) or value != int(value):
        raise DataTypeError(f"{place} holds numbers with a fraction, or too long for their type.", hint=ID_KINDS)
    return int(value)
