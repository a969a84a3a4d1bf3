"""SipHash-2-4 against an implementation in plain integers, which is itself held against the paper's test vector."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.bounds import GRID
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.kernels.siphash import hash_points

KEY = bytes(range(16))
ALL = 2**64 - 1


def siphash(key: bytes, message: bytes) -> int:
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & ALL

    def mix() -> None:
        for a, b, first, second in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
            v[a] = (v[a] + v[b]) & ALL
            v[b] = rotated(v[b], first) ^ v[a]
            v[a] = rotated(v[a], second)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        mix()
        mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_plain_implementation_gives_the_papers_vector():
    assert siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5  # Aumasson and Bernstein 2012, appendix A


@pytest.mark.parametrize("d", [1, 2, 3, 4, 63, 64, 65])
@given(seed=st.integers(0, 2**32), key=st.binary(min_size=16, max_size=16))
def test_every_point_is_hashed_as_the_bytes_of_its_grid_steps(d, seed, key):
    steps = np.random.default_rng(seed).integers(0, GRID + 1, (19, d))
    steps[0], steps[1] = 0, GRID
    block = block_of_points(steps / GRID)
    expected = [siphash(key, row.astype("<u4").tobytes()) for row in steps]
    assert hash_points(block.tiles, block.n, key).tolist() == expected
