"""Small worlds: in every world, and at every output, no mechanism and no question loses more than its budget."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_sensitivities import QUESTIONS

from dpkmeans.audit.losses import change_of, declared_change, exactly
from dpkmeans.audit.small_worlds import POINTS, enumerated, law_of_tree, worlds
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.core.rho import Rho
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip, PrivTreeSplits

ONE = Epsilon.of(1.0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_in_all_small_worlds_no_loss_is_above_the_budget_to_thirty_digits(epsilon: Fraction) -> None:
    found = enumerated(epsilon)
    assert [row.mechanism for row in found if not row.holds] == []
    assert {row.worlds for row in found} == {280}
    tight = {row.mechanism: float(row.largest / row.budget) for row in found}
    assert [name for name, share in tight.items() if abs(share - 1) > 1e-15] == ["PrivTreeSplits"]


def test_noise_that_is_a_hundredth_too_small_is_seen() -> None:
    too_much = [row.mechanism for row in enumerated(Fraction(101, 100)) if row.largest > Decimal(1)]
    # the proof of a tree charges a path for more than up to four records can lose on it
    assert too_much == ["Laplace", "LInfLaplace", "Gaussian", "PermuteAndFlip"]


def test_the_law_of_a_tree_is_that_of_its_draws() -> None:
    """The expected counts are exact; 4000 draws leave no tree more than 6 deviations away (false alarms below 1e-7)."""
    from dpkmeans.core.exact import Exact
    from dpkmeans.core.query import Sensitivity
    from dpkmeans.privacy.ledger import Ledger
    from dpkmeans.privacy.randomness import Randomness

    mechanism, cells = PrivTreeSplits(ONE, 3), np.array([6, 0, 5, 1], np.int64)
    scale = Fraction(mechanism.LOSSES)
    with exactly():
        law = {tree: float(p) for tree, p in law_of_tree(cells, mechanism, scale)}
    rng, seen = Randomness.with_seed(0), dict.fromkeys(law, 0)
    exact = Exact(cells[:, None], Sensitivity.of_row((1,)))
    for _ in range(4000):
        depths, prefixes = mechanism.release(exact, ledger=Ledger(), rng=rng, label="tree")
        seen[frozenset(zip(depths.tolist(), prefixes.tolist(), strict=True))] += 1
    for tree, p in law.items():
        assert abs(seen[tree] - 4000 * p) <= 6 * (4000 * p * (1 - p)) ** 0.5 + 1
    shifted = {tree: float(p) for tree, p in law_of_tree(cells + 4, mechanism, scale)}
    assert any(abs(seen[t] - 4000 * p) > 6 * (4000 * p * (1 - p)) ** 0.5 + 1 for t, p in shifted.items())


@pytest.mark.parametrize("name", QUESTIONS)
def test_in_all_small_worlds_no_question_changes_by_more_than_it_declares(name: str) -> None:
    box = Bounds.of(([0, 0], [1, 0.5]), 2)
    make, declares = QUESTIONS[name]
    question = make(np.random.default_rng(0), box)
    corners = np.array([[0.0, 0.0], [1.0, 0.5], [1.0, 0.0], [0.5, 0.25], [7.0, -3.0]])
    assert len(corners) == POINTS
    answers: dict[tuple[int, ...], Any] = {}

    def answer(records: tuple[int, ...]) -> Any:
        key = tuple(sorted(records))
        if key not in answers:
            answers[key] = question(corners[list(key)])
        return answers[key]

    kinds = {
        "l1": Laplace(ONE),
        "l2_squared": Gaussian(Rho.of(1.0)),
        "linf": LInfLaplace(ONE),
        "gap": PermuteAndFlip(ONE),
    }
    for before, after in worlds():
        a, b = answer(before), answer(after)
        assert a.sensitivity == b.sensitivity
        values = [np.atleast_1d(reveal(side, why="a test compares")) for side in (a, b)]
        for norm in declares & kinds.keys():
            mechanism = kinds[norm]
            assert change_of(mechanism, *values) <= declared_change(mechanism, a.sensitivity)
