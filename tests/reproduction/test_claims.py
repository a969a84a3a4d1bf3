from __future__ import annotations

import numpy as np

from dpkmeans.reproduction.estimators import FAILS, HOLDS, OPEN
from dpkmeans.reproduction.reproduce import Order, reproduce
from dpkmeans.reproduction.tables import columns


def test_every_claim_gets_a_verdict_on_every_data_set(tiny, tmp_path):
    order = Order(parts=("theorems",), datasets=(tiny,), runs=4, epsilons=(0.5,), k=3)
    found = reproduce(order, tmp_path).tables["theorems"]
    claims = [row["claim"] for row in found]
    assert len(set(claims)) == len(claims)
    for start in ("Cost identity", "Lemma 1", "Lemma 2", "Lemma 3", *(f"Theorem {i}" for i in range(1, 6))):
        assert any(claim.startswith(start) for claim in claims)
    assert {row["verdict"] for row in found} <= {HOLDS, FAILS, OPEN}
    verdicts = {row["claim"]: row["verdict"] for row in found}
    assert verdicts["Cost identity"] == verdicts["Lemma 1, posterior"] == verdicts["Theorem 5, sum"] == HOLDS


def test_columns_are_runs_by_epsilons():
    rows = [
        {"dataset": "a", "method": "prior", "run": run, "epsilon": epsilon, "passes": 10 * run + epsilon}
        for epsilon in (1, 2)
        for run in (1, 0)
    ]
    np.testing.assert_array_equal(columns(rows, "a")["prior"]["passes"], [[1, 2], [11, 12]])
    assert columns(rows, "b") == {}
