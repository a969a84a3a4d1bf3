"""From the rows of persons to the records that count: what is kept of a person depends on that person's rows alone.

Rows come as ids, shape (n, 2), uint64, and grid points in whole steps, shape (n, d), int32. Nothing depends on the
order of the rows: they are put in a canonical one, by keyed hashes of persons and of rows. The rows of a person may
come in parts, if equal rows are in the same part. Proof: proofs/persons.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.kernels.siphash import hash_words

AT_ONCE = 2**23  # 64-bit words of copies of rows that are ranked at once: 64 MB


@dataclass(frozen=True, eq=False, repr=False)
class Grouped:
    """Different rows in canonical order, those of a person together; person i has rows `starts[i]` to `starts[i + 1]`.

    `counts` says how often each row occurs, and `copies`, shape (n,), which copy of it this is: the first of a run of
    `counts` copies. `hashes` are those of persons. Rows that are `own` have no id: each copy is a person.
    """

    ids: AnyArray
    steps: AnyArray
    copies: IntArray
    counts: IntArray
    hashes: AnyArray
    own: AnyArray
    starts: IntArray
    key: bytes

    def records(self) -> AnyArray:
        """All rows, each as often as it occurs, shape (rows, d)."""
        rows: AnyArray = self.steps if (self.counts == 1).all() else np.repeat(self.steps, self.counts, axis=0)
        return rows

    def at_most(self, m: int) -> AnyArray:
        """Up to `m` rows of each person, chosen evenly at random by the key, in canonical order, shape (kept, d)."""
        return at_most([self], m)

    def means(self) -> AnyArray:
        """The mean of each person's rows, in whole steps, halves rounded up, shape (persons, d). Exact integers."""
        return self.sums().means()

    def sums(self) -> Sums:
        """Number and sum of each person's rows."""
        first, own = self.starts[:-1], self.own[self.starts[:-1]]
        weights = np.where(self.own, 1, self.counts)
        sums = np.add.reduceat(self.steps * weights[:, None], first, axis=0, dtype=np.int64)
        times = np.where(own, self.counts[first], 1)
        return Sums(self.hashes[first], self.ids[first], sums, np.add.reduceat(weights, first), times, own)

    def first(self, m: int) -> Grouped:
        """The `m` copies of each person that come first in a lottery: the same as a value, in canonical order."""
        sizes = np.add.reduceat(self.counts, self.starts[:-1]) if len(self.ids) else np.empty(0, np.int64)
        person = np.repeat(np.arange(len(sizes)), np.diff(self.starts))
        contested = (sizes[person] > m) & ~self.own
        if not contested.any():
            return self
        rest = np.flatnonzero(~contested)
        rows, copies = self._drawn(np.flatnonzero(contested), person, m)
        counts = np.concatenate([self.counts[rest], np.ones(len(rows), np.int64)])
        rows, copies = np.concatenate([rest, rows]), np.concatenate([self.copies[rest], copies])
        order = np.lexsort((copies, rows))
        rows = rows[order]
        parts = self.ids[rows], self.steps[rows], copies[order], counts[order], self.hashes[rows], self.own[rows]
        return Grouped(*parts, _starts(self.ids[rows], self.own[rows]), self.key)

    def _drawn(self, rows: IntArray, person: IntArray, m: int) -> tuple[IntArray, IntArray]:
        """The `m` copies of each person with the lowest ranks, among those of `rows`: rows, and numbers of copies."""
        ends = np.cumsum(self.counts[rows])
        at_once = max(AT_ONCE // (4 + self.steps.shape[1] // 2), 1)
        lots = []
        for start in range(0, int(ends[-1]), at_once):
            numbers = np.arange(start, min(start + at_once, int(ends[-1])))
            place = np.searchsorted(ends, numbers, side="right")
            row = rows[place]
            copy = self.copies[row] + numbers - (ends[place] - self.counts[row])
            ranks = hash_words(_words(self.ids[row], self.steps[row], copy), self.key)
            lots.append(_lowest(row, copy, ranks, person, m))
        row, copy, ranks = (np.concatenate(parts) for parts in zip(*lots, strict=True))
        row, copy, _ = _lowest(row, copy, ranks, person, m)
        return row, copy


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """How many rows each person has, and their sum, shape (persons, d), int64. Parts of a person's rows add up.

    Where `own`, a person is a row without an id, and `times` such persons have this same row.
    """

    hashes: AnyArray
    ids: AnyArray
    sums: IntArray
    sizes: IntArray
    times: IntArray
    own: AnyArray

    @classmethod
    def joined(cls, parts: Iterable[Sums]) -> Sums:
        """The persons of all parts, in canonical order."""
        held = list(parts)
        if len(held) == 1:
            return held[0]
        fields = ("hashes", "ids", "sums", "sizes", "times", "own")
        hashes, ids, sums, sizes, times, own = (np.concatenate([getattr(one, name) for one in held]) for name in fields)
        order = np.lexsort((*sums.T[::-1], *ids.T[::-1], hashes))
        hashes, ids, sums, sizes, times, own = (x[order] for x in (hashes, ids, sums, sizes, times, own))
        first = _starts(ids, own)[:-1]
        added = np.add.reduceat(sums, first, axis=0), np.add.reduceat(sizes, first)
        return cls(hashes[first], ids[first], *added, times[first], own[first])

    def means(self) -> AnyArray:
        """The mean of each person's rows, in whole steps, halves rounded up, shape (persons, d). Exact integers."""
        sizes = self.sizes[:, None]
        rounded = ((2 * self.sums + sizes) // (2 * sizes)).astype(np.int32)
        return np.repeat(rounded, self.times, axis=0)

    def histogram(self, last: int) -> IntArray:
        """How many persons have 0, 1, 2, … rows, and `last` or more, shape (last + 1,)."""
        sizes = np.minimum(self.sizes, last)
        return np.bincount(np.repeat(sizes, self.times), minlength=last + 1).astype(np.int64)


def at_most(parts: Iterable[Grouped], m: int) -> AnyArray:
    """Up to `m` rows of each person of all parts, chosen evenly at random by the key, in canonical order.

    The first `m` of all are among the first `m` of each part.
    """
    held = [part.first(m) for part in parts]
    return (held[0] if len(held) == 1 else _joined(held).first(m)).records()


def _lowest(
    row: IntArray, copy: IntArray, ranks: AnyArray, person: IntArray, m: int
) -> tuple[IntArray, IntArray, AnyArray]:
    """Of copies of rows, shape (n,) each, those with the `m` lowest ranks of each person; `person` is that of a row."""
    order = np.lexsort((copy, row, ranks, person[row]))  # equal ranks in canonical order
    persons = person[row[order]]
    first = np.flatnonzero(np.r_[True, persons[1:] != persons[:-1]])
    place = np.arange(len(persons)) - np.repeat(first, np.diff(np.r_[first, len(persons)]))
    lowest = order[place < m]
    return row[lowest], copy[lowest], ranks[lowest]


def group(
    ids: AnyArray, steps: AnyArray, key: bytes, alone: tuple[int, int], counts: IntArray | None = None
) -> Grouped:
    """Rows by person, equal ones as one, where row i stands for `counts[i]`. Rows with the id `alone` are persons."""
    counts = np.ones(len(ids), np.int64) if counts is None else counts
    found = _canonical(ids, steps, np.zeros(len(ids), np.int64), counts, key, (ids == _pair(alone)).all(1))
    same = (found.ids[1:] == found.ids[:-1]).all(1) & (found.steps[1:] == found.steps[:-1]).all(1)
    if not same.any():
        return found
    first = np.flatnonzero(np.r_[True, ~same])
    parts = found.ids[first], found.steps[first], found.copies[first], np.add.reduceat(found.counts, first)
    own = found.own[first]
    return Grouped(*parts, found.hashes[first], own, _starts(parts[0], own), key)


def more_of(grouped: Grouped | None, ids: AnyArray, steps: AnyArray, key: bytes, alone: tuple[int, int]) -> Grouped:
    """The rows of a group, and more rows."""
    if grouped is None:
        return group(ids, steps, key, alone)
    counts = np.concatenate([grouped.counts, np.ones(len(ids), np.int64)])
    return group(np.concatenate([grouped.ids, ids]), np.concatenate([grouped.steps, steps]), key, alone, counts)


def row_hashes(ids: AnyArray, steps: AnyArray, key: bytes) -> AnyArray:
    """A keyed hash of each row, shape (n,), uint64."""
    return hash_words(_words(ids, steps, np.zeros(len(ids), np.int64)), key)


def person_hashes(ids: AnyArray, steps: AnyArray, key: bytes, alone: tuple[int, int]) -> AnyArray:
    """A keyed hash of each row's person, shape (n,), uint64: of the id, or of the whole row where it has none."""
    return _person_hashes(ids, steps, key, (ids == _pair(alone)).all(1))


def _person_hashes(ids: AnyArray, steps: AnyArray, key: bytes, own: AnyArray) -> AnyArray:
    found, alone = hash_words(ids, key), np.flatnonzero(own)
    if alone.size:
        found[alone] = row_hashes(ids[alone], steps[alone], key)
    return found


def _joined(parts: Sequence[Grouped]) -> Grouped:
    names = ("ids", "steps", "copies", "counts", "own")
    ids, steps, copies, counts, own = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _canonical(ids, steps, copies, counts, parts[0].key, own)


def _canonical(
    ids: AnyArray, steps: AnyArray, copies: IntArray, counts: IntArray, key: bytes, own: AnyArray
) -> Grouped:
    """The rows in the order of the hash of the person, then that of the row, then the row itself, then its copies."""
    hashes, by_row = _person_hashes(ids, steps, key, own), row_hashes(ids, steps, key)
    columns = ids, steps, copies, counts, hashes, own, by_row
    order = np.lexsort((copies, by_row, hashes))
    ids, steps, copies, counts, hashes, own, by_row = (x[order] for x in columns)
    together = hashes[1:] == hashes[:-1]
    alike = by_row[1:] == by_row[:-1]
    if (together & ((ids[1:] != ids[:-1]).any(1) | (alike & (steps[1:] != steps[:-1]).any(1)))).any():
        order = np.lexsort((copies, *steps.T[::-1], by_row, *ids.T[::-1], hashes))  # hashes of 64 bits met: look at all
        ids, steps, copies, counts, hashes, own = (x[order] for x in (ids, steps, copies, counts, hashes, own))
    return Grouped(ids, steps, copies, counts, hashes, own, _starts(ids, own), key)


def _starts(ids: AnyArray, own: AnyArray) -> IntArray:
    """Where each person begins among rows that lie together by person, and the end, shape (persons + 1,)."""
    if not len(ids):
        return np.zeros(1, np.int64)
    begins = np.r_[True, (ids[1:] != ids[:-1]).any(1) | own[1:] | own[:-1]]
    starts: IntArray = np.r_[np.flatnonzero(begins), len(ids)]
    return starts


def _pair(alone: tuple[int, int]) -> AnyArray:
    return np.array(alone, np.uint64)


def _words(ids: AnyArray, steps: AnyArray, copy: IntArray) -> AnyArray:
    """Id, number of the copy and grid point of each row as 64-bit words, two coordinates in a word."""
    n, d = steps.shape
    words = np.zeros((n, 3 + (d + 1) // 2), np.uint64)
    words[:, :2] = ids
    words[:, 2] = copy
    words[:, 3:] |= steps[:, ::2].astype(np.uint64)
    words[:, 3 : 3 + d // 2] |= steps[:, 1::2].astype(np.uint64) << np.uint64(32)
    return words
