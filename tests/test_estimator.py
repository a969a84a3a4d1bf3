from __future__ import annotations

import math
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpkmeans import Bounds, DPKMeans, Ledger
from dpkmeans.data.source import Files
from dpkmeans.errors import (
    BoundsError,
    BudgetError,
    DataError,
    DataTypeError,
    GuaranteeError,
    MethodError,
    NotConvergedWarning,
    UnsupportedError,
)
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.lu_shen.strategies import posterior, prior

X = np.random.default_rng(0).random((300, 2))


def paper(n_clusters=3, **options):
    """Without a seed. Of 1500 fits to `X` with k = 3 the longest took 24 steps, one more in two at e-fold odds.

    False alarm: below 1e-10, that a fit takes all of its 300 steps and warns.
    """
    return DPKMeans(n_clusters, **{"bounds": (0, 1), "method": "posterior", "guarantee": "paper", **options})


def exact(n_clusters=3, **options):
    return DPKMeans(
        n_clusters, **{"bounds": (0, 1), "method": "lloyd", "guarantee": "none", "random_state": 0, **options}
    )


# No check is expected to fail.
@parametrize_with_checks(
    [
        DPKMeans(2, method="lloyd", guarantee="none", bounds="from data", random_state=0),
        DPKMeans(2, method="posterior", guarantee="none", bounds="from data", random_state=0, release_epsilon=100),
    ]
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


# Guarantees


@pytest.mark.parametrize(
    ("options", "write"),
    [
        ({"method": "posterior"}, "guarantee='paper'"),
        ({"method": "prior"}, "guarantee='paper'"),
        ({"method": "lloyd"}, "guarantee='none'"),
        ({"method": "lloyd", "guarantee": "paper"}, "guarantee='none'"),
        ({"method": "posterior", "guarantee": "paper", "random_state": 0}, "guarantee='none'"),
        ({"method": "posterior", "guarantee": "paper", "bounds": "from data"}, "guarantee='none'"),
        ({"method": "su", "epsilon": 1.0, "random_state": 0}, "guarantee='none'"),
        ({"method": "su", "epsilon": 1.0, "bounds": "from data"}, "guarantee='none'"),
        ({"method": "su", "epsilon": 1.0, "init": "rows"}, "guarantee='paper'"),
    ],
)
def test_a_weaker_result_is_refused_and_the_message_says_what_to_write(options, write):
    ledger = Ledger()
    with pytest.raises(GuaranteeError) as caught:
        DPKMeans(2, ledger=ledger, **{"bounds": (0, 1), **options}).fit(X)
    assert write in str(caught.value)
    assert not ledger.spends


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (DPKMeans(2, epsilon=1.0, bounds=(0, 1), n_records=300), "proved"),
        (paper(2), "paper"),
        (paper(2, method="prior"), "paper"),
        (exact(2), "none"),
        (paper(2, random_state=0, guarantee="none"), "none"),
        (paper(2, bounds="from data", guarantee="none"), "none"),
        (DPKMeans(2, epsilon=1.0, bounds=(0, 1), random_state=0, guarantee="none"), "none"),
    ],
)
def test_the_release_carries_its_label(model, label):
    assert model.fit(X).release_.guarantee.label == label


def test_a_seeded_run_can_be_repeated_and_says_so():
    first, second = (paper(guarantee="none", random_state=5).fit(X) for _ in range(2))
    assert first.release_.to_dict() == second.release_.to_dict()
    assert first.release_.guarantee.seeded


@pytest.mark.parametrize("options", [{}, {"method": "su", "guarantee": "proved", "epsilon": 1.0, "n_records": 300}])
def test_numpys_global_seed_has_no_influence(options):
    found = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        found.append(paper(**options).fit(X).cluster_centers_)
    assert not np.array_equal(*found)


@pytest.mark.parametrize("guarantee", ["Proved", None, "weak"])
def test_an_unknown_guarantee_is_refused(guarantee):
    with pytest.raises(GuaranteeError, match="must be one of"):
        paper(guarantee=guarantee).fit(X)


# Budgets


