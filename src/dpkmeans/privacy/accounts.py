"""The account of one fit: what it promises, and where that is booked."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path

from dpkmeans.core.privacy import Privacy
from dpkmeans.errors import DPKMeansError, LargeDeltaWarning, MethodError, warn
from dpkmeans.privacy.durable.account import Account
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.ledger import Ledger, SpendListener
from dpkmeans.storage.identity import R, identified

LedgerLike = Ledger | DurableLedger | str | PathLike[str] | None
LARGE_DELTA = 1e-3
"""From here on a delta draws a warning, whatever the number of records."""


def promise_for(asked: Privacy | None, *, spends_rho: bool, shared: bool) -> Privacy | None:
    """What a fit promises, given what was asked for.

    A method that spends no rho promises pure epsilon: all of it under (epsilon, delta), the root of 2 rho under rho.
    Under a ledger that is `shared` with other fits, one that does is accounted for in rho from the beginning, so that
    what it reserves is known.
    """
    if asked is None or asked.kind == "epsilon":
        return asked
    if not spends_rho:
        return asked.as_pure()
    return asked.in_rho() if shared else asked


def warn_of_delta(delta: float, n_records: int | None) -> None:
    """Say where a delta is too large, from public numbers alone."""
    if n_records is not None and delta * n_records >= 1:
        why = f"is not below one over the number of records, {n_records}: to publish one record in full would comply."
    elif delta >= LARGE_DELTA:
        why = f"is large: with that probability, nothing is promised. A delta is below {LARGE_DELTA:g} as a rule."
    else:
        return
    hint = "Choose {delta} well below one over the number of records, such as {delta=1e-6}."
    warn(LargeDeltaWarning(why, parameter="delta", value=delta, hint=hint))


def books_rho(ledger: LedgerLike, dataset: str | None) -> bool:
    """Whether spends in rho can be booked: without a ledger, or in one whose cap is no pure epsilon.

    A ledger or data set that is not there gives False here, and an error where its account is opened.
    """
    if ledger is None:
        return True
    if isinstance(ledger, Ledger):
        return ledger.privacy is None or ledger.privacy.kind != "epsilon"
    try:
        durable = ledger if isinstance(ledger, DurableLedger) else DurableLedger(Path(ledger))
        return dataset is not None and durable.dataset(dataset).privacy.kind != "epsilon"
    except (DPKMeansError, TypeError):
        return False


def account_for(
    ledger: LedgerLike, dataset: str | None, promise: Privacy | None, *, unit: str, note: str
) -> AbstractContextManager[SpendListener | None]:
    """The fit's account in the ledger, if there is one. A promised total that the ledger cannot pay is refused here."""
    if ledger is None or isinstance(ledger, Ledger):
        if dataset is not None:
            raise MethodError(
                "names the records in a durable ledger.", parameter="dataset", hint="Write {ledger='ledger.db'} too."
            )
        if ledger is None:
            return nullcontext(None)
        ledger.for_unit(unit)
        return ledger.account(promise)
    if dataset is None:
        raise MethodError(
            "a durable ledger needs the name of the records in it.", hint="Write, say, {dataset='visits'}."
        )
    if not isinstance(ledger, DurableLedger | str | PathLike):
        raise MethodError(
            f"must be a Ledger, a DurableLedger or a path; got {type(ledger).__name__}.", parameter="ledger"
        )
    durable = ledger if isinstance(ledger, DurableLedger) else DurableLedger(Path(ledger))
    return durable.account(dataset, promised=promise, note=note, unit=unit)


def entered(release: R, account: SpendListener | None) -> R:
    """The release with its identity. Under a durable ledger that names its fit, the head of the chain and the cap, and
    the ledger keeps its digest when the fit is settled, here.
    """
    if not isinstance(account, Account):
        return identified(release)
    head, cap = account.standing() or (None, None)
    made = identified(release, dataset=account.dataset, fit=account.fit, head=head, cap=cap)
    account.settle(None if made.identity is None else made.identity.digest)
    return made
