"""`plan`: what it expects, from public numbers alone, and the model behind it."""

from __future__ import annotations

import json
import math
import runpy
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from dpkmeans.cli.main import main
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.planning.advice import gaussian_signals, plan, recommend_gaussian
from dpkmeans.planning.loss_model import MIN_LOSS, Surface, features, log_loss, loss_model, pooled, straight

ROOT = Path(__file__).resolve().parents[2]


def surface(noise: float = 0.01) -> Surface:
    """A surface through the line 1 - x0 and a bump of 2 above it at the origin."""
    x = np.array([[float(i), 0.0, 0.0, 0.0] for i in range(-3, 4)])
    bump = np.where(x[:, 0] == 0, 2.0, 0.0)
    return Surface(x, bump, np.array([1.0, -1.0, 0.0, 0.0, 0.0]), 1.0, np.full(4, 0.4), noise)


@pytest.mark.slow
def test_more_epsilon_is_never_expected_to_be_worse():
    for n, d, k in ((300, 1, 2), (5000, 2, 15), (50_000, 4, 8), (10**6, 30, 60), (10**9, 500, 1000)):
        for spread in (None, 0.05):
            advice = plan(n, d, k, [0.01, 0.1, 0.3, 1.0, 3.0, 50.0], spread=spread)
            for method in {e.method for e in advice.expectations}:
                own = [e for e in advice.expectations if e.method == method]
                for name in ("loss", "low", "high"):
                    values = [getattr(e, name) for e in own]
                    assert values == sorted(values, reverse=True)
                assert all(e.low <= e.loss <= e.high for e in own)
                assert all(e.low >= MIN_LOSS * 0.99 and math.isfinite(e.high) for e in own)


def test_a_known_spread_narrows_the_range():
    wide = plan(50_000, 4, 8, [0.3]).expectations
    narrow = plan(50_000, 4, 8, [0.3], spread=0.05).expectations
    ratios = [(b.high / b.low) / (a.high / a.low) for a, b in zip(wide, narrow, strict=True)]
    assert float(np.median(ratios)) < 1


def test_the_default_method_is_expected_to_beat_noisy_lloyd_where_the_benchmark_shows_it():
    found = {e.method: e.loss for e in plan(5000, 2, 15, [1.0]).expectations}
    assert found["synopsis"] < found["su"] / 5


def test_the_noise_is_shown_in_the_units_of_the_data_and_falls_with_epsilon():
    advice = plan(50_000, 4, 8, [2.0, 0.1], [(0.0, 10.0)] * 4)
    assert advice.noise[0].deviation == pytest.approx(20 * advice.noise[-1].deviation)


def test_hopeless_plans_are_called_so():
    assert "Do not expect" in plan(50, 4, 8, [0.1]).recommendation
    assert "Use synopsis" in plan(10**6, 2, 4, [1.0]).recommendation


def test_more_features_need_more_records():
    """The rule by which a fit warns: 4 records times epsilon for each feature and cluster."""
    assert "Do not expect" not in plan(20_000, 20, 10, [1.0]).recommendation
    assert "a fit warns below 2.4e+03" in plan(20_000, 600, 10, [1.0]).recommendation


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((0, 4, 8, [0.1]), {}, "records must be a whole number of at least 1"),
        ((10, 4, 8, []), {}, "at least one epsilon"),
        ((10, 4, 8, [1.0]), {"spread": 0.0}, "spread must be a share"),
        ((10, 4, 8, [1.0]), {"spread": float("nan")}, "spread must be a share"),
    ],
)
def test_plans_that_make_no_sense_are_refused(arguments, options, says):
    with pytest.raises(MethodError, match=says):
        plan(*arguments, **options)
    with pytest.raises(BudgetError):
        plan(10, 4, 8, [-1.0])