@pytest.mark.parametrize("method", ["posterior", "prior"])
def test_the_total_is_the_release_budget_plus_the_sum_of_the_largest_steps(method):
    model = paper(method=method, step_epsilon=0.3, release_epsilon=0.7).fit(X)
    largest = [max(map(float, spend.parts)) for spend in model.release_.spends]
    assert largest == [0.3] * model.n_iter_ + [0.7]
    assert model.release_.epsilon_spent == pytest.approx(sum(largest), abs=1e-12)


def test_a_parent_ledger_sees_every_spend():
    ledger = Ledger()
    model = paper(ledger=ledger).fit(X)
    assert ledger.spends == model.release_.spends
    again = paper(ledger=ledger).fit(X)
    assert float(ledger.spent) == pytest.approx(model.release_.epsilon_spent + again.release_.epsilon_spent)


def test_a_parent_ledger_can_refuse():
    ledger = Ledger(0.01)
    with pytest.raises(BudgetError, match=r"only 0.01 of the promised 0.01"):
        DPKMeans(2, epsilon=1.0, n_records=300, method="su", bounds=(0, 1), ledger=ledger).fit(X)
    assert not ledger.spends


def test_a_cap_refuses_a_posterior_run_before_it_is_passed():
    ledger = Ledger()
    with pytest.raises(BudgetError, match="Nothing was drawn"):
        paper(8, epsilon=0.25, ledger=ledger, random_state=0, guarantee="none").fit(X)
    assert float(ledger.spent) == 0.2  # what was drawn stays recorded


def test_a_cap_that_is_not_reached_is_promised():
    model = paper(epsilon=100).fit(X)
    assert model.release_.epsilon_promised == 100
    assert model.release_.epsilon_spent < 100


@pytest.mark.parametrize("name", ["epsilon", "step_epsilon", "release_epsilon"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "much", 1e9])
def test_an_epsilon_that_is_no_budget_is_refused_by_name(name, value):
    with pytest.raises(BudgetError, match=f"{name} must be"):
        paper(**{name: value}).fit(X)


def test_a_method_that_splits_a_total_needs_one():
    with pytest.raises(BudgetError, match=r"epsilon=1.0"):
        DPKMeans(2, bounds=(0, 1)).fit(X)


# Bounds


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, "missing"),
        ((1, 0), "lower must be below upper"),
        ((0, [1, -1]), "feature 1"),
        ((math.nan, 1), "finite"),
        ((0, math.inf), "finite"),
        ((0, 1e200), r"2\^500"),
        ((0, [1, 1, 1]), "the records have 2"),
        (Bounds.of((0, 1), 3), "3 features"),
        ("from the data", "from data"),
        ((0, 0), "every feature"),
    ],
)
def test_wrong_bounds_are_refused(bounds, message):
    with pytest.raises(BoundsError, match=message):
        paper(bounds=bounds).fit(X)


def test_records_far_away_are_clipped_and_infinity_is_refused():
    wild = np.array([[1e300, 0.5], [-1e300, 0.5]])
    model = exact(2).fit(wild)
    assert sorted(model.cluster_centers_[:, 0].tolist()) == [0.0, 1.0]
    assert np.array_equal(model.predict(wild), model.labels_)
    assert np.isfinite(model.transform(wild)).all()
    for use in (exact(2).fit, model.predict, model.transform, model.score):
        with pytest.raises(DataError, match="holds infinity"):
            use([[math.inf, 0.5], [0.5, 0.5]])


def test_infinity_is_refused_with_bounds_from_the_data():
    with pytest.raises(DataError, match="infinity"):
        exact(2, bounds="from data").fit([[math.inf], [0.0]])
    model = exact(2, bounds="from data").fit(X)
    for use in (model.predict, model.transform, model.score):
        with pytest.raises(DataError, match="infinity"):
            use([[math.inf, 0.0]])


def test_centroids_are_in_the_units_of_the_data():
    data = np.repeat([[-1000.0, 5.0], [3000.0, 7.0]], 10, axis=0)
    model = exact(2, bounds=([-1000, 0], [3000, 10]), scale=None).fit(data)
    assert np.sort(model.cluster_centers_, axis=0) == pytest.approx(np.array([[-1000.0, 5.0], [3000.0, 7.0]]), abs=0.01)


