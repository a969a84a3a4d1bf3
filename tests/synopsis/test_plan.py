from __future__ import annotations

import itertools

import pytest

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.box_fit import BoxFit, fit_share
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.plan import make_plan
from dpkmeans.synopsis.tree import Tree


@pytest.mark.parametrize("fit", BoxFit)
@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("recentre", [True, False])
def test_the_parts_of_every_plan_add_up_to_the_budget(epsilon, recentre, fit):
    total = Epsilon.of(epsilon)
    for n, k, d in itertools.product((1.0, 100.0, 1e4, 2.0**33), (1, 5, 1000), range(101)):
        plan = make_plan(total, n, k, d, fit=fit, recentre=recentre)
        parts = [plan.synopsis_epsilon, plan.recentre_epsilon, plan.radius_epsilon]
        assert sum((part for part in parts if part is not None), Epsilon(0)) == total
        assert plan.recentre_epsilon is None or recentre


@pytest.mark.parametrize(
    ("n", "d", "builder"),
    [
        (150, 1, Grid),
        (1e6, 3, Grid),
        (150, 4, Grid),
        (1e6, 4, Tree),
        (1e6, 15, Tree),
        (150, 10, Tree),
        (1e6, 16, Hyperplanes),
        (150, 26, Tree),
        (150, 27, Hyperplanes),
    ],
)
def test_the_features_and_the_signal_decide_which_synopsis_is_made(n, d, builder):
    assert isinstance(make_plan(Epsilon.of(1.0), n, 3, d).builder, builder)


def test_a_weak_signal_is_all_spent_on_the_synopsis():
    for d in range(1, 11):
        assert make_plan(Epsilon.of(1.0), 150.0, 3, d).recentre_epsilon is None
        assert make_plan(Epsilon.of(1.0), 30_000.0, 3, d).recentre_epsilon is not None


def test_a_grid_is_re_centred_later_with_fewer_features_where_its_counts_say_more():
    again = [make_plan(Epsilon.of(1.0), 200.0, 3, d).recentre_epsilon is not None for d in (1, 2, 3, 4)]
    assert again == [False, False, True, True]


def test_a_box_without_any_width_has_a_plan():
    assert make_plan(Epsilon.of(1.0), 30_000.0, 3, 0).recentre_epsilon is not None


@pytest.mark.parametrize("fit", BoxFit)
def test_at_most_ten_passes_are_planned_for_any_number_of_features(fit):
    """One for the number of records and one for whether the box fits come before the plan."""
    for d, n, k in itertools.product(range(1, 101), (10.0, 150.0, 300.0, 1e6), (2, 10)):
        if fit is not BoxFit.UNKNOWN and fit_share(n, k, d) is None:
            continue  # nothing is asked
        plan = make_plan(Epsilon.of(1.0), n, k, d, fit=fit)
        passes = 2 + plan.passes
        assert plan.passes == plan.builder.passes + sum(
            epsilon is not None for epsilon in (plan.recentre_epsilon, plan.radius_epsilon)
        )
        assert passes <= 10
        assert passes <= 8 or d > 15
        learned = isinstance(plan.builder, Tree) and plan.radius_epsilon is not None
        assert passes <= 5 + learned or d > 15 or (d >= 5 and fit is BoxFit.LOOSE)


def paid_for(signal, k, d):
    """Records for ε = 1, so that N·ε per cluster and feature is `signal`."""
    return signal * k * d


def test_in_a_box_that_fits_a_weak_signal_is_spent_on_counts_of_a_grid():
    k, d = 4, 7
    weak = paid_for(0.9 * settings.FEW_COUNTS_SIGNAL, k, d)
    plans = {fit: make_plan(Epsilon.of(1.0), weak, k, d, fit=fit) for fit in BoxFit}
    assert isinstance(plans[BoxFit.TIGHT].builder, Grid)
    assert plans[BoxFit.TIGHT].recentre_epsilon is None
    assert not isinstance(plans[BoxFit.UNKNOWN].builder, Grid)
    assert not isinstance(plans[BoxFit.LOOSE].builder, Grid)
    strong = paid_for(1.1 * settings.FEW_COUNTS_SIGNAL, k, d)
    assert isinstance(make_plan(Epsilon.of(1.0), strong, k, d, fit=BoxFit.TIGHT).builder, Tree)
    for k, d in ((20, 5), (20, 20), (4, 12)):  # the noise of a count is the same in any number of features
        weak, strong = (
            make_plan(Epsilon.of(1.0), settings.COUNTS_SIGNAL * k * t, k, d, fit=BoxFit.TIGHT) for t in (0.9, 1.1)
        )
        assert isinstance(weak.builder, Grid)
        assert isinstance(strong.builder, Tree)


