"""The shape of a tile, and the functions on tiles of float32 that are written in LLVM: `llvm_f32`."""

from __future__ import annotations

from dpkmeans.kernels.jit import Intrinsic

LANES = 16
GROUP = 4

nearest_in_tile = Intrinsic("dpkmeans.kernels.llvm_f32", "nearest_in_tile")
two_nearest_in_tile = Intrinsic("dpkmeans.kernels.llvm_f32", "two_nearest_in_tile")
