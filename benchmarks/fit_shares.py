"""What a private fit of a Parquet file spends its CPU time on: `python benchmarks/fit_shares.py [millions of records]`.

Time of a kind is without that of other kinds called within: reading and decoding the file, packing, passes over the
packed records, mechanisms with their noise, and the rest, which is post-processing. One thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dpkmeans.core.bounds import Bounds
from dpkmeans.data.open import open_records
from dpkmeans.data.source import Source
from dpkmeans.engines import memory
from dpkmeans.engines.block_engine import BlockEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

REST = "post-processing"


class Clock:
    """CPU seconds by kind; a kind that is entered stops the one around it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    def _turn(self) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now - self._since
        self._since = now

    def timing(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, on this clock."""

        def timed(*arguments: Any, **options: Any) -> Any:
            self._turn()
            self._open.append(kind)
            try:
                return function(*arguments, **options)
            finally:
                self._turn()
                self._open.pop()

        return timed


def shares(millions: float, d: int = 10, k: int = 10) -> dict[str, float]:
    """The part of a fit's CPU time that each kind takes."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    n = int(millions * 10**6)
    X = np.clip(rng.random((k, d))[rng.integers(k, size=n)] + 0.05 * rng.standard_normal((n, d)), 0.0, 1.0)
    clock = Clock()
    places = [
        (memory.MemoryEngine, "of_source", "reading"),
        (memory, "write_batch", "packing"),
        (BlockEngine, "answer", "passes over packed records"),
        (BlockEngine, "count", "passes over packed records"),
        *((kind, "release", "noise") for kind in (mechanisms.Laplace, mechanisms.LInfLaplace)),
        *((kind, "release", "noise") for kind in (mechanisms.PermuteAndFlip, mechanisms.PrivTreeSplits)),
    ]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "records.parquet"
        parquet.write_table(pa.table({f"x{j}": X[:, j] for j in range(d)}), file)
        _fit(file, d, k)  # compiles
        for owner, name, kind in places:
            given = getattr(owner, name)
            timed = clock.timing(kind, given)
            stack.enter_context(mock.patch.object(owner, name, staticmethod(timed) if name == "of_source" else timed))
        clock.timing(REST, _fit)(file, d, k)
    total = sum(clock.seconds.values())
    return {kind: seconds / total for kind, seconds in clock.seconds.items()}


def _fit(file: Path, d: int, k: int) -> None:
    source = open_records(file).found
    assert isinstance(source, Source)
    engine = memory.MemoryEngine.of_source(source, Bounds.of((0.0, 1.0), d), n_threads=1)
    make_method("synopsis").run(engine, k, ledger=Ledger(1.0), rng=Randomness.secure())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for kind, share in sorted(shares(millions).items(), key=lambda item: -item[1]):
        print(f"| {kind} | {share:.0%} |")