def test_the_command_shows_a_range_and_asks_for_a_guess_of_the_spread(capsys):
    call = ["plan", "--records", "50000", "--features", "4", "--k", "8", "--epsilon", "0.1", "1"]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert "synopsis" in out
    assert "eight of ten within" in out
    assert "--spread" in err
    assert main([*call, "--spread", "0.05", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "--spread" not in err
    assert {e["epsilon"] for e in json.loads(out)["expectations"]} == {0.1, 1.0}
    assert main(["plan", "--records", "50", "--features", "4", "--bounds", "from data"]) == 2


def test_a_surface_goes_through_its_points_and_back_to_its_line_far_from_them():
    found, deviation = surface().at(np.array([[0.0, 0, 0, 0], [3.0, 0, 0, 0], [50.0, 0, 0, 0]]))
    assert found == pytest.approx([3.0, -2.0, -49.0], abs=0.1)
    assert deviation[2] == pytest.approx(math.sqrt(1.01))
    assert deviation[0] < 0.3


def test_the_range_of_one_normal_is_its_tenth_and_ninetieth_percentile():
    found = pooled(np.array([0.0]), np.array([1.0]))
    assert found.loss == pytest.approx(1.0)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([-1.2816, 1.2816], abs=0.05)
    wide = pooled(np.array([-2.0, 0.0, 2.0]), np.ones(3))
    assert wide.low < found.low < wide.loss < found.high < wide.high


def test_small_losses_count_as_the_floor_and_the_features_are_logarithms():
    assert np.exp(log_loss([-0.1, 0.0, 0.5])).tolist() == pytest.approx([MIN_LOSS, MIN_LOSS, 0.5])
    assert features(math.e**3, 1, 1, 1.0, math.e**-2) == pytest.approx([3.0, 0.0, 0.0, -2.0])
    assert straight(np.zeros((2, 4))).tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]] * 2


def test_the_model_that_comes_with_the_package_predicts_what_it_was_learnt_on():
    model = loss_model()
    assert {"synopsis", "su"} <= set(model.surfaces)
    for surface in model.surfaces.values():
        mean, deviation = surface.at(surface.points)
        off = mean - straight(surface.points) @ surface.line - surface.residuals
        assert float(np.mean(np.abs(off) < 1.2816 * deviation)) > 0.7


def test_the_page_shows_how_well_the_model_of_the_package_predicts():
    table = runpy.run_path(str(ROOT / "benchmarks" / "plan.py"))["table"]

    content = json.loads(files("dpkmeans.planning").joinpath("loss_model.json").read_text("utf-8"))
    page = (ROOT / "docs" / "plan.md").read_text("utf-8")
    assert table(content) in page, "copy the table that benchmarks/plan.py prints into docs/plan.md"
    assert f"{content['sets']} sets, four ε each" in page
    assert len(content["held_out"]) == len(content["real"]) == 2 * len(content["methods"])


def test_with_a_delta_the_signal_grows_with_records_and_epsilon_and_the_records_asked_for_are_enough():
    weak, strong = gaussian_signals(2_000, 384, 20, [0.25, 3.0], 1e-6)
    assert weak.signal < 2 < strong.signal
    assert weak.clusters < strong.clusters <= 20
    (enough,) = gaussian_signals(weak.records, 384, 20, [0.25], 1e-6)
    assert enough.clusters == 20
    (fewer,) = gaussian_signals(weak.records * 9 // 10, 384, 20, [0.25], 1e-6)
    assert fewer.clusters < 20


def test_with_a_delta_and_many_features_the_advice_is_about_gaussian_noise(capsys):
    """Pure epsilon would find nothing in these 384 features, and a fit with a delta finds all clusters."""
    words = ["--records", "20000", "--features", "384", "--k", "20", "--epsilon", "0.25", "1"]
    assert main(["plan", *words, "--delta", "1e-6"]) == 0
    said = capsys.readouterr().out
    assert "Use epsilon 0.25 with this delta" in said
    assert "Do not expect" not in said
    assert main(["plan", *words]) == 0
    assert "Do not expect useful clusters" in capsys.readouterr().out


def test_with_a_delta_and_few_features_the_advice_stays_that_for_pure_epsilon(capsys):
    words = ["plan", "--records", "50000", "--features", "4", "--k", "8", "--epsilon", "1"]
    assert main(words) == 0
    pure = capsys.readouterr().out.splitlines()[-1]
    assert main([*words, "--delta", "1e-6"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == pure


def test_where_not_all_clusters_can_be_told_apart_the_advice_says_how_many_and_what_it_takes():
    signals = gaussian_signals(2000, 384, 20, [0.25, 1.0], 1e-6)
    said = recommend_gaussian(signals, 20)
    assert f"{signals[-1].clusters} of 20 clusters" in said
    assert f"{signals[-1].records} records" in said


def test_a_plan_says_where_the_model_knows_nothing(capsys):
    assert main(["plan", "--records", "50000", "--features", "17", "--epsilon", "1"]) == 0
    assert "up to 16 features" in capsys.readouterr().err
    assert main(["plan", "--records", "50000", "--features", "16", "--epsilon", "1"]) == 0
    assert "up to 16 features" not in capsys.readouterr().err
