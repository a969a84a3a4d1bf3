"""One session: whoever asks, the same request gives the same release."""

from __future__ import annotations

import ast
import inspect
import json
import warnings
from pathlib import Path
from types import FunctionType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpkmeans
from dpkmeans import Boolean, Category, DPKMeans, Number, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.errors import (
    BudgetError,
    DataTypeError,
    MisfitWarning,
    NotConvergedWarning,
    TightBoundsWarning,
    WeakSignalWarning,
)
from dpkmeans.session import FitRequest, run, run_synopsis

X = np.random.default_rng(11).uniform(1, 99, (2000, 2))
SEEDED = {"n_clusters": 3, "epsilon": 1.0, "guarantee": "none", "random_state": 7}
BOX = ((0.0, 0.0), (100.0, 100.0))
FOLDER = Path(dpkmeans.__file__).parent


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "visits.csv"
    pd.DataFrame(X, columns=["east", "north"]).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("method", [None, "lloyd", "synopsis-posterior", "su"])
def test_the_estimator_the_command_and_the_session_give_the_same_release(method, file, capsys):
    request = FitRequest(**SEEDED, method=method, bounds=BOX, feature_names=("east", "north"))
    release = run(request, X).release.to_dict()
    frame = pd.DataFrame(X, columns=["east", "north"])
    assert DPKMeans(**SEEDED, method=method, bounds=BOX).fit(frame).release_.to_dict() == release
    options = ["--k", "3", "--epsilon", "1", "--guarantee", "none", "--seed", "7", "--bounds", "0:100", "--header"]
    assert main(["fit", file, *options, *(["--method", method] if method else []), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(release))


def test_make_synopsis_and_its_command_give_the_same_synopsis(file, tmp_path, capsys):
    out = tmp_path / "synopsis.json"
    options = ["--k", "3", "--epsilon", "1", "--guarantee", "none", "--seed", "7", "--bounds", "0:100", "--header"]
    assert main(["synopsis", file, *options, "--out", str(out)]) == 0
    frame = pd.DataFrame(X, columns=["east", "north"])
    ours = make_synopsis(frame, 1.0, BOX, n_clusters=3, guarantee="none", random_state=7)
    theirs = dpkmeans.Synopsis.load(out)
    assert (ours.points == theirs.points).all()
    assert ours.feature_names == theirs.feature_names == ("east", "north")
    assert run_synopsis(FitRequest(**SEEDED, bounds=BOX), X).feature_names is None


@pytest.mark.parametrize(
    "frame",
    [
        lambda: pd.DataFrame(X, columns=["east", "north"]),
        lambda: pl.DataFrame(X, schema=["east", "north"]),
        lambda: pa.table({"east": X[:, 0], "north": X[:, 1]}),
    ],
)
def test_a_release_names_features_after_the_columns_of_any_frame(frame):
    model = DPKMeans(**SEEDED, bounds=BOX).fit(frame())
    assert model.release_.feature_names == model.release_.names == ("east", "north")
    assert model.feature_names_in_.tolist() == ["east", "north"]


def test_features_without_names_are_numbered():
    model = DPKMeans(**SEEDED, bounds=BOX).fit(pd.DataFrame(X))
    assert model.release_.feature_names is None
    assert model.release_.names == ("feature 0", "feature 1")
    assert not hasattr(model, "feature_names_in_")


def test_a_frame_that_names_some_of_its_columns_only_is_refused():
    with pytest.raises(DataTypeError):
        DPKMeans(**SEEDED, bounds=BOX).fit(pd.DataFrame(X, columns=["east", 1]))


def test_labels_are_made_only_where_they_are_asked_for():
    request = FitRequest(**SEEDED, bounds=BOX)
    assert run(request, X).labels is None
    model = DPKMeans(**SEEDED, bounds=BOX).fit(X)
    assert (model.labels_ == model.predict(X)).all()


def test_a_request_has_the_parameters_of_the_estimator():
    asked = set(inspect.signature(FitRequest).parameters) - {"feature_names", "labels"}
    assert asked == set(inspect.signature(DPKMeans).parameters) - {"verbose"}


def test_a_refused_request_does_not_open_the_records():
    class Untouched:
        def __getattr__(self, name):
            raise AssertionError(name)

    for wrong in ({"n_clusters": 0}, {"epsilon": -1}, {"guarantee": "some"}, {"random_state": "x"}, {"method": "none"}):
        with pytest.raises(dpkmeans.errors.DPKMeansError):
            run(FitRequest(**{"bounds": (0, 1), "epsilon": 1.0, **wrong}), Untouched())


def test_nothing_but_the_session_runs_a_method_on_an_engine():
    """`release_` has one origin: no command, and not the estimator, calls a method, opens an account or settles one."""
    for path in (FOLDER / "estimator.py", *(FOLDER / "cli").glob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        called = {n.func.attr for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
        named = {n.id for n in nodes if isinstance(n, ast.Name)}
        assert not {"account", "settle"} & called, path.name
        assert not {"guarantee_of", "make_method", "estimate_bounds", "Ledger"} & named, path.name


@pytest.mark.parametrize(
    ("category", "parameters"),
    [
        (NotConvergedWarning, {"method": "lloyd", "max_iter": 1, "epsilon": None}),
        (WeakSignalWarning, {"epsilon": 0.001}),
        (TightBoundsWarning, {"bounds": (X.min(axis=0), X.max(axis=0))}),
    ],
)
def test_a_warning_points_at_the_line_of_the_user(category, parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPKMeans(**{**SEEDED, "bounds": BOX, **parameters}).fit(X)
    assert [w.filename for w in caught if w.category is category] == [__file__]


def test_booleans_and_categories_alone_do_not_look_like_bounds_from_the_records():
    table = pd.DataFrame({"smoker": [True, False] * 200, "region": ["N", "S"] * 200, "age": [0, 100] * 200})
    shares = {"smoker": Boolean(), "region": Category("N", "S")}
    with warnings.catch_warnings():
        warnings.simplefilter("error", TightBoundsWarning)
        DPKMeans(2, epsilon=1.0, schema=shares).fit(table)
    with pytest.warns(TightBoundsWarning):
        DPKMeans(2, epsilon=1.0, schema={**shares, "age": Number(0, 100)}, scale="box").fit(table)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"sex": Category("male", "female"), "mass": Number(2000, 7000)}, r"no record has any of its levels.*'sex'"),
        ({"sex": Category("MALE"), "mass": Number(2, 7)}, r"no record lies between its bounds.*'mass'.*the unit"),
    ],
)
def test_the_data_holder_is_told_of_levels_and_bounds_that_fit_no_record(schema, says):
    table = pd.DataFrame({"sex": ["MALE", "FEMALE"] * 500, "mass": [3500.0, 4500.0] * 500})
    with pytest.warns(MisfitWarning, match=says):
        DPKMeans(2, epsilon=1.0, schema=schema, scale="box").fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MisfitWarning)  # not an error all the same: it would tell of the records
        DPKMeans(2, epsilon=1.0, schema=schema, scale="box").fit(table)


def test_a_share_for_the_bounds_that_takes_all_is_refused_in_both_notations(file, capsys):
    with pytest.raises(BudgetError, match=r"^bounds_epsilon=1.0 leaves nothing .* A tenth of epsilon"):
        DPKMeans(3, epsilon=1.0, bounds_epsilon=1.0, scale=None).fit(X)
    named = ["--columns", "east,north", "--epsilon", "1", "--scale", "none"]
    assert main(["fit", file, *named, "--bounds-epsilon", "1"]) == 3
    assert "error: --bounds-epsilon 1.0 leaves nothing" in capsys.readouterr().err


def test_a_fit_called_from_code_without_a_module_name_warns_and_succeeds():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]] * 100)
    model = DPKMeans(1, epsilon=1.0, bounds=(0, 1), n_records=300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FunctionType((lambda model, X: model.fit(X)).__code__, {})(model, X)
    assert any(issubclass(w.category, TightBoundsWarning) for w in caught)
    assert model.release_.guarantee.label == "proved"
