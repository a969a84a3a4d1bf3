"""SipHash-2-4, a keyed function of points or words. Aumasson and Bernstein, SipHash: a fast short-input PRF (2012).

What it gives for a point depends on the point and the key alone: not on its neighbours, the order, or who computes it.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array
from dpkmeans.core.bounds import GRID
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES


def hash_points(tiles: Float32Array, n: int, key: bytes) -> AnyArray:
    """SipHash-2-4 of the first `n` points of the tiles under a key of 16 bytes, shape (n,), uint64.

    The message is the point's coordinates in whole grid steps, as little-endian 32-bit integers.
    """
    hashes = np.empty(n, np.uint64)
    _hash_points(tiles, float(GRID), np.frombuffer(key, "<u8").astype(np.uint64), hashes)
    return hashes


def hash_words(words: AnyArray, key: bytes) -> AnyArray:
    """SipHash-2-4 of each row of 64-bit words, shape (n, w) -> (n,), uint64, under a key of 16 bytes."""
    hashes = np.empty(len(words), np.uint64)
    _hash_words(np.ascontiguousarray(words, np.uint64), np.frombuffer(key, "<u8").astype(np.uint64), hashes)
    return hashes


@compiled
def _hash_words(words: AnyArray, key: AnyArray, hashes: AnyArray) -> None:
    n_words = words.shape[1]
    v = np.empty(4, np.uint64)
    for i in range(len(hashes)):
        _begin(v, key)
        for j in range(n_words + 1):
            word = words[i, j] if j < n_words else np.uint64(8 * n_words % 256) << np.uint64(56)
            _take_in(v, word)
        hashes[i] = _end(v)


@compiled
def _hash_points(tiles: Float32Array, grid: float, key: AnyArray, hashes: AnyArray) -> None:
    d = tiles.shape[1]
    length = np.uint64(4 * d % 256) << np.uint64(56)
    v = np.empty(4, np.uint64)
    for i in range(len(hashes)):
        _begin(v, key)
        for first in range(0, d + 1, 2):
            word = length if first + 2 > d else np.uint64(0)  # the last word holds the length, and a coordinate at most
            for j in range(first, min(first + 2, d)):
                steps = np.uint64(np.rint(np.float64(tiles[i // LANES, j, i % LANES]) * grid))
                word |= steps << np.uint64(32 * (j - first))
            _take_in(v, word)
        hashes[i] = _end(v)


@compiled
def _begin(v: AnyArray, key: AnyArray) -> None:
    v[0], v[1] = key[0] ^ np.uint64(0x736F6D6570736575), key[1] ^ np.uint64(0x646F72616E646F6D)
    v[2], v[3] = key[0] ^ np.uint64(0x6C7967656E657261), key[1] ^ np.uint64(0x7465646279746573)


@compiled
def _take_in(v: AnyArray, word: np.uint64) -> None:
    v[3] ^= word
    _mix(v, 2)
    v[0] ^= word


@compiled
def _end(v: AnyArray) -> np.uint64:
    v[2] ^= np.uint64(0xFF)
    _mix(v, 4)
    found: np.uint64 = v[0] ^ v[1] ^ v[2] ^ v[3]
    return found


@compiled
def _mix(v: AnyArray, rounds: int) -> None:
    for _ in range(rounds):
        v[0] += v[1]
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] += v[3]
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


@compiled
def _rotate(x: np.uint64, by: int) -> np.uint64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))
