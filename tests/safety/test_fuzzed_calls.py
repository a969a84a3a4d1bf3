"""Any call of the estimator gives a finite result within its promise, or a typed error. No crash, no NaN."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpkmeans import DPKMeans, Ledger
from dpkmeans.errors import DPKMeansError, NotConvergedWarning, UnsettledWarning, WeakSignalWarning
from dpkmeans.methods.registry import registry

N_CALLS = int(os.environ.get("DPKMEANS_FUZZ_CALLS", "400"))

EDGES = [0.0, -0.0, 0.5, 1.0, 3.0, -1.0, 1e300, -1e300, 1e-300, 5e-324, np.inf, -np.inf, np.nan]
NUMBERS = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, -1.0, 1e300, 1e-300]), st.floats(-2, 2))
ODD = st.sampled_from([None, "x", "", object(), [], {}, b"1", float("nan"), True, -1, 1.5, 10**30, (), np.array(3)])


def mostly(good: st.SearchStrategy[Any], other: st.SearchStrategy[Any] = ODD) -> st.SearchStrategy[Any]:
    """Good values nine times out of ten, so that calls get far enough."""
    return st.integers(0, 9).flatmap(lambda n: other if n == 7 else good)


BOXES = [(0, 1), (-1, 1), (-1e3, 1e3), (0.0, 1e-300), (-1e100, 1e100), "from data"]
METHODS = [None, "su", "blum", "dwork", "gupt", "privgene", "synopsis", "posterior", "prior", "lloyd"]

shapes = st.tuples(st.integers(1, 40), st.integers(1, 4))
arrays = st.one_of(
    hnp.arrays(np.float64, shapes, elements=NUMBERS),
    hnp.arrays(np.float32, shapes, elements=st.floats(-2, 2, width=32)),
    hnp.arrays(np.int64, shapes, elements=st.integers(-3, 3)),
    hnp.arrays(np.bool_, shapes),
)
odd_records = st.one_of(
    hnp.arrays(np.float64, shapes, elements=st.sampled_from(EDGES)),
    hnp.arrays(np.complex128, shapes),
    hnp.arrays(np.float64, st.sampled_from([(0, 2), (3, 0), (4,), (2, 2, 2), ()]), elements=NUMBERS),
    st.sampled_from([None, 3, "records", [["a", "b"]], [[1], [1, 2]], [[1, None]], [[10**400]], {"a": 1}, object()]),
)
sides = st.one_of(st.sampled_from(EDGES), st.lists(st.sampled_from(EDGES), max_size=5), ODD)
budgets = st.sampled_from([1e-9, 1e-6, 0.01, 0.5, 1.0, 20.0, 1000.0])
odd_budgets = st.sampled_from([0, -1, 1e-12, 1001, float("nan"), float("inf"), "1", "x", 10**400, [1.0], None])
good_options = {
    "step_epsilon": budgets,
    "release_epsilon": budgets,
    "init": st.sampled_from(["rows", "uniform", "packing"]),
    "max_iter": st.integers(1, 20),
    "n_records": st.integers(1, 10**6),
}
odd_options = {
    "step_epsilon": odd_budgets,
    "release_epsilon": odd_budgets,
    "init": st.one_of(arrays, ODD),
    "max_iter": ODD,
    "n_records": st.one_of(ODD, st.just(10**12)),
    "random_state": st.one_of(ODD, st.integers(0, 9)),
    "ledger": st.one_of(st.builds(Ledger, budgets), ODD),
    "dataset": ODD,
}


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    """Parameters that fit together, and now and then one that does not."""
    method = draw(mostly(st.sampled_from(METHODS)))
    found: dict[str, Any] = {
        "n_clusters": draw(mostly(st.integers(1, 6), st.one_of(ODD, st.sampled_from([50, 2**40, 0])))),
        "epsilon": draw(mostly(budgets, odd_budgets)),
        "bounds": draw(mostly(st.sampled_from(BOXES), st.one_of(st.tuples(sides, sides), ODD))),
        "method": method,
        "guarantee": draw(mostly(st.sampled_from(["none"] * 4 + ["paper", "proved"]))),
    }
    takes = registry()[method].options if isinstance(method, str) and method in registry() else ()
    for name in sorted(set(takes) & set(good_options)):
        if draw(st.booleans()):
            found[name] = draw(good_options[name])
    if draw(st.integers(0, 6)) == 4:
        name = draw(st.sampled_from(sorted(odd_options)))
        found[name] = draw(odd_options[name])
    return found


@settings(max_examples=N_CALLS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(mostly(arrays, odd_records), calls())
def test_any_call_gives_a_sane_result_or_a_typed_error(records, options):
    model = DPKMeans(**options)
    with warnings.catch_warnings():
        for ours in (NotConvergedWarning, UnsettledWarning, WeakSignalWarning):
            warnings.simplefilter("ignore", ours)
        try:
            model.fit(records)
        except DPKMeansError as error:
            event(f"refused: {type(error).__name__}")
            return
        event("fitted")
        release = model.release_
        assert release.centroids.shape == (options["n_clusters"], np.asarray(records).shape[1])
        assert np.isfinite(release.centroids).all()
        if release.epsilon_promised is not None:
            assert release.epsilon_spent <= release.epsilon_promised
        if release.guarantee.label == "proved":
            assert "random_state" not in options or options["random_state"] is None
            assert (release.centroids >= release.bounds.lower).all()
            assert (release.centroids <= release.bounds.upper).all()
        labels = model.predict(records)
        assert labels.shape == (len(records),)
        assert ((labels >= 0) & (labels < options["n_clusters"])).all()
