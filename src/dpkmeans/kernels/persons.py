"""From the rows of persons to the records that count: what is kept of a person depends on that person's rows alone.

Rows come as ids, shape (n, 2), uint64, and grid points in whole steps, shape (n, d), int32. Nothing depends on the
order of the rows: they are put in a canonical one, by keyed hashes of persons and of rows. Proof: proofs/persons.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.kernels.siphash import hash_words


@dataclass(frozen=True, eq=False, repr=False)
class Grouped:
    """Rows in canonical order, those of a person together; person i has rows `starts[i]` to `starts[i + 1]`."""

    ids: AnyArray
    steps: AnyArray
    hashes: AnyArray
    starts: IntArray
    key: bytes

    @property
    def sizes(self) -> IntArray:
        """How many rows each person has, shape (persons,)."""
        return np.diff(self.starts)

    def at_most(self, m: int) -> AnyArray:
        """Up to `m` rows of each person, chosen evenly at random by the key, in canonical order, shape (kept, d)."""
        sizes = self.sizes
        person = np.repeat(np.arange(len(sizes)), sizes)
        contested = np.flatnonzero(sizes[person] > m)
        kept = np.ones(len(person), bool)
        if contested.size:
            ranks = self._ranks(contested)
            order = np.lexsort((ranks, person[contested]))  # stable: equal ranks stay in canonical order
            persons = person[contested]  # sorted, so it stays itself in that order
            first = np.flatnonzero(np.r_[True, persons[1:] != persons[:-1]])
            place = np.arange(len(persons)) - np.repeat(first, np.diff(np.r_[first, len(persons)]))
            kept[contested[order[place >= m]]] = False
        rows: AnyArray = self.steps[kept]
        return rows

    def means(self) -> AnyArray:
        """The mean of each person's rows, in whole steps, halves rounded up, shape (persons, d). Exact integers."""
        sums = np.add.reduceat(self.steps, self.starts[:-1], axis=0, dtype=np.int64)
        sizes = self.sizes[:, None]
        rounded: AnyArray = ((2 * sums + sizes) // (2 * sizes)).astype(np.int32)
        return rounded

    def _ranks(self, rows: IntArray) -> AnyArray:
        """A keyed hash of id, point and the number of the copy among equal rows of the person: a place in a lottery."""
        ids, steps, hashes = self.ids[rows], self.steps[rows], self.hashes[rows]
        same = (hashes[1:] == hashes[:-1]) & (ids[1:] == ids[:-1]).all(1) & (steps[1:] == steps[:-1]).all(1)
        first = np.flatnonzero(np.r_[True, ~same])
        copy = np.arange(len(rows)) - np.repeat(first, np.diff(np.r_[first, len(rows)]))
        ranks = hashes.copy()
        again = np.flatnonzero(copy)
        ranks[again] = hash_words(_words(ids[again], steps[again], copy[again]), self.key)
        return ranks


def group(ids: AnyArray, steps: AnyArray, key: bytes, alone: tuple[int, int]) -> Grouped:
    """Rows by person. Rows with the id `alone` are persons of their own."""
    own = (ids == np.array(alone, np.uint64)).all(1)
    hashes = hash_words(_words(ids, steps, np.zeros(len(ids), np.int64)), key)
    by_person = person_hashes(ids, steps, key, alone)
    order = np.lexsort((hashes, by_person))
    ids, steps, hashes, own, by_person = ids[order], steps[order], hashes[order], own[order], by_person[order]
    equal = (by_person[1:] == by_person[:-1]) & (hashes[1:] == hashes[:-1])
    differ = (ids[1:] != ids[:-1]).any(1)
    collide = (by_person[1:] == by_person[:-1]) & differ
    if collide.any() or (equal & (steps[1:] != steps[:-1]).any(1)).any():  # hashes of 64 bits met: look at all
        columns = (*steps.T[::-1], hashes, *ids.T[::-1], by_person)
        order = np.lexsort(columns)
        ids, steps, hashes, own, by_person = ids[order], steps[order], hashes[order], own[order], by_person[order]
        differ = (ids[1:] != ids[:-1]).any(1)
    starts = np.flatnonzero(np.r_[True, differ | own[1:] | own[:-1]]) if len(ids) else np.empty(0, np.int64)
    return Grouped(ids, steps, hashes, np.r_[starts, len(ids)], key)


def person_hashes(ids: AnyArray, steps: AnyArray, key: bytes, alone: tuple[int, int]) -> AnyArray:
    """A keyed hash of each row's person, shape (n,), uint64: of the id, or of the whole row where it has none."""
    found = hash_words(ids, key)
    own = np.flatnonzero((ids == np.array(alone, np.uint64)).all(1))
    if own.size:
        found[own] = hash_words(_words(ids[own], steps[own], np.zeros(len(own), np.int64)), key)
    return found


def _words(ids: AnyArray, steps: AnyArray, copy: IntArray) -> AnyArray:
    """Id, number of the copy and grid point of each row as 64-bit words, two coordinates in a word."""
    n, d = steps.shape
    words = np.zeros((n, 3 + (d + 1) // 2), np.uint64)
    words[:, :2] = ids
    words[:, 2] = copy
    words[:, 3:] |= steps[:, ::2].astype(np.uint64)
    words[:, 3 : 3 + d // 2] |= steps[:, 1::2].astype(np.uint64) << np.uint64(32)
    return words
