"""Private questions about a release and records: the right numbers, the right noise, the right entry in the ledger."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpkmeans import Boolean, Category, Date, DPKMeans, DurableLedger, Ledger, Number, Person, Release
from dpkmeans.cli.main import main
from dpkmeans.errors import BudgetError, DataError, DPKMeansError, GuaranteeError, SchemaError
from dpkmeans.evaluation.profile import laplace_margin
from dpkmeans.evaluation.quality import cube_margin, largest_square
from dpkmeans.evaluation.queries import ENTRIES, FitQuality
from dpkmeans.privacy.linf_laplace import cube_noise
from dpkmeans.privacy.randomness import Randomness

BOX = {"x": (-20, 100), "y": (-20, 80)}
HUGE = 900.0  # of epsilon: noise of less than a hundredth of a record
FALSE_ALARM = 1e-9


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=900)
    table = pd.DataFrame({"x": 30.0 * group + rng.normal(0, 3, 900), "y": 20.0 * group + rng.normal(0, 3, 900)})
    table["region"] = np.array(["N", "S", "E"])[group]
    table["age"] = rng.integers(0, 100, 900).astype(float)
    table.loc[:9, "age"] = np.nan
    table["smoker"] = rng.random(900) < 0.3
    table["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 360, 900), unit="D")
    table["id"] = np.arange(900) // 3
    return table


@pytest.fixture(scope="module")
def release(visits) -> Release:
    return DPKMeans(3, epsilon=5.0, bounds=BOX, method="su").fit(visits).release_


def exact(release: Release, table: pd.DataFrame) -> np.ndarray:
    """Distances of the clipped records to all centroids, the nearest first."""
    points = np.clip(table[["x", "y"]], [-20, -20], [100, 80]).to_numpy()
    return np.sort(np.linalg.norm(points[:, None] - release.centroids[None], axis=2), axis=1)


def test_with_a_large_epsilon_quality_is_the_cost_and_the_silhouette_of_the_records(release, visits):
    found, away = release.quality(visits, HUGE), exact(release, visits)
    assert found.cost.value == pytest.approx((away[:, 0] ** 2).sum(), rel=0.02)
    assert found.silhouette.value == pytest.approx((1 - away[:, 0] / away[:, 1]).mean(), abs=1e-3)
    assert found.records.value == pytest.approx(900, abs=0.2)
    assert found.beyond.value == pytest.approx(0, abs=0.2)
    assert found.guarantee.label == "proved"


def test_distances_beyond_the_radius_count_as_the_radius_and_are_counted(visits):
    made = DPKMeans(3, epsilon=50.0, bounds=BOX).fit(visits).release_
    far = pd.concat([visits, pd.DataFrame({"x": [100.0] * 300, "y": [-20.0] * 300})])
    found, away = made.quality(far, HUGE), exact(made, far)
    assert found.radius < 60
    assert found.beyond.value == pytest.approx((away[:, 0] > found.radius).sum(), abs=0.2)
    assert found.beyond.value > 299
    assert found.cost.value == pytest.approx((np.minimum(away[:, 0], found.radius) ** 2).sum(), rel=1e-3)
    assert largest_square(made) * made.bounds.longest_side**2 == pytest.approx(found.radius**2)


def test_one_centroid_has_no_silhouette():
    query = FitQuality(np.array([[0.5, 0.5]]), 0.25)
    table = np.zeros((1, ENTRIES), np.int64)
    tile = np.zeros((1, 2, 16), np.float32)
    query.add(tile, 3, table)
    assert table.tolist() == [[3 * 2**20, 3 * 2**20, 3 * 2**20, 0]]


def test_each_value_is_counted_in_its_bin_and_cluster(release, visits):
    columns = {
        "region": Category("N", "S"),
        "age": Number(),
        "smoker": Boolean(),
        "seen": Date("2020-01-01", "2021-01-01"),
    }
    found = release.profile(visits, columns, HUGE, bins={"age": [0, 18, 65], "seen": 12})
    cluster = release.predict(visits[["x", "y"]])
    shown = visits.assign(cluster=cluster, other=visits.region.where(visits.region.isin(["N", "S"]), "other"))
    levels = ["N", "S", "other", "missing"]
    wanted = pd.crosstab(shown.cluster, shown.other).reindex(index=range(3), columns=levels, fill_value=0)
    assert found["region"].bins == ("N", "S", "other", "missing")
    assert np.array_equal(found["region"].counts, wanted)
    bins = np.where(shown.age.isna(), 2, (shown.age >= 18).astype(int))  # beyond the last edge is in the last range
    assert found["age"].bins == ("0 to 18", "18 to 65", "missing")
    assert np.array_equal(
        found["age"].counts, np.array([np.bincount(bins[cluster == c], minlength=3) for c in range(3)])
    )
    assert found["smoker"].counts.sum(axis=0).tolist() == [visits.smoker.sum(), (~visits.smoker).sum(), 0]
    assert len(found["seen"].bins) == 13
    assert found["seen"].counts.sum() == 900
    assert found.to_frame("region").shape == (3, 4)
    held = found["region"].counts.any(axis=1)
    assert found["region"].shares.sum(axis=1) == pytest.approx(held.astype(float))


def test_a_column_of_the_fit_needs_no_kind(release, visits):
    found = release.profile(visits, ["x"], HUGE, bins=4)
    assert found["x"].bins[0] == "-20 to 10"
    assert found["x"].counts.sum() == 900


def test_every_engine_gives_the_same_histogram(release, visits, tmp_path):
    path = tmp_path / "visits.csv"
    visits.to_csv(path, index=False)
    columns = {"region": Category("N", "S"), "age": Number(0, 100)}
    answers = [release.profile(source, columns, HUGE) for source in (visits, path)]
    answers.append(release.profile(path, columns, HUGE, engine="stream"))
    assert all(np.array_equal(answers[0]["age"].counts, other["age"].counts) for other in answers)


def test_persons_are_protected_as_in_the_fit(visits):
    unit = Person("id", at_most=2)
    made = DPKMeans(3, epsilon=5.0, bounds=BOX, unit=unit).fit(visits).release_
    ledger = Ledger(1000.0)
    found = made.quality(visits, HUGE, ledger=ledger)
    assert found.records.value == pytest.approx(600, abs=1)  # two of the three rows of each person
    assert "all rows of one person" in found.summary()
    assert [float(spend.epsilon) for spend in ledger.spends] == [HUGE]
    assert made.profile(visits, {"region": Category("N")}, HUGE)["region"].counts.sum() == 600
    with pytest.raises(DPKMeansError, match="'id'"):
        made.quality(visits.drop(columns="id"), 0.1)


def test_what_is_asked_is_in_the_ledger_with_the_digest_of_the_answer(visits, tmp_path, capsys):
    path = tmp_path / "ledger.db"
    DurableLedger.create(path).add("visits", 3.0)
    model = DPKMeans(3, epsilon=1.0, bounds=BOX, ledger=path, dataset="visits").fit(visits).release_
    found = model.quality(visits, 0.5, ledger=path, dataset="visits")
    asked = model.profile(visits, ["x"], 0.25, ledger=path, dataset="visits")
    assert float(DurableLedger(path).dataset("visits").spent) == 1.75
    assert found.identity.dataset == "visits"
    assert found.to_dict()["about"] == model.identity.digest
    assert main(["ledger", "show", str(path), "--dataset", "visits"]) == 0
    shown = capsys.readouterr().out
    assert found.identity.digest[:12] in shown
    assert asked.identity.digest[:12] in shown
    with pytest.raises(BudgetError, match=r"1\.25"):
        model.quality(visits, 1.5, ledger=path, dataset="visits")


def test_what_cannot_be_answered_is_refused_before_anything_is_spent(release, visits):
    ledger = Ledger(1.0)
    wrong = {
        "no kind": lambda: release.profile(visits, ["region"], 0.1, ledger=ledger),
        "no bounds": lambda: release.profile(visits, {"age": Number()}, 0.1, ledger=ledger),
        "no column": lambda: release.profile(visits, {"town": Category("A")}, 0.1, ledger=ledger),
        "a text": lambda: release.profile(visits, "x", 0.1, ledger=ledger),
        "twice": lambda: release.profile(visits, ["x", "x"], 0.1, ledger=ledger),
        "a feature anew": lambda: release.profile(visits, {"x": Number(0, 1)}, 0.1, ledger=ledger),
        "falling edges": lambda: release.profile(visits, {"age": Number()}, 0.1, bins={"age": [5, 1]}, ledger=ledger),
        "bins of levels": lambda: release.profile(
            visits, {"region": Category("N")}, 0.1, bins={"region": 4}, ledger=ledger
        ),
        "bins of nothing": lambda: release.profile(visits, ["x"], 0.1, bins={"y": 4}, ledger=ledger),
        "too many cells": lambda: release.profile(
            visits, {f"c{i}": Number(0, 1) for i in range(400)}, 0.1, bins=1000, ledger=ledger
        ),
        "no epsilon": lambda: release.quality(visits, None, ledger=ledger),
        "too much": lambda: release.quality(visits, 2.0, ledger=ledger),
        "NaN": lambda: release.quality(visits.assign(x=np.nan), 0.1, ledger=ledger),
        "other columns": lambda: release.quality(visits[["x"]], 0.1, ledger=ledger),
        "a seed": lambda: release.quality(visits, 0.1, ledger=ledger, random_state=0),
    }
    for name, ask in wrong.items():
        with pytest.raises((SchemaError, DataError, BudgetError, GuaranteeError, ValueError)) as refused:
            ask()
        assert isinstance(refused.value, DPKMeansError), name
        assert ledger.spends == (), name


def test_an_answer_is_labelled_no_better_than_its_release(visits):
    exactly = DPKMeans(3, bounds=BOX, method="lloyd", guarantee="none").fit(visits).release_
    with pytest.raises(GuaranteeError, match="no noise"):
        exactly.quality(visits, 0.1)
    assert exactly.quality(visits, 0.1, guarantee="none").guarantee.label == "none"


def test_intervals_hold_as_often_as_they_say_and_narrower_ones_do_not():
    """20 000 draws of the cube noise; a normal law's 6.2 deviations have a probability below 1e-9."""
    n = 20_000
    noise = np.abs(np.asarray(cube_noise(Randomness.secure().noise, n, ENTRIES, Fraction(1024)))[:, 1] / 1024)
    off = 6.2 * math.sqrt(0.95 * 0.05 / n)
    assert abs((noise <= cube_margin(0.95)).mean() - 0.95) < off
    assert (noise <= 2 / 3 * cube_margin(0.95)).mean() < 0.95 - off
    assert FALSE_ALARM < 1e-8


def test_the_margin_of_a_histogram_is_the_quantile_of_its_law():
    for scale in (0.2, 1.0, 10.0, 60.0):
        r = math.exp(-1 / scale)
        t = laplace_margin(0.95, scale)
        assert 2 * r ** (t + 1) / (1 + r) <= 0.05 + 1e-12
        assert t == 0 or 2 * r**t / (1 + r) > 0.05


def test_the_commands_print_what_the_library_answers(release, visits, tmp_path, capsys):
    release.save(tmp_path / "model.json")
    visits.to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "other.toml").write_text('[region]\nkind = "category"\nlevels = ["N", "S"]\n')
    model, data = str(tmp_path / "model.json"), str(tmp_path / "visits.csv")
    assert main(["quality", model, data, "--epsilon", "500"]) == 0
    assert "simplified silhouette" in capsys.readouterr().out
    schema = ["--schema", str(tmp_path / "other.toml"), "--columns", "region"]
    assert main(["profile", model, data, *schema, "--epsilon", "500"]) == 0
    shown = capsys.readouterr().out
    assert "region: noisy numbers of records" in shown
    assert "other" in shown
    assert main(["profile", model, data, "--epsilon", "1"]) == 2
    assert main(["quality", model, data]) == 2
