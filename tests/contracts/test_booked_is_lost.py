"""What a ledger books, and what a release or a file claims, is never less than what a unit loses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpkmeans import DPKMeans, DurableLedger, Ledger, Release, Rows
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.data.source import FrameSource
from dpkmeans.errors import BudgetError, FileError, MethodError, TooFewRecordsError

X = np.random.default_rng(0).random((3000, 2))
FRAME = FrameSource(pd.DataFrame(np.random.default_rng(1).random((60_000, 3)), columns=list("abc")), tuple("abc"))


def fit(**options: Any) -> Release:
    return DPKMeans(3, epsilon=1.0, bounds=(0, 1), **options).fit(X).release_


def test_a_fit_per_row_is_refused_through_a_ledger_under_a_data_set_of_persons(tmp_path: Path) -> None:
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", cap=1.0, unit="person")
    with pytest.raises(MethodError, match="person"):
        fit(ledger=Ledger(1.0, parent=store.account("visits", unit="person")))
    assert float(store.dataset("visits").spent) == 0


def test_rows_and_persons_do_not_add_up_in_a_ledger_above_two_others() -> None:
    outer = Ledger(2.0)
    fit(ledger=Ledger(1.0, parent=outer))
    with pytest.raises(MethodError, match="counts per row"):
        fit(ledger=Ledger(1.0, parent=outer), unit=Rows(5))
    assert float(outer.spent) == 1


def test_a_promise_cannot_name_an_epsilon_and_a_delta_that_its_rho_does_not_give() -> None:
    with pytest.raises(BudgetError, match="does not give"):
        Privacy(Epsilon.of(0.1), 1e-9, Rho.of(100))
    for given in ({"delta": 1e-6}, {"epsilon": Epsilon.of(1.0), "rho": Rho.of(0.1)}, {}):
        with pytest.raises(BudgetError, match="a promise is"):
            Privacy(**given)
    promise = Privacy.of(1.0, 1e-6)
    assert promise is not None
    assert promise.in_rho().rho == promise.as_rho()


def proved(delta: float | None = None) -> dict[str, Any]:
    method = None if delta is None else "gaussian"
    return fit(method=method, delta=delta).to_dict() | {"identity": None}


@pytest.mark.parametrize(
    ("delta", "change"),
    [
        (1e-6, {"epsilon_promised": 0.1, "delta": 1e-9, "rho_promised": 100.0}),
        (1e-6, {"epsilon_promised": 0.1}),
        (None, {"spends": []}),
    ],
)
def test_a_file_that_claims_what_no_fit_gives_is_refused(delta: float | None, change: dict[str, Any]) -> None:
    with pytest.raises(FileError, match=r"contradicts|damaged"):
        Release.from_dict(proved(delta) | change)


def test_a_file_cannot_turn_a_row_into_a_person() -> None:
    content = proved()
    content["guarantee"]["unit"] = {"kind": "rows", "at_most": 7}
    with pytest.raises(FileError, match="contradicts"):
        Release.from_dict(content)
    content = fit(unit=Rows(7)).to_dict()
    assert Release.from_dict(content).guarantee.unit == Rows(7)


def test_the_rho_of_a_release_holds_its_pure_spends_too() -> None:
    model = DPKMeans(3, epsilon=4.0, delta=1e-6, bounds_epsilon=1.0, scale="box", method="gaussian").fit(FRAME)
    pure, rho = Epsilon.of(1.0).fraction, [s.rho.fraction for s in model.release_.spends if s.rho is not None]
    assert model.release_.rho_spent == pytest.approx(float(pure**2 / 2 + sum(rho)), rel=1e-12)


def test_several_rows_of_a_person_with_estimated_bounds_and_a_delta_keep_the_promise() -> None:
    options = {"epsilon": 4.0, "delta": 1e-6, "bounds_epsilon": 0.2, "scale": "box", "method": "gaussian"}
    release = DPKMeans(3, unit=Rows(2), **options).fit(FRAME).release_
    assert release.epsilon_spent is not None
    assert 3.99 < release.epsilon_spent <= 4.0


def test_gaussian_noise_under_pure_epsilon_is_refused_before_bounds_are_paid() -> None:
    ledger = Ledger(1.0)
    with pytest.raises(BudgetError, match="Gaussian noise has no pure epsilon"):
        DPKMeans(3, epsilon=1.0, bounds_epsilon=0.1, scale="box", method="gaussian", ledger=ledger).fit(FRAME)
    assert float(ledger.spent) == 0


def test_a_fit_that_stops_after_its_count_says_what_it_cost_a_person() -> None:
    ledger = Ledger(4.0, delta=1e-6)
    with pytest.raises(TooFewRecordsError) as caught:
        DPKMeans(2000, epsilon=4.0, delta=1e-6, bounds=(0, 1), method="gaussian", unit=Rows(5), ledger=ledger).fit(
            X[:9]
        )
    assert f"rho={ledger.loss.rho}" in str(caught.value)
