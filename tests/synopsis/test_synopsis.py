from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpkmeans import DPKMeans, Ledger, Synopsis, make_synopsis
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import BudgetError, FileError, GuaranteeError, MethodError, WeakSignalWarning
from dpkmeans.methods.registry import make_method, registry
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage import json_files as files
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.residual_queries import UNIT, Residuals
from dpkmeans.synopsis.synopsis import KIND, VERSION
from dpkmeans.synopsis.verify import verify

TOWNS = np.array([[10.0, 10.0], [80.0, 20.0], [40.0, 90.0], [90.0, 80.0]])


def visits(n: int = 8000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return TOWNS[rng.integers(4, size=n)] + 2 * rng.standard_normal((n, 2))


@pytest.fixture(scope="module")
def made() -> Synopsis:
    return make_synopsis(visits(), 1.0, (0, 100))


# --- making one -------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 4, 6, 12, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")
def test_a_synopsis_spends_what_was_promised_and_no_more(d, epsilon):
    parent = Ledger(5.0)
    X = np.random.default_rng(0).random((5000, d))
    k = 20 if d == 30 else 8  # in a box that fits, few clusters in 30 features are told apart by a tree
    synopsis = make_synopsis(X, epsilon, (0, 1), n_clusters=k, ledger=parent, n_records=5000)  # no noise in the kind
    assert synopsis.epsilon_spent == epsilon == synopsis.epsilon_promised
    assert float(parent.spent) == epsilon
    assert synopsis.guarantee.label == "proved"
    strong = epsilon == 1
    kinds = {4: "tree" if strong else "grid", 6: "tree", 12: "tree", 30: "hyperplanes"}
    if d < 30 or strong:  # with a weak signal it depends on whether a noisy number says that the box fits
        assert synopsis.kind == kinds.get(d, "grid")
    assert ((synopsis.points >= 0) & (synopsis.points <= 1)).all()
    assert (synopsis.weights > 0).all()


def test_a_seed_or_bounds_from_the_data_are_refused_unless_accepted():
    for options in ({"random_state": 1, "bounds": (0, 100)}, {"bounds": "from data"}):
        with pytest.raises(GuaranteeError):
            make_synopsis(visits(), 1.0, **options)
        assert make_synopsis(visits(), 1.0, guarantee="none", **options).guarantee.label == "none"


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "3", None, 2**21])
def test_a_number_of_clusters_that_makes_no_sense_is_a_clear_error(k, made):
    for call in (
        lambda: make_synopsis(visits(50), 1.0, (0, 100), n_clusters=k),
        lambda: made.fit(k),
        lambda: made.explore([k]),
    ):
        with pytest.raises(MethodError, match="n_clusters"):
            call()


def test_a_weak_signal_is_a_warning_from_public_quantities():
    X = np.random.default_rng(0).random((40, 2))
    with pytest.warns(WeakSignalWarning, match="no private method tells the clusters from noise"):
        make_synopsis(X, 0.1, (0, 1), n_records=40)
    with pytest.warns(WeakSignalWarning, match="Use more records, a larger epsilon, fewer clusters or fewer features"):
        DPKMeans(8, epsilon=1.0, bounds=(0, 1), n_records=40).fit(X)
    DPKMeans(2, epsilon=1.0, bounds=(0, 1), n_records=40_000).fit(X)  # by the public number the signal is strong


def test_the_warning_grows_with_the_number_of_features():
    X = np.random.default_rng(0).random((1000, 61))
    DPKMeans(10, epsilon=1.0, bounds=(0, 1), n_records=1000).fit(X[:, :10])
    with pytest.warns(WeakSignalWarning, match="below 244"):
        DPKMeans(10, epsilon=1.0, bounds=(0, 1), n_records=1000).fit(X)
    with pytest.warns(WeakSignalWarning):
        model = DPKMeans(10, epsilon=0.1, bounds=(0, 1), n_records=1000).fit(X)
    assert model.release_.parameters["clusters_with_signal"] == 1
    strong = DPKMeans(4, epsilon=1.0, bounds=(0, 100)).fit(visits())
    assert strong.release_.parameters["clusters_with_signal"] == 4


