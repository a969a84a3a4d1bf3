"""A question about records and a release, asked as a fit is: refuse what can be refused, then record and draw.

The unit, the box and the way in which records are read are those of the release.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Generic, TypedDict, TypeVar

from dpkmeans.core.cost import Cost
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim, as_label, check_accepted, check_accountable, claim_of, guarantee_of
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.release import Release
from dpkmeans.core.schema import Schema
from dpkmeans.engines.labels import open_for
from dpkmeans.engines.limits import within_memory
from dpkmeans.engines.open import EngineSpec, OpenedData, open_data
from dpkmeans.engines.persons import Door
from dpkmeans.errors import BudgetError, DataError
from dpkmeans.evaluation.answers import Basis, Profile, Quality
from dpkmeans.methods.persons import UnitBudget, check_unit, schema_with_ids
from dpkmeans.privacy.accounts import LedgerLike, account_for, entered
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage.temporary import remove_abandoned

A = TypeVar("A", Quality, Profile)


class Asking(TypedDict, total=False):
    """How a question is asked; each has the meaning that it has for a fit (`DPKMeans`)."""

    ledger: LedgerLike
    dataset: str | None
    guarantee: str
    engine: EngineSpec
    random_state: Any


@dataclass(frozen=True, eq=False)
class Draw:
    """What a question may use: the opened records, the ledger of records with what is left in it, and randomness."""

    data: OpenedData
    ledger: Ledger
    rng: Randomness

    @property
    def epsilon(self) -> Epsilon:
        """What there is for one record."""
        return self.ledger.remaining


@dataclass(frozen=True, eq=False)
class Question(Generic[A]):
    """Its name in ledgers, how records are opened for it, and how it is answered, given what it rests on."""

    name: str
    opened: Callable[[Door | None, EngineSpec], OpenedData]
    answer: Callable[[Draw, Callable[[], Basis]], A]


def ask(release: Release, epsilon: Any, question: Question[A], how: Asking) -> A:
    """The answer to a question about records and a release, with its identity.

    Guarantee: `proved` at most, and no stronger than that of the release, on whose centroids it depends. What is weaker
    than the caller accepts, or too much for the ledger, is refused before anything is spent.
    """
    unit, rng = release.guarantee.unit, Randomness.of(how.get("random_state"))
    promise = Privacy.of(epsilon, None, None)
    if promise is None:
        raise BudgetError("is missing.", parameter="epsilon", hint="Write, say, {epsilon=0.1}.")
    check_unit(unit, promise, None)
    own = Claim(release.guarantee.label, release.guarantee.reasons, release.guarantee.arithmetic)
    offered = guarantee_of(claim_of(Claim.PROVED, own), replace(release.bounds, from_data=False), rng)
    offered = replace(offered, bounds=release.guarantee.bounds, unit=unit)
    check_accepted(offered, as_label(how.get("guarantee", "proved")))
    ledger = how.get("ledger")
    if isinstance(ledger, DurableLedger | str | PathLike):
        check_accountable(offered)
    remove_abandoned()
    with within_memory(), ExitStack() as stack:
        promised = account_for(ledger, how.get("dataset"), promise, unit=unit.name, note=question.name)
        account = stack.enter_context(promised)
        budget = UnitBudget(Ledger(promise, parent=account), unit, rng)
        data = stack.enter_context(closing(question.opened(budget.door, how.get("engine"))))
        data.reach()

        def basis() -> Basis:
            about = None if release.identity is None else release.identity.digest
            return Basis(about, offered, Cost(promise, budget.units.spends))

        return entered(question.answer(Draw(data, budget.of_records(), rng), basis), account)


def open_features(release: Release, X: Any, door: Door | None, engine: EngineSpec) -> OpenedData:
    """Records with the features of a release, by the door of its persons where there are some."""
    if door is None:
        return open_for(release, X, engine)
    with_ids, columns = schema_with_ids(X, features_of(release), door)
    opened = open_data(columns, engine, schema=with_ids, door=door)
    if opened.n_features != release.bounds.n_features:
        raise DataError(
            f"the records have {opened.n_features} features, and the model {release.bounds.n_features}: "
            f"{', '.join(release.names)}."
        )
    return opened


def features_of(release: Release) -> Schema | None:
    """The columns of a release that has names."""
    if release.schema is not None or release.feature_names is None:
        return release.schema
    return Schema.of_numbers(release.feature_names)
