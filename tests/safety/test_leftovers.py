"""What is not private does not leave with a fitted model, and bounds made from the records are noticed."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from dpkmeans import DPKMeans, Ledger, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.errors import TightBoundsWarning

N = 3000
X = np.random.default_rng(3).uniform(0.1, 0.9, (N, 2))


def by_pickle(model):
    return [pickle.dumps(model, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return [file.getvalue()]


def by_deep_copy(model):
    """The attributes of the copy, one by one: saving the copy itself would leave the labels out anyway."""
    copied = copy.deepcopy(model)
    return [pickle.dumps([vars(step) for _, step in getattr(copied, "steps", [("", copied)])])]


def traces(labels):
    """The labels, the grid points and the records as they would stand in a file, 64 at a time.

    Pieces that hold one label only are left out: they are a run of equal bytes, which any file may have.
    """
    points = np.rint(X * 2**20) / 2**20
    arrays = [labels.astype(kind) for kind in (np.int32, np.int64, np.uint8)]
    arrays += [X, X.astype(np.float32), points, points.astype(np.float32)]
    pieces = [array.ravel()[start : start + 64] for array in arrays for start in (0, 1000, 2000)]
    return [piece.tobytes() for piece in pieces if len(set(piece.tolist())) > 1]


@pytest.mark.parametrize("written", [by_pickle, by_joblib, by_deep_copy])
@pytest.mark.parametrize("method", ["synopsis", "lloyd", "posterior"])
def test_a_saved_model_holds_neither_labels_nor_records(written, method):
    """False alarm: 64 bytes that are not all equal stand in a file by chance, far below 1e-8."""
    model = DPKMeans(5, epsilon=50.0, bounds=(0, 1), method=method, guarantee="none").fit(X)
    pipeline = make_pipeline(FunctionTransformer(), DPKMeans(5, epsilon=50.0, bounds=(0, 1))).fit(X)
    for fitted, labels in ((model, model.labels_), (pipeline, pipeline[-1].labels_)):
        assert len(labels) == N
        for content in written(fitted):
            assert b"labels_" not in content
            assert not any(trace in content for trace in traces(labels))


def test_labels_would_be_found_if_they_were_saved():
    model = DPKMeans(5, epsilon=50.0, bounds=(0, 1), random_state=0, guarantee="none").fit(X)
    for written in (by_pickle, by_joblib):
        for content in written({"a": model.labels_}):
            assert any(trace in content for trace in traces(model.labels_))


def test_a_loaded_model_predicts_as_before_and_the_fitted_one_keeps_its_labels():
    model = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(other, "labels_")
        assert (other.predict(X) == model.labels_).all()
        assert other.release_.to_dict() == model.release_.to_dict()


def test_bounds_that_are_the_extremes_of_the_records_are_noticed():
    pipeline = make_pipeline(MinMaxScaler(), DPKMeans(3, epsilon=1.0, bounds=(0, 1)))
    with pytest.warns(TightBoundsWarning, match="MinMaxScaler"):
        pipeline.fit(X)
    with pytest.warns(TightBoundsWarning):
        make_synopsis(X, 1.0, (X.min(axis=0), X.max(axis=0)))


@pytest.mark.parametrize("bounds", [(0, 1), (X.min(axis=0), [X[:, 0].max(), 1.0]), (X.min(axis=0) / 2, X.max(axis=0))])
def test_bounds_that_differ_from_the_extremes_in_one_feature_are_not(bounds):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPKMeans(3, epsilon=1.0, bounds=bounds).fit(X)
        DPKMeans(3, bounds="from data", method="lloyd", guarantee="none").fit(X)
        DPKMeans(3, epsilon=1.0, bounds_epsilon=0.1, scale=None).fit(X)
    assert [w for w in caught if w.category is TightBoundsWarning] == []


@pytest.mark.parametrize("action", ["error", "ignore", "always"])
def test_no_filter_makes_the_fit_or_its_release_depend_on_the_warning(action):
    """Whoever sees that a fit failed would otherwise learn that the records fill their bounds."""
    tight = (X.min(axis=0), X.max(axis=0))
    expected = DPKMeans(3, epsilon=1.0, bounds=(0, 1), random_state=0, guarantee="none").fit(X).release_.to_dict()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        release = DPKMeans(3, epsilon=1.0, bounds=tight, random_state=0, guarantee="none").fit(X).release_
    assert release.to_dict().keys() == expected.keys()
    assert "MinMaxScaler" not in str(release.to_dict())
    assert [w.category for w in caught] == ([] if action == "ignore" else [TightBoundsWarning])


def test_the_command_warns_of_tight_bounds_on_stderr_only(tmp_path, capsys):
    data, unit = tmp_path / "data.csv", (X - X.min(axis=0)) / np.ptp(X, axis=0)
    np.savetxt(data, unit, delimiter=",", header="east,north", comments="")
    assert main(["fit", str(data), "--header", "--k", "3", "--bounds", "0:1", "--epsilon", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "warning: in every feature the smallest and the largest record" in err
    assert "Give --bounds that are known" in err
    assert "MinMaxScaler" not in out


def test_a_fitted_model_holds_its_parameters_its_release_and_its_labels_alone():
    model = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X)
    found = set(vars(model)) - set(model.get_params())
    public = {"release_", "cluster_centers_", "n_features_in_", "n_iter_", "n_passes_", "_n_features_out"}
    assert found == public | {"labels_"}
    assert set(vars(copy.copy(model))) - set(model.get_params()) == public


def test_every_refit_of_a_search_spends():
    """What docs/sharp-edges.md says of GridSearchCV: two candidates in three folds and the refit are seven fits."""
    ledger = Ledger()
    model = DPKMeans(epsilon=1.0, bounds=(0, 1), ledger=ledger)
    GridSearchCV(model, {"n_clusters": [2, 3]}, cv=3).fit(X)
    assert float(ledger.spent) == pytest.approx(7.0)