# Data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([[math.nan, 0.0], [0.0, 0.0], [1.0, 1.0]], DataError),
        ([["a", "b"]] * 3, DataTypeError),
        (np.empty((0, 2)), DataError),
        (np.empty((3, 0)), DataError),
        (np.zeros(5), DataError),
        (np.zeros((2, 2)), DataError),  # fewer records than clusters
    ],
)
def test_records_that_cannot_be_used_are_refused(data, error):
    with pytest.raises(error):
        exact().fit(data)


def test_more_clusters_than_records_need_a_start_that_is_not_drawn_from_them():
    with pytest.raises(DataError, match="n_clusters=4 is larger than the number of records"):
        exact(4).fit(X[:3])
    assert exact(4, init="uniform").fit(X[:3]).cluster_centers_.shape == (4, 2)


@pytest.mark.parametrize("use", ["predict", "transform", "score"])
def test_a_wrong_number_of_features_is_refused_after_fitting(use):
    with pytest.raises(ValueError, match="3 features, but DPKMeans is expecting 2"):
        getattr(exact().fit(X), use)(np.zeros((4, 3)))


@pytest.mark.parametrize("use", ["predict", "transform", "score"])
def test_nan_is_refused_after_fitting(use):
    with pytest.raises(DataError, match="NaN"):
        getattr(exact().fit(X), use)([[math.nan, 0.0]])


@pytest.mark.parametrize("use", ["predict", "transform", "score"])
def test_nothing_can_be_used_before_fitting(use):
    with pytest.raises(NotFittedError):
        getattr(exact(), use)(X)


