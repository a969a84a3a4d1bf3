"""How every kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])
MARKS = (b"@compiled\n", b"intrinsic")  # in every file that holds a kernel or a constant of one


def _content_of_kernels() -> str:
    """A digest of all files with kernels. Numba keeps constants and callees of other files as they were compiled."""
    digest = sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        content = path.read_bytes()
        if any(mark in content for mark in MARKS):
            digest.update(sha256(content).digest())
    return digest.hexdigest()[:16]


CONTENT = _content_of_kernels()


def compiled(function: F) -> F:
    """Compile on first use, cached on disk, or without a cache where no folder for it can be written.

    The name in the cache holds the content of all kernels: where any of them changes, all are compiled again.
    """
    function.__qualname__ = f"{function.__qualname__}_{CONTENT}"
    try:
        return cast(F, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))
