"""The interactive setting: parties that draw from published zones, ε by step and cluster, other scores and offsets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.kernels.zones import largest_angle, sample_pair
from dpkmeans.methods.lu_shen.laws import PAPER_SCORE, Laws, Offset, Score, paper_score
from dpkmeans.methods.lu_shen.strategies import posterior, prior
from dpkmeans.methods.lu_shen.transcript import Transcript
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

BOX = Bounds.of(((0, -5), (1, 5)), 2)


@pytest.fixture(scope="module")
def engine():
    rng = np.random.default_rng(5)
    return MemoryEngine.of_records(rng.random((400, 2)) * [1, 10] - [0, 5], BOX, n_threads=1)


def run(method, engine, k=3, epsilon=None, seed=0):
    ledger = Ledger() if epsilon is None else Ledger(epsilon)
    return method.run(engine, k, ledger=ledger, rng=Randomness.with_seed(seed))


def inside(place: np.ndarray, zone: PublishedZone, box: Bounds) -> bool:
    apart = np.linalg.norm(box.unit_of(place) - box.unit_of(np.array(zone.center)))
    return bool(apart <= zone.radius / box.longest_side + 1e-9)


@pytest.mark.parametrize("name", ["synopsis-posterior", "synopsis-prior"])
def test_every_party_draws_its_own_centroids_inside_the_zones_of_a_synopsis(engine, name):
    release = run(make_method(name), engine, epsilon=1.0)
    assert release.guarantee.label != "paper"
    again = Release.from_dict(release.to_dict())
    transcript = Transcript.of(again)
    parties = [transcript.draw(np.random.default_rng(party)) for party in range(3)]
    assert not np.array_equal(parties[0], parties[1])
    for drawn in parties:
        assert drawn.shape == (transcript.n_steps, 3, 2)
        assert all(inside(drawn[zone.iteration - 1, zone.cluster], zone, BOX) for zone in release.transcript)


def test_a_party_draws_by_the_law_that_the_curator_draws_by():
    """δ and α of 4000 draws against the kernel's: two Kolmogorov-Smirnov tests at 1e-10, and a wrong ε is seen."""
    n, offset, epsilon = 4000, 0.55, 40.0
    zone = PublishedZone(1, 0, (0.5 + 0.2 * offset, 0.0), 0.2 * (1 - offset), PAPER_SCORE.name, epsilon, None, (0.5, 0))
    transcript = Transcript((zone,), Bounds.of((0, 1), 2))
    rng = np.random.default_rng(1)
    drawn = np.array([transcript.draw(rng)[0, 0] for _ in range(n)]) - [0.5, 0.0]
    ratio, angle = np.hypot(*drawn.T) / 0.2, np.abs(np.arctan2(drawn[:, 1], drawn[:, 0]))
    for law, fits in ((epsilon, True), (epsilon / 3, False)):
        ours = sample_pair(np.full(n, offset), law, np.random.default_rng(2), False)
        p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip((ratio, angle), ours, strict=True)]
        assert bool(min(p_values) > 1e-10) is fits


def test_the_papers_score_given_as_a_function_has_the_law_of_the_kernel():
    """Rejection against the closed form: two Kolmogorov-Smirnov tests at 1e-10, and a wrong sensitivity is seen."""
    offset, epsilon, n = 0.6, 30.0, 1500
    ours = sample_pair(np.full(n, offset), epsilon, np.random.default_rng(3), False)
    for sensitivity, fits in ((2.0, True), (6.0, False)):
        score, rng = Score(paper_score, sensitivity=sensitivity), np.random.default_rng(4)
        pairs = np.array([score.draw(offset, epsilon, rng, flat=False) for _ in range(n)]).T
        p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(pairs, ours, strict=True)]
        assert bool(min(p_values) > 1e-10) is fits


def test_zones_of_records_cannot_be_drawn_from_unless_their_means_are_published(engine):
    with pytest.raises(MethodError, match="do not carry it"):
        Transcript.of(run(posterior(), engine))
    told = run(posterior(publish_means=True), engine)
    assert told.guarantee.label == "none"
    assert posterior(publish_means=True).claim.label == "none"
    assert posterior().claim.label == "paper"
    drawn = Transcript.of(told).draw(np.random.default_rng(0))
    assert all(inside(drawn[zone.iteration - 1, zone.cluster], zone, BOX) for zone in told.transcript)
    assert all("mean" not in line for line in run(posterior(), engine).to_dict()["transcript"])