def test_the_names_of_a_frame_go_with_it():
    made = make_synopsis(pd.DataFrame(visits(), columns=["east", "north"]), 1.0, (0, 100))
    assert made.feature_names == ("east", "north")
    assert made.fit(3).feature_names == ("east", "north")


def test_a_durable_ledger_is_charged_once_and_refuses_the_second_synopsis(tmp_path):
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 1.5)
    made = make_synopsis(visits(), 1.0, (0, 100), ledger=store, dataset="visits")
    made.fit(3)
    assert float(store.dataset("visits").remaining) == 0.5
    with pytest.raises(BudgetError):
        make_synopsis(visits(), 1.0, (0, 100), ledger=tmp_path / "ledger.db", dataset="visits")
    with pytest.raises(MethodError, match="dataset"):
        make_synopsis(visits(), 0.1, (0, 100), ledger=store)
    with pytest.raises(MethodError, match="ledger"):
        make_synopsis(visits(), 0.1, (0, 100), dataset="visits")


# --- using it ---------------------------------------------------------------------------------------


def test_explore_over_19_values_of_k_spends_nothing_and_finds_the_towns():
    parent = Ledger(1.0)
    made = make_synopsis(visits(), 1.0, (0, 100), ledger=parent, random_state=0, guarantee="none")
    before = parent.spends
    found = made.explore(range(2, 21))
    assert len(found) == 19
    assert parent.spends == before
    assert float(parent.remaining) == 0.0
    assert max(found, key=lambda f: f.silhouette).k == 4
    costs = [f.cost for f in found]
    assert costs[0] > costs[2] > costs[-1]
    for f in found:
        assert len(f.sizes) == f.k
        assert sum(f.sizes) == pytest.approx(8000, rel=0.05)
        assert list(f.sizes) == sorted(f.sizes, reverse=True)


def test_fit_finds_the_towns_with_the_synopsis_guarantee_and_spends():
    made = make_synopsis(visits(), 1.0, (0, 100), random_state=0, guarantee="none")
    release = made.fit(4, random_state=0)
    assert release.guarantee == made.guarantee
    assert release.spends == made.spends
    assert release.n_passes == 0
    gaps = np.linalg.norm(release.centroids[:, None] - TOWNS, axis=2)
    assert gaps.min(axis=0).max() < 2.0
    assert all(verdict.holds for verdict in verify(release))


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_method_runs_on_a_synopsis_with_its_guarantee_and_its_spends(name):
    made = make_synopsis(visits(300), 1.0, (0, 100), n_clusters=4, n_records=300)
    release = made.fit(4, method=name, random_state=3)  # a seed takes nothing away: the noise is in the synopsis
    assert release.method == name
    assert release.guarantee.label == "proved"
    assert release.spends == made.spends
    assert release.epsilon_promised == made.epsilon_promised
    assert release.n_passes == 0
    assert np.isfinite(release.centroids).all()
    assert ((release.centroids >= 0) & (release.centroids <= 100)).all()
    other = make_method(name).run(made, 4, ledger=Ledger(999.0), rng=Randomness.secure())
    assert other.guarantee == made.guarantee
    assert other.spends == made.spends


def test_what_is_computed_from_a_synopsis_that_is_not_private_is_not_private_either():
    made = make_synopsis(visits(500), 1.0, (0, 100), guarantee="none", random_state=0)
    assert made.fit(3).guarantee.label == "none"


def test_k_above_the_number_of_points_still_gives_distinct_centroids_inside_the_bounds():
    made = make_synopsis(np.full((300, 8), 0.5), 1.0, (0, 1), n_records=300)
    k = len(made.weights) + 25
    release = made.fit(k)
    assert len(np.unique(release.centroids, axis=0)) == k
    assert ((release.centroids >= 0) & (release.centroids <= 1)).all()
    assert all(verdict.holds for verdict in verify(release))


# --- as an engine -----------------------------------------------------------------------------------


