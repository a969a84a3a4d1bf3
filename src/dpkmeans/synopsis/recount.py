"""The number of records once more, where noise may be why it seems too small for a zoom. Proof: proofs/record_count.md.

A loose box in which nothing is looked for costs several times what a second count does.
"""

from __future__ import annotations

from dataclasses import replace

from dpkmeans.core.engine import Engine
from dpkmeans.core.units import share_of
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.weighted_points import NoisyTotal
from dpkmeans.synopsis.zoom import Budget, price_of_halving


def recount(
    engine: Engine, total: NoisyTotal, budget: Budget, n_wide: int, *, ledger: Ledger, rng: Randomness
) -> NoisyTotal:
    """The total, or a better one of both counts, weighted by their precision; a share of what `budget` has is spent."""
    many = replace(budget, n=budget.n + settings.RECOUNT_DOUBT * budget.deviation, deviation=0.0)
    may_change = n_wide == settings.RECOUNT_FEATURES and price_of_halving(budget, n_wide) <= 0 < price_of_halving(
        many, n_wide
    )
    if not may_change or share_of(budget.epsilon.nano, settings.RECOUNT_SHARE) == 0:
        return total
    epsilon = budget.epsilon.share(settings.RECOUNT_SHARE)
    noisy = int(Laplace(epsilon).release(engine.count(), ledger=ledger, rng=rng, label="number of records, again"))
    second = NoisyTotal.released(noisy, epsilon)
    precision = 1 / total.variance + 1 / second.variance
    mean = (total.value / total.variance + second.value / second.variance) / precision
    return NoisyTotal(min(max(mean, 1.0), float(MAX_RECORDS)), 1 / precision)
