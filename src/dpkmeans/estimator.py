"""What users call first: `DPKMeans`, the scikit-learn estimator."""

from __future__ import annotations

import copy
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpkmeans._typing import FloatArray
from dpkmeans.core.exact import reveal
from dpkmeans.core.unit import Unit
from dpkmeans.data.open import is_dask, is_spark
from dpkmeans.data.source import FrameSource, Nulls
from dpkmeans.data.unsupported import RefusesArguments, refuse_arguments
from dpkmeans.data.validate import is_frame
from dpkmeans.engines.config import Dask, Spark
from dpkmeans.engines.labels import open_for, predict
from dpkmeans.engines.open import EngineSpec, OpenedData
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import DataError
from dpkmeans.methods.base import Method
from dpkmeans.privacy.accounts import LedgerLike
from dpkmeans.session import FitRequest, run


class DPKMeans(RefusesArguments, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Differentially private k-means with the interface of scikit-learn.

    Guarantee: at least what `guarantee` asks for; `release_.guarantee` says what holds and why. By default only
    `proved` is accepted: ε-differential privacy of `release_`, hence of `cluster_centers_`, for neighbours that differ
    by one record, or one person (`unit`), added or removed. Whatever else a fitted model computes from records
    (`labels_`, `predict`, `transform`, `score`) is not private. Source: proofs/README.md lists the proofs.

    Parameters
    ----------
    n_clusters : number of clusters.
    epsilon : total privacy budget. Required by most methods; for `posterior` and `prior` it is a cap.
    delta : allows Gaussian noise, for (epsilon, delta)-differential privacy. Choose it well below one over the number
        of records, such as `1e-6`. Methods without Gaussian noise do not use it.
    rho : a budget for zero-concentrated differential privacy (zCDP), instead of `epsilon`.
    step_epsilon, release_epsilon : budget of each step and of the last step, for `posterior` and `prior`.
    bounds : public bounds `(lower, upper)`, each one number or one per feature, or by name, `{"age": (0, 120)}`, which
        also chooses the columns. Records outside are clipped. `"from data"` reads the bounds from the records, which
        makes the result not private. A `Ball` bounds each record as a whole.
    max_norm : the largest norm of a record, instead of `bounds`; longer records are shortened to it. The same as
        `bounds=Ball(center=0, radius=max_norm)`, for vectors such as embeddings.
    normalize : whether to scale each record and each centroid to norm 1, so that only its direction counts.
    schema : the columns to use, with their kinds, instead of `bounds`: a mapping such as
        `{"age": Number(0, 120), "region": Category("N", "S"), "smoker": Boolean()}`, or the path of a TOML file.
    scale : `"box"` gives every feature the same weight, whatever its width; None keeps the units; a mapping such as
        `{"age": 2.0}` multiplies differences in a column, on top of `"box"`. By default, units are kept, and widths
        that differ more than tenfold are refused. Centroids are always in the units of the data.
    nulls : how to treat missing values: `"refuse"` or `"midpoint"`, unless the schema says otherwise for a column.
    unit : what is protected: `Row()`, the default; `Person("patient_id", at_most=5)`, all rows with the same id; or
        `Rows(5)` if there is no id and nobody has more than five rows.
    method : a name from `dpkmeans.methods.registry()` or a method value.
    guarantee : the weakest label to accept: `"proved"`, `"paper"` or `"none"`.
    init : `"rows"`, `"uniform"`, `"packing"`, or centroids of shape (k, d). By default, the method's own.
    max_iter : largest number of iterations, for methods that stop by themselves.
    n_records : number of records, if it is public. Without it, methods that need it spend a share on a noisy count.
    random_state : a seed. It makes the noise predictable, so the label becomes `none`.
    ledger : a `Ledger` that records every spend of this fit, or a durable one: its path or a `DurableLedger`.
    dataset : name of the records in a durable ledger, whose cap holds for all fits by all users. A spend is on disk
        before its noise is drawn.
    engine : where the work is done: `"memory"`, `"stream"`, `"dask"` or `"spark"`, or a value such as
        `Dask(workers=2)`. By default, arrays and frames are held in memory, files and streams are read once per pass,
        and Dask and Spark objects stay where they are.
    bounds_epsilon : part of `epsilon` to spend on a private estimate of the bounds, instead of `bounds`. Public bounds
        are better if you have any. The columns of files and frames must then be named; see `FrameSource`.
    verbose : print one line about the result.

    Attributes
    ----------
    release_ : `Release`, the public result. Publish this and nothing else.
    cluster_centers_ : released centroids, shape (k, d), in the units of the data.
    labels_ : nearest centroid of each record, shape (n,), for records in memory. Not private: for the data holder only,
        and left out when the model is saved or copied.
    n_iter_, n_passes_ : number of iterations and of passes over the data, without a last pass that only confirms.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> model = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> model.cluster_centers_.shape
    (3, 2)
    >>> model.release_.guarantee.label, model.release_.epsilon_spent
    ('proved', 1.0)
    >>> weaker = DPKMeans(3, bounds=(0, 1), method="posterior", guarantee="paper").fit(X)
    >>> weaker.release_.guarantee.label
    'paper'
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        step_epsilon: float | None = None,
        release_epsilon: float | None = None,
        bounds: Any = None,
        max_norm: float | None = None,
        normalize: bool = False,
        schema: Any = None,
        scale: Any = "auto",
        nulls: Nulls = "refuse",
        unit: Unit | None = None,
        method: str | Method | None = None,
        guarantee: str = "proved",
        init: Any = None,
        max_iter: int | None = None,
        n_records: int | None = None,
        random_state: Any = None,
        ledger: LedgerLike = None,
        dataset: str | None = None,
        engine: EngineSpec = None,
        bounds_epsilon: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.step_epsilon = step_epsilon
        self.release_epsilon = release_epsilon
        self.bounds = bounds
        self.max_norm = max_norm
        self.normalize = normalize
        self.schema = schema
        self.scale = scale
        self.nulls = nulls
        self.unit = unit
        self.method = method
        self.guarantee = guarantee
        self.init = init
        self.max_iter = max_iter
        self.n_records = n_records
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.engine = engine
        self.bounds_epsilon = bounds_epsilon
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> DPKMeans:
        """Cluster the records `X`, shape (n, d): an array, frame, path, `Files`, stream, Dask or Spark object.

        Guarantee: the label of `release_`. A fit whose label would be weaker than `guarantee`, or whose total exceeds
        what the ledger has left, is refused before anything is spent. `y` is ignored, and a `sample_weight` refused: a
        record would add more than the noise covers. Returns the model.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> print(DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_.summary())
        Proved: 1-differential privacy for neighbours that differ by one record added or removed (2 for one replaced).
        """
        refuse_arguments("fit()", unsupported)
        parameters = self.get_params(deep=False)
        verbose = parameters.pop("verbose")
        fitted = run(FitRequest(**parameters, labels=True), X)
        release = self.release_ = fitted.release
        columns = release.feature_names if release.schema is None else release.schema.names
        names = None if columns is None else np.array(columns, dtype=object)
        self.cluster_centers_: FloatArray = release.centroids.copy()
        self.n_features_in_ = release.bounds.n_features if release.schema is None else len(release.schema.columns)
        self.n_iter_ = max(release.n_iter, 1)
        self.n_passes_ = release.n_passes
        self._n_features_out = release.n_clusters
        for name, value in (("labels_", fitted.labels), ("feature_names_in_", names)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)
        if verbose:
            print(f"{release.method}: {release.summary()}")  # noqa: T201 (asked for)
        return self

    def fit_predict(self, X: Any, y: Any = None, **unsupported: Any) -> Any:
        """Fit, then the index of the nearest centroid of each record, as `predict` gives it. Not private.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit_predict(X).shape
        (2000,)
        """
        self.fit(X, y, **unsupported)
        return self.labels_ if "labels_" in vars(self) else self.predict(X)

    def predict(self, X: Any) -> Any:
        """Index of the nearest centroid of each record of `X`, shape (n, d) -> (n,).

        Not private: it tells where each record lies. Keep it with the records. A Dask array gives a lazy Dask array, a
        Dask frame a lazy series, and a Spark frame the same frame with a column `cluster`.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).predict(X[:5]).shape
        (5,)
        """
        check_is_fitted(self)
        return predict(self.release_, self._open(X))

    def transform(self, X: Any) -> FloatArray:
        """Distance of each record to each centroid, shape (n, d) -> (n, k). Not private.

        It is in the units of the data, or, where features are scaled, in those of the scale.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).transform(X[:5]).shape
        (5, 3)
        """
        check_is_fitted(self)
        opened, box = self._open(X), self.release_.bounds
        if opened.chunks is None:
            raise DataError(
                "transform works for records in memory or in files. For Dask and Spark objects, use predict."
            )
        centroids = self._unit_centroids()
        distances = [
            np.stack([np.linalg.norm(grid_points(chunk, box) - c, axis=1) for c in centroids], axis=1)
            for chunk in opened.chunks()
        ]
        return np.concatenate(distances) * box.longest_side

    def score(self, X: Any, y: Any = None, **unsupported: Any) -> float:
        """Minus the k-means cost of `X`, shape (n, d), under the released centroids.

        It is in squared units of the data, or, where features are scaled, in those of the scale.
        Not private: the number is exact. A model chosen by it and then published reveals the choice.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).score(X) < 0
        True
        """
        refuse_arguments("score()", unsupported)
        check_is_fitted(self)
        with closing(self._open(X).engine(self.release_.bounds)) as engine:
            stats = reveal(engine.cell_statistics(self._unit_centroids()), why="a score is for the data holder only")
        return -stats.cost * self.release_.bounds.longest_side**2

    def report(self, path: str | PathLike[str] | None = None) -> str:
        """A self-contained HTML page about `release_`, as text; also written to `path` if one is given.

        Guarantee: that of `release_`, from which alone the page is made.

        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> page = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).report()
        >>> "The decision" in page
        True
        """
        check_is_fitted(self)
        return self.release_.report(None if path is None else Path(path))

    def _open(self, X: Any) -> OpenedData:
        """Records to predict, checked against the names and the number of features of the fit."""
        records = X.records if isinstance(X, FrameSource) else X
        far = is_dask(records) or is_spark(records)
        on_workers = isinstance(self.engine, Dask | Spark) or self.engine in ("dask", "spark")
        engine = self.engine if on_workers == far else None  # records that are here are predicted here
        if is_frame(X) and self.release_.schema is None:
            validate_data(self, X=records, reset=False, skip_check_array=True)
        return open_for(self.release_, X, engine)

    def _unit_centroids(self) -> FloatArray:
        return self.release_.bounds.unit_of(self.cluster_centers_)

    def __sklearn_clone__(self) -> DPKMeans:
        """An unfitted copy. It shares the ledger, since a copied ledger would miss later spends, and the engine."""
        shared = {id(self.ledger): self.ledger, id(self.engine): self.engine}
        parameters = copy.deepcopy(self.get_params(deep=False), shared)
        twin = type(self)(**parameters)
        if hasattr(self, "_sklearn_output_config"):
            twin._sklearn_output_config = copy.deepcopy(self._sklearn_output_config)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """What is saved, copied or sent to another process: everything but `labels_`, which are not private."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "labels_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags
