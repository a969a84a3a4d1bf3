"""Once per process and kind of query: what its code adds for one record is what the query declares.

Plain and compiled code are checked each by itself, see `kernels/jit.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpkmeans._typing import Float32Array, IntArray
from dpkmeans.core.query import Query
from dpkmeans.errors import BudgetError
from dpkmeans.kernels.jit import compiles
from dpkmeans.kernels.simd_f32 import LANES

_FAR = 2.0**30  # beyond the upper corner of every box: every offset is clipped there, so that the bounds are reached
_CHECKED: set[tuple[type, bool]] = set()


def add_checked(query: Query, tiles: Float32Array, n: int, table: IntArray) -> None:
    """Add what the query adds for these records, by code that has been checked."""
    check_corner(query, tiles.shape[1])
    query.add(tiles, n, table)
    check_corner(query, tiles.shape[1])  # again where compiled code took over from plain code in between


def check_corner(query: Query, n_features: int) -> None:
    """Refuse a query whose code adds more than it declares, or so little that no bound is reached.

    One that moves records (`moves`) before another is asked need not reach a bound: the other is checked as it is.
    """
    kind = type(query), compiles()
    if kind in _CHECKED:
        return
    tile = np.zeros((1, n_features, LANES), np.float32)
    tile[0, :, 0] = _FAR
    added: IntArray = np.zeros(query.shape, np.int64)
    query.add(tile, 1, added)
    declared, rows = query.sensitivity, np.flatnonzero(added.any(axis=1))
    sizes = [abs(entry) for entry in added[rows].ravel().tolist()]
    norms = {"l1": sum(sizes), "l2_squared": sum(size**2 for size in sizes), "linf": max(sizes, default=0)}
    bounds = {norm: bound for norm in norms if (bound := getattr(declared, norm)) is not None}
    within = all(norms[norm] <= bound for norm, bound in bounds.items()) and (len(rows) <= 1 or not declared.one_row)
    tight = getattr(query, "moves", False) or any(norms[norm] == bound for norm, bound in bounds.items())
    if declared.l2_squared is not None and declared.l1 is None:  # clipped to whole numbers in the L2 norm
        tight = tight or 8 * norms["l2_squared"] >= 7 * declared.l2_squared
    check_added(type(query).__name__, [within, tight], [True, True])
    _CHECKED.add(kind)


def check_added(name: str, found: list[Any], declared: list[Any]) -> None:
    """Refuse to go on where code adds for a corner record not what is declared."""
    if found != declared:
        raise BudgetError(
            f"the code of {name} does not add what its query declares: nothing is released. "
            "Delete the folders of compiled code (__pycache__, or NUMBA_CACHE_DIR), and install the package again."
        )
