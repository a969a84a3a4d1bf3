"""From a request to a release: check, open, bounds, engine, method, settle, name. Nothing else orchestrates a fit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dpkmeans._typing import LabelArray
from dpkmeans.core.ball import Ball, ball_of
from dpkmeans.core.bounds import FROM_DATA, Bounds
from dpkmeans.core.checks import check_n_clusters
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim, as_label, check_accepted, check_accountable, claim_of, guarantee_of
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.release import Release
from dpkmeans.core.schema import AUTO, SCALES, Schema, check_scale, check_weighed, scaled
from dpkmeans.core.unit import Person, Row, Unit, as_unit
from dpkmeans.core.vectors import Vector
from dpkmeans.data.open import nulls_of
from dpkmeans.data.source import Files, FrameSource, Nulls
from dpkmeans.engines.limits import within_memory
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.odd_bounds import look_at, warn_holder
from dpkmeans.engines.open import EngineSpec, OpenedData, open_data
from dpkmeans.engines.survey import bounds_around
from dpkmeans.errors import BoundsError, BudgetError, DataError, MethodError, SchemaError, TooFewRecordsError
from dpkmeans.methods.base import Method
from dpkmeans.methods.bounds_estimate import check_share, estimate_bounds
from dpkmeans.methods.persons import UnitBudget, check_unit, schema_with_ids
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.accounts import LedgerLike, account_for, books_rho, entered, promise_for, warn_of_delta
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage.schema_files import read_schema
from dpkmeans.storage.temporary import remove_abandoned
from dpkmeans.synopsis.method import SynopsisMethod, as_synopsis, build, counted
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.wide.choice import ByFeatures, are_many, known_features
from dpkmeans.wide.method import gaussian
from dpkmeans.wide.synopsis import GaussianSynopsis

DEFAULT_METHOD = "synopsis"
R = TypeVar("R", Release, Synopsis)
R_co = TypeVar("R_co", bound=Release | Synopsis, covariant=True)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitRequest:
    """What a caller asks for, as it was written: the parameters of `DPKMeans`, checked by `run`.

    `feature_names` are for records that carry none. `labels` asks for the nearest centroid of each record in memory,
    which is not private.
    """

    n_clusters: int = 8
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    step_epsilon: float | None = None
    release_epsilon: float | None = None
    bounds: Any = None
    schema: Any = None
    scale: Any = AUTO
    nulls: Nulls = "refuse"
    unit: Unit | None = None
    max_norm: float | None = None
    normalize: bool = False
    bounds_epsilon: float | None = None
    method: str | Method | None = None
    guarantee: str = "proved"
    init: Any = None
    max_iter: int | None = None
    n_records: int | None = None
    random_state: Any = None
    ledger: LedgerLike = None
    dataset: str | None = None
    engine: EngineSpec = None
    feature_names: tuple[str, ...] | None = None
    labels: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Generic[R_co]):
    """The public `release`, and for the data holder alone the `labels`, shape (n,), where they were asked for."""

    release: R_co
    labels: LabelArray | None = None


def run(request: FitRequest, X: Any) -> Fitted[Release]:
    """Fit the records `X`, shape (n, d): an array, frame, path, `Files`, stream, Dask or Spark object.

    Guarantee: that of the method, weakened by a seed or by bounds read from the records. What is weaker than
    `request.guarantee`, or too much for the ledger, is refused before anything is spent.

    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> run(FitRequest(n_clusters=3, epsilon=1.0, bounds=(0, 1)), X).release.epsilon_spent
    1.0
    """
    with within_memory():
        return _run(request, _method(request, X), X)


def run_synopsis(request: FitRequest, X: Any) -> Synopsis:
    """Make a synopsis of the records `X`, shape (n, d), in place of a fit; see `make_synopsis`."""
    counted(request.n_records)  # refuses what is no number
    work: _Work[Synopsis] = _SynopsisAlone(request.n_records)
    if (request.delta is not None or request.rho is not None) and _many_features(request, X):
        work = GaussianSynopsis(gaussian(n_records=request.n_records).n_records)
    with within_memory():
        return _run(request, work, X).release


class _Work(Protocol[R_co]):
    """What is done once the engine is ready: a method, or the making of a synopsis."""

    @property
    def name(self) -> str: ...
    @property
    def claim(self) -> Claim: ...
    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> R_co: ...


@dataclass(frozen=True)
class _SynopsisAlone:
    n_records: int | None
    name: str = "synopsis"
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = True

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Synopsis:
        method = SynopsisMethod(self.name, counted(self.n_records), recentre=False)
        built, plan = build(engine, n_clusters, method, ledger=ledger, rng=rng)
        return as_synopsis(built.points, engine, ledger, rng, kind=type(plan.builder).__name__.lower())


def _run(request: FitRequest, work: _Work[R], X: Any) -> Fitted[R]:
    remove_abandoned()
    request = replace(request, bounds=ball_of(request.bounds, request.max_norm, request.normalize))
    schema, unit = _schema(request), as_unit(request.unit)
    rng = Randomness.of(request.random_state)
    promise = _promise(request, work)
    share = _check(request, work, X, rng, schema, promise)
    with ExitStack() as stack:
        promised = account_for(request.ledger, request.dataset, promise, unit=unit.name, note=work.name)
        account = stack.enter_context(promised)
        budget = UnitBudget(Ledger(promise, parent=account), unit, rng)
        data = stack.enter_context(closing(_opened(request, X, schema, budget)))
        unknown = _unknown(data, schema)
        if share is None:
            box = scaled(_bounds(request, data, schema), request.scale, schema, data.names)
        else:
            box = Bounds((0.0,), (1.0,))
            _check_estimable(request, data, schema, share, len(unknown))
        data.reach()
        if share is not None:
            names = None if data.names is None else [data.names[j] for j in unknown]
            alone, ledger = len(unknown) == data.n_features, budget.of_records()
            estimate = estimate_bounds(data.survey, unknown, share, ledger=ledger, rng=rng, names=names, alone=alone)
            estimate.warn(names)
            box = estimate.bounds if schema is None else schema.bounds(estimate.bounds)
            schema = None if schema is None else schema.with_bounds(box)
            box = scaled(box, request.scale, schema, data.names)
        with closing(data.engine(box)) as engine:
            given_in_memory = isinstance(engine, MemoryEngine) and share is None and not box.from_data
            odd = look_at(box, schema, data.chunks()) if given_in_memory and data.chunks is not None else []
            release = work.run(engine, int(request.n_clusters), ledger=budget.of_records(), rng=rng)
            labels = None
            if request.labels and isinstance(engine, MemoryEngine) and isinstance(release, Release) and not budget.door:
                labels = engine.labels(box.unit_of(release.centroids))
        release = budget.of_units(release)
        if share is not None:
            release = replace(release, guarantee=replace(release.guarantee, bounds="estimated"))
            if isinstance(release, Release):
                findings = estimate.findings(names)
                release = replace(release, parameters={**release.parameters, "estimated_bounds": findings})
        schema = None if schema is None else schema.with_missing(nulls_of(X, request.nulls))
        release = replace(release, feature_names=request.feature_names or data.names, schema=schema)
        release = entered(release, account)
    warn_holder(odd)
    return Fitted(release, labels)


def _opened(request: FitRequest, X: Any, schema: Schema | None, budget: UnitBudget) -> OpenedData:
    """The records, with the ids of persons as the last column where there are persons."""
    if budget.door is None:
        return open_data(X, request.engine, schema=schema, nulls=request.nulls)
    with_ids, columns = schema_with_ids(X, schema, budget.door)
    opened = open_data(columns, request.engine, schema=with_ids, nulls=request.nulls, door=budget.door)
    return replace(opened, named=schema is not None or columns is not X)


def _method(request: FitRequest, X: Any) -> Method:
    names = ("step_epsilon", "release_epsilon", "init", "max_iter", "n_records")
    options = {name: getattr(request, name) for name in names}
    method = DEFAULT_METHOD if request.method is None else request.method
    if isinstance(method, str):
        made, promised = make_method(method, **options), request.delta is not None or request.rho is not None
        if method != DEFAULT_METHOD or not promised:
            return made
        many = gaussian(n_records=request.n_records)
        if request.ledger is None and as_unit(request.unit) == Row():
            return ByFeatures(made, many)
        return many if _many_features(request, X) else made
    if not hasattr(method, "claim") or not hasattr(method, "run"):
        raise MethodError(
            f"must be a name or a method value; got {method!r}.",
            parameter="method",
            hint="Write {method='posterior'} or method=posterior(step_epsilon=0.1), for example.",
        )
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise MethodError(f"a method value carries its own {', '.join(given)}; set them there.")
    return method


def _many_features(request: FitRequest, X: Any) -> bool:
    """Whether Gaussian noise is the default where a promise is turned into rho before the records are opened."""
    if request.bounds_epsilon is not None or not books_rho(request.ledger, request.dataset):
        return False
    return are_many(known_features(X, _schema(request), request.bounds, int(isinstance(request.unit, Person))))


def _promise(request: FitRequest, work: _Work[Any]) -> Privacy | None:
    """What the fit promises: pure epsilon for methods without Gaussian noise, whatever was asked for."""
    asked, spends_rho = Privacy.of(request.epsilon, request.delta, request.rho), getattr(work, "spends_rho", False)
    if request.delta is not None and spends_rho:
        warn_of_delta(float(request.delta), request.n_records)
    counted_apart = request.ledger is not None or as_unit(request.unit) != Row()
    return promise_for(asked, spends_rho=spends_rho, shared=counted_apart)


def _schema(request: FitRequest) -> Schema | None:
    """The schema: a value, a mapping, or a file; or bounds that are given by name."""
    if request.schema is None:
        return Schema.of(request.bounds, "bounds") if isinstance(request.bounds, Mapping) else None
    if request.bounds is not None and not isinstance(request.bounds, Ball):
        raise SchemaError("a schema holds the bounds.", hint="Give {schema} or {bounds}, not both.")
    if isinstance(request.schema, str | PathLike):
        return read_schema(request.schema)
    return Schema.of(request.schema)


def _check(
    request: FitRequest, work: _Work[Any], X: Any, rng: Randomness, schema: Schema | None, promise: Privacy | None
) -> Epsilon | None:
    """Refuse whatever can be refused without a look at the records. Returns the share of an estimate of the bounds."""
    accepted, k = as_label(request.guarantee), check_n_clusters(request.n_clusters)
    check_scale(request.scale)
    check_unit(as_unit(request.unit), promise, request.n_records)
    if promise is not None and getattr(work, "spends_rho", False):
        promise.as_rho()  # refuses pure epsilon
    if promise is None and getattr(work, "needs_epsilon", False):
        raise BudgetError("is missing.", parameter="epsilon", hint="Write, say, {epsilon=1.0}.")
    if request.n_records is not None and k > request.n_records:
        raise TooFewRecordsError(
            f"must be at most {request.n_records}, the number of records that you give; got {k}.",
            parameter="n_clusters",
            hint="Ask for fewer clusters, or correct {n_records}.",
        )
    share, bounds = _bounds_share(request, schema, promise), request.bounds
    from_data = bounds.from_data if isinstance(bounds, Bounds) else isinstance(bounds, str) and bounds == FROM_DATA
    if schema is not None and share is None:
        scaled(_of_schema(schema, bounds), request.scale, schema, None)
    elif share is None and not from_data:
        columns = X.columns if isinstance(X, Files | FrameSource) else None
        Bounds.check(bounds, None if columns is None else len(columns))
    offered = guarantee_of(claim_of(work), Bounds((0.0,), (1.0,), from_data=from_data), rng)
    check_accepted(offered, accepted)
    if isinstance(request.ledger, DurableLedger | str | PathLike):
        check_accountable(offered)
    return share


def _bounds_share(request: FitRequest, schema: Schema | None, promise: Privacy | None) -> Epsilon | None:
    """What to spend on a private estimate of the bounds; None where they are given."""
    if request.bounds_epsilon is None:
        return None
    if request.bounds is not None or (schema is not None and None not in schema.sides):
        raise BoundsError(
            "bounds were given, and an estimate of them was asked for.",
            hint="Give {bounds} or {bounds_epsilon}, not both. With public bounds nothing is spent on them.",
        )
    if isinstance(request.unit, Person) and request.unit.at_most == "auto":
        raise BoundsError(
            "needs to know how many rows of a person count.",
            parameter="bounds_epsilon",
            hint="Give {at_most} a number, or give {bounds}.",
        )
    share = Epsilon.of(request.bounds_epsilon, "bounds_epsilon")
    if promise is not None and share >= promise.pure:
        raise BudgetError(
            f"leaves nothing of the total, {request.epsilon or promise}, for the clusters.",
            parameter="bounds_epsilon",
            value=request.bounds_epsilon,
            hint="A tenth of {epsilon} is a good share.",
        )
    return share.per(as_unit(request.unit).records)


def _check_estimable(
    request: FitRequest, data: OpenedData, schema: Schema | None, share: Epsilon, n_unknown: int
) -> None:
    """Refuse an estimate of the bounds that would take in columns by accident, is not clear, or cannot succeed."""
    if not data.named:
        raise MethodError(
            "needs the columns by name: an id among them would be taken for a feature, and paid for.",
            parameter="bounds_epsilon",
            hint="Name them with {columns}, or in a {schema}, where Number() without ends is a number to be estimated.",
        )
    if data.n_features > 1 and isinstance(request.scale, str) and request.scale == AUTO:
        raise SchemaError(
            "with estimated bounds, the widths of the features are not known in advance. Say how to scale them.",
            hint=SCALES,
        )
    if schema is not None and any(isinstance(column.kind, Vector) for column in schema.columns):
        raise BoundsError(
            "the bounds of a vector are not estimated: each of its numbers would take a share.",
            hint="Give the largest norm that it can have with {max_norm=1.0}, or {normalize=True}.",
        )
    known = [f"feature {j}" for j in range(data.n_features)] if data.names is None else list(data.names)
    check_weighed(request.scale, known if schema is None else schema.names)
    check_share(share, n_unknown, request.n_records)


def _of_schema(schema: Schema, bounds: Any) -> Bounds:
    return schema.in_ball(bounds) if isinstance(bounds, Ball) else schema.bounds()


def _unknown(data: OpenedData, schema: Schema | None) -> list[int]:
    """The features whose bounds are not given."""
    if schema is None:
        return list(range(data.n_features))
    return [j for j, side in enumerate(schema.sides) if side is None]


def _bounds(request: FitRequest, data: OpenedData, schema: Schema | None) -> Bounds:
    if schema is not None:
        return _of_schema(schema, request.bounds)
    if not (isinstance(request.bounds, str) and request.bounds == FROM_DATA):
        return Bounds.of(request.bounds, data.n_features)
    try:
        return bounds_around(data.survey_of_rows or data.survey, data.n_features)
    except BoundsError as error:
        raise DataError(error.message, hint=error.hint) from None