def test_a_synopsis_answers_like_an_engine_of_as_many_records():
    rng = np.random.default_rng(0)
    box = Bounds.of((0, 1), 2)
    places = grid_points(rng.random((40, 2)), box).astype(np.float64)
    times = rng.integers(1, 9, 40)
    made = make_synopsis(rng.random((1000, 2)), 1.0, box)
    synopsis = type(made)(type(made.data)(places, times.astype(float)), box, made.guarantee, made.spends, 1.0, "test")
    records = MemoryEngine.of_records(np.repeat(places, times, axis=0), box)
    centroids = rng.random((3, 2))
    why = "a test"
    mine, theirs = (reveal(e.cell_statistics(centroids), why=why) for e in (synopsis, records))
    assert np.allclose(mine.counts, theirs.counts)
    assert np.allclose(mine.sums, theirs.sums)
    assert mine.cost == pytest.approx(theirs.cost)
    for query in (
        Residuals(centroids, np.full((3, 2), 0.5)),
        GridCells(box.unit_box, np.array([1, 1]), np.array([[4, 4]])),
    ):
        assert np.array_equal(reveal(synopsis.answer(query), why=why), reveal(records.answer(query), why=why))
    assert (
        reveal(synopsis.answer(Residuals(centroids, np.full((3, 2), 0.5))), why=why)[:, 0].sum() == times.sum() * UNIT
    )
    assert np.allclose(
        reveal(synopsis.max_abs_deviation(centroids), why=why), reveal(records.max_abs_deviation(centroids), why=why)
    )
    assert reveal(synopsis.costs(centroids[None]), why=why).tolist() == [round(mine.cost * GRID)]
    assert reveal(synopsis.count(), why=why) == times.sum()
    assert sum(reveal(b.count(), why=why) for b in synopsis.partition(5, rng.bytes(16))) == times.sum()
    assert reveal(synopsis.sample_rows(60, rng), why=why).shape == (60, 2)


# --- files ------------------------------------------------------------------------------------------


def test_a_saved_synopsis_comes_back_as_it_was(tmp_path, made):
    made.save(tmp_path / "s.json")
    back = Synopsis.load(tmp_path / "s.json")
    assert np.array_equal(back.points, made.points)
    assert np.array_equal(back.weights, made.weights)
    assert (back.guarantee, back.spends, back.bounds, back.kind) == (
        made.guarantee,
        made.spends,
        made.bounds,
        made.kind,
    )
    assert back.epsilon_spent == made.epsilon_spent


def plain(made: Synopsis, path) -> dict:
    made.save(path)
    return files.read_json(path, KIND, VERSION) | {"identity": None}


@pytest.mark.parametrize(
    "damage",
    [
        {"weights": []},
        {"weights": [1.0]},
        {"points": "x"},
        {"points": [["1", "2"]], "weights": [1.0]},
        {"points": [[9.0, 0.1]], "weights": [1.0]},
        {"points": [[0.5, 0.1]], "weights": [0.0]},
        {"spends": []},
        {"epsilon_promised": 0.5},
        {"epsilon_promised": None},
        {"feature_names": ["one"]},
        {"kind": 3},
    ],
    ids=str,
)
def test_a_synopsis_file_that_contradicts_itself_is_refused(damage, tmp_path, made):
    content = plain(made, tmp_path / "s.json")
    files.write_json(tmp_path / "s.json", KIND, VERSION, content | damage)
    with pytest.raises(FileError):
        Synopsis.load(tmp_path / "s.json")


def test_a_synopsis_that_says_proved_and_was_seeded_is_refused(tmp_path, made):
    content = plain(made, tmp_path / "s.json")
    content["guarantee"] |= {"seeded": True}
    files.write_json(tmp_path / "s.json", KIND, VERSION, content)
    with pytest.raises(FileError, match="contradicts"):
        Synopsis.load(tmp_path / "s.json")


def test_a_changed_synopsis_file_and_a_model_file_are_refused(tmp_path, made):
    made.save(tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text()
    (tmp_path / "s.json").write_text(text.replace('"grid"', '"tree"'))
    with pytest.raises(FileError, match="checksum"):
        Synopsis.load(tmp_path / "s.json")
    made.fit(2).save(tmp_path / "m.json")
    with pytest.raises(FileError, match="not a dpkmeans synopsis"):
        Synopsis.load(tmp_path / "m.json")
