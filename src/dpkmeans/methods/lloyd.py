"""Lloyd's algorithm: the yardstick."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from dpkmeans.core.engine import Engine
from dpkmeans.core.exact import reveal
from dpkmeans.core.release import Release
from dpkmeans.errors import NotConvergedWarning
from dpkmeans.methods.base import Claim, make_release
from dpkmeans.methods.loop.initializers import Start, as_start
from dpkmeans.methods.loop.stopping import check_max_iter
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class Lloyd:
    """Exact means until the assignment repeats. Not private. Engines run it in one go, as fast as they can."""

    start: Start
    max_iter: int
    name: str = "lloyd"

    def offers(self) -> Claim:
        """Nothing."""
        return Claim.NONE

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Run from the start to the fixed point."""
        first = self.start.centroids(engine, n_clusters, rng.generator)
        end = reveal(engine.lloyd(first, self.max_iter), why="Lloyd's algorithm is not private")
        if not end.stopped:
            warnings.warn(
                NotConvergedWarning(
                    "lloyd was ended by max_iter before its assignment repeated;", hint="raise {max_iter}."
                ),
                stacklevel=3,
            )
        return make_release(
            self,
            engine,
            end.centroids,
            ledger=ledger,
            rng=rng,
            n_passes=end.moves,
            n_iter=end.moves,
            converged=end.stopped,
            parameters={"max_iter": self.max_iter},
        )


def lloyd(*, init: Any = "rows", max_iter: int = 300) -> Lloyd:
    """Lloyd's k-means, not private. Stops when an assignment repeats."""
    return Lloyd(as_start(init), check_max_iter(max_iter))