def test_a_transcript_without_zones_or_with_another_score_is_refused(engine):
    with pytest.raises(MethodError, match="has no zones"):
        Transcript.of(run(make_method("lloyd"), engine))
    release = run(prior(publish_means=True), engine)
    with pytest.raises(MethodError, match="were published with the score"):
        Transcript.of(release, Score(lambda ratio, angle: 1 - ratio, 1.0, 1.0, "1 - delta"))


def test_epsilons_by_step_and_cluster_are_recorded_and_published(engine):
    table = [[0.1, 0.2, 0.3], 0.5, [0.4, 0.1, 0.1]]
    release = run(posterior(step_epsilon=table), engine)
    steps = {spend.label: spend for spend in release.spends}
    assert [float(part) for part in steps["step 1: zones"].parts] == [0.1, 0.2, 0.3]
    assert [float(part) for part in steps["step 2: zones"].parts] == [0.5, 0.5, 0.5]
    assert [float(part) for part in steps[f"step {release.n_iter}: zones"].parts] == [0.4, 0.1, 0.1]
    assert release.epsilon_spent == pytest.approx(0.1 + 0.3 + 0.5 + 0.4 * (release.n_iter - 2))  # Theorem 5
    published = [zone.step_epsilon for zone in release.transcript if zone.iteration == 1]
    assert published == [0.1, 0.2, 0.3]
    assert Release.from_dict(release.to_dict()).parameters["step_epsilon"] == [[0.1, 0.2, 0.3], [0.5], [0.4, 0.1, 0.1]]


def test_a_table_of_equal_epsilons_is_the_run_with_one_epsilon(engine):
    table, one = run(prior(step_epsilon=[0.1]), engine), run(prior(step_epsilon=0.1), engine)
    np.testing.assert_array_equal(table.centroids, one.centroids)
    assert table.transcript == one.transcript


@pytest.mark.parametrize("table", [[], [[]], [[0.1, 0.2]], [0.0], [[0.1, -1, 0.1]]])
def test_a_table_that_does_not_fit_is_refused_before_anything_is_spent(engine, table):
    ledger = Ledger()
    with pytest.raises((MethodError, BudgetError)):
        posterior(step_epsilon=table).run(engine, 3, ledger=ledger, rng=Randomness.with_seed(0))
    assert not ledger.spends


@pytest.mark.parametrize("factory", [posterior, prior])
def test_another_score_and_another_offset_still_draw_inside_the_zones(engine, factory):
    score = Score(lambda ratio, angle: -(ratio**2), sensitivity=1.0, highest=0.0, name="-delta^2")
    release = run(factory(laws=Laws(score, Offset(lambda u: 0.5 + (1 + u) / 5)), publish_centroids=True), engine)
    assert release.converged
    for zone in release.transcript:
        assert zone.score == "-delta^2"
        assert inside(np.array(zone.centroid), zone, BOX)


def test_a_synopsis_takes_the_same_laws_and_stays_proved(engine):
    score = Score(lambda ratio, angle: 1 - ratio, 1.0, 1.0, "1 - delta")
    method = make_method(
        "synopsis-posterior", step_epsilon=[[0.1, 0.5, 1.0], 2.0], laws=Laws(score, Offset(lambda u: 0.6 + u / 10))
    )
    assert method.claim.label == "proved"
    release = run(method, engine, epsilon=1.0)
    assert release.cost.within
    assert {zone.step_epsilon for zone in release.transcript} <= {0.1, 0.5, 1.0, 2.0}
    Transcript.of(release, score).draw(np.random.default_rng(0))


def test_scores_and_offsets_that_break_their_word_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(MethodError, match="exceeds its highest value"):
        Score(lambda ratio, angle: 3.0).draw(0.7, 1.0, rng, flat=False)
    with pytest.raises(MethodError, match="nearly everywhere"):
        Score(lambda ratio, angle: -math.inf).draw(0.7, 1.0, rng, flat=True)
    with pytest.raises(MethodError, match="positive sensitivity"):
        Score(sensitivity=0.0)
    with pytest.raises(MethodError, match="between 1/2 and 1"):
        Offset(lambda u: 0.5).sample(2, rng)
    assert largest_angle(1.0, 0.7) == 0.0
