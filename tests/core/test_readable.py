"""Released values as people read them: texts of cells, and frames."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest

from dpkmeans import Boolean, Category, Date, Guarantee, Number, Release, Schema
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.readable import text
from dpkmeans.errors import FileError

SCHEMA = Schema.of(
    {
        "age": Number(0, 120),
        "region": Category("N", "S"),
        "admitted": Date("2015-01-01", "2025-12-31"),
        "smoker": Boolean(),
    }
)
DAY = (date(2020, 2, 29) - date(1970, 1, 1)).days
RELEASE = Release(
    centroids=np.array([[40.0, 0.2, 0.7, DAY + 0.6, 0.25], [60.0, 0.9, 0.2, DAY + 2, 0.5]]),
    method="su",
    guarantee=Guarantee("proved"),
    bounds=SCHEMA.bounds(),
    epsilon_promised=None,
    spends=(Spend("all", (Epsilon.of(1.0),)),),
    n_passes=1,
    n_iter=1,
    feature_names=SCHEMA.coordinates,
    schema=SCHEMA,
    sizes=(100.5, -3.0),
)


def test_a_frame_has_a_row_per_cluster_with_values_shares_and_noisy_sizes():
    frame = RELEASE.to_frame()
    assert frame.index.name == "cluster"
    assert frame.columns.tolist() == [
        *("age", "region", "region=N", "region=S", "region=other", "admitted", "smoker", "size")
    ]
    assert frame["region"].tolist() == ["S", "N"]
    assert frame["admitted"].dt.strftime("%Y-%m-%d").tolist() == ["2020-02-29", "2020-03-02"]
    assert frame["size"].tolist() == [100.5, -3.0]
    shares = frame[["region=N", "region=S", "region=other"]]
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert np.allclose(shares.loc[0], [0.2, 0.7, 0.1])


def test_a_frame_without_a_schema_has_the_features():
    plain = replace(RELEASE, schema=None, feature_names=None, sizes=None).to_frame()
    assert plain.columns.tolist() == [f"feature {j}" for j in range(5)]
    assert np.array_equal(plain.to_numpy(), RELEASE.centroids)


def test_a_column_called_size_is_not_replaced_by_the_noisy_sizes():
    schema = Schema.of({"size": (0, 10), "age": (0, 120)})
    named = replace(RELEASE, centroids=np.ones((2, 2)), bounds=schema.bounds(), schema=schema, feature_names=None)
    assert named.to_frame().columns.tolist() == ["size", "age", "noisy size"]


def test_without_pandas_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FileError, match="pip install pandas"):
        RELEASE.to_frame()


def test_levels_below_half_a_percent_are_left_out_and_long_ones_are_cut():
    assert text({"N": 0.996, "S": 0.004}) == "N 100 %"
    assert text({"x" * 100: 0.6, "S": 0.2, "E": 0.15, "W": 0.05}) == f"{'x' * 59}… 60 %, S 20 %, E 15 %"


def test_the_frame_is_that_of_a_model_file(tmp_path):
    RELEASE.save(tmp_path / "model.json")
    pd.testing.assert_frame_equal(Release.load(tmp_path / "model.json").to_frame(), RELEASE.to_frame())