FRAMES = {
    "pandas": pd.DataFrame(X, columns=["lat", "lon"]),
    "polars": pl.DataFrame(X, schema=["lat", "lon"]),
    "arrow": pa.table({"lat": X[:, 0], "lon": X[:, 1]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_give_what_arrays_give_and_their_names(kind):
    model = exact(init=X[:3]).fit(FRAMES[kind])
    assert np.array_equal(model.cluster_centers_, exact(init=X[:3]).fit(X).cluster_centers_)
    assert model.feature_names_in_.tolist() == ["lat", "lon"]
    assert model.release_.feature_names == ("lat", "lon")
    assert np.array_equal(model.predict(FRAMES[kind]), model.labels_)


def test_arrays_have_no_names():
    model = exact().fit(X)
    assert not hasattr(model, "feature_names_in_")
    assert model.release_.feature_names is None


def test_columns_in_another_order_are_refused():
    with pytest.raises(ValueError, match="feature names"):
        exact().fit(FRAMES["pandas"]).predict(FRAMES["pandas"][["lon", "lat"]])


# scikit-learn


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_transform_gives_the_frames_that_were_asked_for(output, kind):
    model = exact().set_output(transform=output)
    found = model.fit_transform(FRAMES["pandas"])
    assert isinstance(found, kind)
    assert list(found.columns) == ["dpkmeans0", "dpkmeans1", "dpkmeans2"]
    assert isinstance(clone(model).fit_transform(FRAMES["pandas"]), kind)


def test_transform_gives_distances_in_the_units_of_the_data():
    model = exact(bounds=([0, -2], [1, 2])).fit(X)
    expected = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    assert model.transform(X) == pytest.approx(expected, abs=1e-5)
    assert np.array_equal(model.transform(X).argmin(axis=1), model.predict(X))


@pytest.mark.parametrize("model", [exact(), paper(), paper(release_epsilon=0.001), exact(bounds=([0, -7], [50, 2]))])
def test_labels_are_what_predict_gives(model):
    model.fit(X)
    assert model.labels_.shape == (len(X),)
    assert model.labels_.dtype == np.int32
    assert np.array_equal(model.labels_, model.predict(X))


def test_fit_predict_gives_the_labels():
    model = exact(random_state=0)
    assert np.array_equal(model.fit_predict(X), model.labels_)


def test_the_score_is_minus_the_cost_in_squared_units():
    model = exact(bounds=([0, -7], [50, 2])).fit(X)
    cost = (np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2).min(axis=1) ** 2).sum()
    assert model.score(X) == pytest.approx(-cost, rel=1e-4)


def test_parameters_are_kept_as_written_and_cloned():
    options = {"epsilon": 1.0, "bounds": (0, [1, 2]), "method": "su", "n_records": 300, "init": "uniform"}
    model = DPKMeans(4, **options)
    for twin in (model, clone(model)):
        found = twin.get_params()
        assert {name: found[name] for name in options} == options
    assert model.set_params(n_clusters=7).n_clusters == 7


def test_a_clone_is_not_fitted_and_shares_the_ledger():
    ledger = Ledger(5.0)
    twin = clone(paper(ledger=ledger).fit(X))
    assert not hasattr(twin, "release_")
    assert twin.ledger is ledger
    spent = ledger.spent
    twin.fit(X)
    assert ledger.spent > spent


def test_a_method_value_can_be_cloned():
    model = DPKMeans(2, bounds=(0, 1), method=posterior(init=X[:2]), guarantee="paper")
    assert clone(model).method == model.method


def test_it_works_in_a_pipeline():
    pipeline = make_pipeline(MinMaxScaler(), exact(random_state=0))
    assert pipeline.fit_predict(X * 100).shape == (len(X),)


def test_it_has_a_picture_in_notebooks():
    assert "DPKMeans" in exact()._repr_html_()
    assert "DPKMeans" in exact().fit(X)._repr_html_()


def test_a_fit_can_be_repeated_on_other_data():
    model = exact().fit(X)
    model.fit(np.random.default_rng(1).random((50, 4)))
    assert model.cluster_centers_.shape == (3, 4)


def test_changing_the_centers_does_not_change_the_release():
    model = exact().fit(X)
    model.cluster_centers_[:] = 9
    assert (model.release_.centroids <= 1).all()


def test_verbose_prints_the_guarantee_and_silence_is_the_default(capsys):
    exact().fit(X)
    assert capsys.readouterr().out == ""
    exact(verbose=True).fit(X)
    assert capsys.readouterr().out.startswith("lloyd: Not private")


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", None, True])
def test_a_number_of_clusters_that_is_none_is_refused(k):
    with pytest.raises(MethodError, match="n_clusters must be a whole number of at least 1"):
        exact(k).fit(X)


def test_a_random_state_may_be_a_generator_or_a_random_state():
    for state in (np.random.default_rng(0), np.random.RandomState(0), np.int64(3)):
        assert paper(guarantee="none", random_state=state).fit(X).release_.guarantee.seeded


# Methods


@pytest.mark.parametrize("method", [lloyd(), posterior(step_epsilon=0.5), prior(clip=True), prior(clip=False)])
def test_a_method_can_be_given_as_a_value(method):
    model = DPKMeans(3, bounds=(0, 1), method=method, guarantee="none").fit(X)
    assert model.release_.method == method.name


def test_a_method_value_carries_its_own_options():
    with pytest.raises(MethodError, match="carries its own max_iter, step_epsilon"):
        paper(method=posterior(), step_epsilon=1.0, max_iter=3).fit(X)


@pytest.mark.parametrize("method", [posterior, 5, object(), ["lloyd"]])
def test_what_is_neither_a_name_nor_a_method_is_refused(method):
    with pytest.raises(MethodError, match="a name or a method value"):
        paper(method=method).fit(X)


@pytest.mark.parametrize("method", ["kmeans", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(method):
    with pytest.raises(MethodError, match=r"unknown method .* Known: .*lloyd, posterior, prior"):
        paper(method=method).fit(X)


def test_an_option_that_a_method_does_not_take_is_refused():
    with pytest.raises(MethodError, match=r"step_epsilon is not for method 'lloyd'\. It takes init and max_iter"):
        exact(step_epsilon=1.0).fit(X)


@pytest.mark.parametrize(
    "model", [exact(8, max_iter=2), *(exact(8, max_iter=2, method=name) for name in ("posterior", "prior"))]
)
def test_a_run_that_max_iter_ends_warns_and_says_so(model):
    with pytest.warns(NotConvergedWarning, match="raise max_iter"):
        model.fit(X)
    assert model.release_.converged is False
    assert model.n_iter_ == 2


@pytest.mark.parametrize("method", ["lloyd", "posterior", "prior"])
@pytest.mark.parametrize(
    "data",
    [
        np.full((1, 1), 0.5),
        np.full((1, 3), 0.5),
        np.full((40, 2), 0.5),
        np.linspace(0, 1, 9)[:, None],
        np.column_stack([np.linspace(0, 1, 20), np.full(20, 0.3)]),
        np.zeros((5, 2)),
        np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0),
    ],
    ids=["one value", "one record", "duplicates", "one feature", "constant column", "corner", "two places"],
)
@pytest.mark.parametrize("bounds", [(0, 1), "from data"], ids=["given", "from data"])
def test_edges_of_the_data_end_by_themselves_with_finite_centroids(method, data, bounds):
    for k in {1, len(data)}:
        model = exact(k, method=method, bounds=bounds).fit(data)
        assert model.release_.converged is True
        assert np.isfinite(model.cluster_centers_).all()
        assert model.n_iter_ >= 1


def test_as_many_clusters_as_records_cost_nothing_without_noise():
    model = exact(9).fit(np.linspace(0, 1, 9)[:, None])
    assert model.score(np.linspace(0, 1, 9)[:, None]) == pytest.approx(0, abs=1e-10)
    assert sorted(model.labels_.tolist()) == list(range(9))


# What scikit-learn's users bring along


@pytest.mark.parametrize("call", ["fit", "fit_predict", "fit_transform", "score"])
def test_a_sample_weight_is_refused_with_the_reason_and_the_way_out(call):
    model = paper(2).fit(X)
    with pytest.raises(
        UnsupportedError, match=r"^sample_weight is not supported: .* than the noise covers\. .*repeat it"
    ):
        getattr(model, call)(X, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'weight'"):
        getattr(model, call)(X, weight=np.ones(len(X)))
    getattr(model, call)(X, sample_weight=None)


def test_a_sample_weight_in_a_pipeline_is_refused_as_well():
    steps = make_pipeline(FunctionTransformer(), paper(2))
    with pytest.raises(UnsupportedError, match="sample_weight"):
        steps.fit(X, dpkmeans__sample_weight=np.ones(len(X)))


@pytest.mark.parametrize("name", ["n_init", "tol", "algorithm", "copy_x"])
def test_arguments_of_kmeans_that_are_not_needed_say_why(name):
    given: dict[str, Any] = {name: 10}
    with pytest.raises(TypeError, match=f"^{name} is not needed: .* Leave it out"):
        DPKMeans(3, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilion'"):
        DPKMeans(3, epsilion=1.0)  # type: ignore[call-arg]
    assert name not in DPKMeans().get_params()
    assert name not in signature(DPKMeans).parameters
    assert "epsilon" in signature(DPKMeans).parameters


def test_the_inertia_is_not_there_and_says_what_to_use_instead():
    model = paper(2).fit(X)
    assert not hasattr(model, "inertia_")
    with pytest.raises(AttributeError, match=r"not private.* -model\.score\(X\).*explore"):
        _ = model.inertia_
    assert -model.score(X) > 0


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix])
@pytest.mark.parametrize("call", ["fit", "fit_predict", "fit_transform", "predict", "transform", "score"])
def test_sparse_records_are_refused_with_the_reason_and_the_way_out(call, kind):
    model = paper(2).fit(X)
    with pytest.raises(TypeError, match=r"Sparse input is not supported: noise fills .*\(X\.toarray\(\)"):
        getattr(model, call)(kind(X))
    getattr(model, call)(kind(X).toarray())


def test_fitting_and_predicting_at_once_works_for_files_too(tmp_path):
    path = tmp_path / "records.csv"
    np.savetxt(path, X, delimiter=",")
    model = paper(2)
    labels = model.fit_predict(Files(path, header=False))
    assert np.array_equal(labels, model.predict(X))
    assert np.array_equal(model.fit_predict(X), model.labels_)