def test_in_a_box_that_fits_a_few_clusters_are_told_apart_by_a_tree_in_any_number_of_features():
    for d in (16, 26, 27, 60, 100):
        few, many = (
            make_plan(Epsilon.of(1.0), 1000.0 * d, k, d, fit=BoxFit.TIGHT).builder
            for k in (settings.FEW_CLUSTERS, settings.FEW_CLUSTERS + 1)
        )
        assert isinstance(few, Tree)
        assert isinstance(many, Hyperplanes if d >= 27 else Tree)
        assert isinstance(make_plan(Epsilon.of(1.0), 1000.0 * d, 3, d).builder, Hyperplanes)


def test_in_a_box_that_is_too_wide_all_of_a_weak_signal_is_for_where_the_records_are():
    """N·ε between what two steps need and what a tree needs, in too many clusters for counts."""
    k, d = 20, 10
    signal = (settings.TWO_STEPS_SIGNAL + settings.ONE_MEAN_SIGNAL) / 2
    plans = {fit: make_plan(Epsilon.of(1.0), signal * d, k, d, fit=fit) for fit in BoxFit}
    assert isinstance(plans[BoxFit.LOOSE].builder, Hyperplanes)
    assert plans[BoxFit.LOOSE].recentre_epsilon is None
    assert isinstance(plans[BoxFit.UNKNOWN].builder, Tree)
    for wrong in (0.9 * settings.TWO_STEPS_SIGNAL, 1.1 * settings.ONE_MEAN_SIGNAL):
        assert isinstance(make_plan(Epsilon.of(1.0), wrong * d, k, d, fit=BoxFit.LOOSE).builder, Tree)


def test_hyperplanes_know_whether_the_box_fits():
    for fit, n in itertools.product(BoxFit, (3000.0, 30_000.0)):
        builder = make_plan(Epsilon.of(1.0), n, 20, 40, fit=fit).builder
        assert isinstance(builder, Hyperplanes)
        assert builder.tight == (fit is BoxFit.TIGHT)


def test_many_features_with_a_weak_signal_pay_for_their_means_at_once():
    weak, strong = (make_plan(Epsilon.of(1.0), n, 10, 30) for n in (1000.0, 10_000.0))
    assert weak.recentre_epsilon is None
    assert strong.recentre_epsilon is not None


def test_residuals_are_clipped_closer_on_a_grid_while_noise_outweighs_clipping():
    weak, strong, stronger = (make_plan(Epsilon.of(1.0), n, 3, 2) for n in (1000.0, 10_000.0, 1e6))
    assert weak.deviations < settings.CLIP_DEVIATIONS < strong.deviations
    assert strong.deviations < stronger.deviations
    assert strong.reach < stronger.reach


def test_on_a_tree_the_radius_is_learned_while_noise_outweighs_clipping():
    k, d = 5, 7
    limit = paid_for(settings.TREE_RADIUS_SIGNAL, k, d)
    weak, strong = (make_plan(Epsilon.of(1.0), times * limit, k, d) for times in (0.9, 1.1))
    assert isinstance(weak.builder, Tree)
    assert isinstance(strong.builder, Tree)
    assert weak.radius_epsilon is not None
    assert strong.radius_epsilon is None
    assert strong.recentre_epsilon == weak.recentre_epsilon + weak.radius_epsilon


def test_a_tree_is_re_centred_only_where_each_feature_has_enough_signal():
    few, many = (make_plan(Epsilon.of(1.0), 750.0, 3, d) for d in (6, 10))
    assert isinstance(few.builder, Tree)
    assert few.recentre_epsilon is not None
    assert isinstance(many.builder, Tree)
    assert many.recentre_epsilon is None


def test_what_is_planned_does_not_hang_on_what_a_zoom_has_cost():
    """Three features with a signal of 60, 13 % of it spent on a zoom: re-centring pays off as it does without one."""
    left = Epsilon.of(0.087)
    assert make_plan(left, 1800.0, 3, 3, zoom=Epsilon.of(0.013)).recentre_epsilon is not None
    assert make_plan(left, 1800.0, 3, 3).recentre_epsilon is None


def test_a_weak_signal_on_a_tree_leaves_a_place_for_the_mean_of_all():
    weak, strong = (make_plan(Epsilon.of(1.0), n, 10, 10).builder for n in (200.0, 400.0))
    assert (weak.spare, strong.spare) == (1, 0)


def test_leaves_are_only_counted_where_a_mean_would_be_noise():
    """The mean of 150 records in 27 features is off by 0.11 half sides at 1, by 1.1 at 0.1: the limit lies between."""
    weak, strong = (make_plan(Epsilon.of(epsilon), 150.0, 3, 27).builder for epsilon in (0.1, 1.0))
    assert (weak.offsets, isinstance(strong, Hyperplanes)) == (False, True)
    weak, strong = (make_plan(Epsilon.of(epsilon), 150.0, 10, 10).builder for epsilon in (0.1, 1.0))
    assert (weak.offsets, strong.offsets) == (False, True)
