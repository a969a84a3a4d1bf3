"""The functions on tiles in double precision that are written in LLVM: `llvm_f64`."""

from __future__ import annotations

from dpkmeans.kernels.jit import Intrinsic

PARTS = 4

square_distances = Intrinsic("dpkmeans.kernels.llvm_f64", "square_distances")
add_nearest = Intrinsic("dpkmeans.kernels.llvm_f64", "add_nearest")
