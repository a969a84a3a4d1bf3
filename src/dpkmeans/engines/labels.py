"""Nearest centroids of records, for the data holder: not private. Those of Dask and Spark objects are lazy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.core.schema import Schema
from dpkmeans.data.open import Collection, has_names, is_dask
from dpkmeans.data.source import Files, Nulls, arrow_batch
from dpkmeans.engines.dask import chunk_batch
from dpkmeans.engines.open import EngineSpec, OpenedData, open_data
from dpkmeans.engines.packing import pack_batch
from dpkmeans.engines.same_code import same_code
from dpkmeans.errors import DataError, SchemaError

CLUSTER = "cluster"


def open_for(release: Release, X: Any, engine: EngineSpec = None, columns: Sequence[str] | None = None) -> OpenedData:
    """Records with the features of a release: by its schema, or by the names of its features where `X` has names.

    `columns` names them otherwise, in the order of the features.
    """
    schema = release.schema
    if schema is not None:
        if columns is not None and tuple(columns) != schema.names:
            raise SchemaError(
                f"the model has a schema, with the columns {', '.join(schema.names)}.", hint="Leave {columns} out."
            )
        opened = open_data(X, engine, schema=schema)
    else:
        by_name = columns is None and has_names(X)
        opened = open_data(X, engine, columns=release.feature_names if by_name else columns)
    expected = release.bounds.n_features
    if opened.n_features != expected:
        path = X.path if isinstance(X, Files) else X if isinstance(X, str | Path) else None
        found = f"X has {opened.n_features} features, but DPKMeans is expecting {expected} features as input"
        if path is not None:
            found = f"{path} gives {opened.n_features} column(s); the model was fitted on {expected}"
        raise DataError(f"{found}: {', '.join(release.names)}.", hint="Choose as many with {columns}, in that order.")
    return opened


def predict(release: Release, opened: OpenedData) -> Any:
    """Index of the nearest centroid of each record, shape (n,); lazy for Dask and Spark objects. Not private."""
    if opened.collection is None:
        return np.concatenate([labels.astype(np.int32) for labels in label_batches(release, opened)])
    label = label_dask if is_dask(opened.collection.records) else label_spark
    return label(opened.collection, release.bounds, release.bounds.unit_of(release.centroids))


def label_batches(release: Release, opened: OpenedData) -> Iterator[AnyArray]:
    """The same for records that are read here, some at a time."""
    centroids = release.bounds.unit_of(release.centroids)
    with closing(opened.engine(release.bounds)) as engine:
        yield from engine.label_batches(centroids)


def label_dask(found: Collection, bounds: Bounds, centroids: FloatArray) -> Any:
    """Labels of a Dask array (n, d) as an array (n,), or of a frame as a series `cluster` with its index. Not private.

    `centroids` (k, d) are in unit coordinates.
    """
    label = {"bounds": bounds, "nulls": found.nulls, "centroids": centroids, "schema": found.schema}
    if found.schema is None:
        whole = found.records.rechunk({1: -1})
        return whole.map_blocks(
            same_code(_label_chunk), **label, drop_axis=1, dtype=np.int32, meta=np.empty(0, np.int32)
        )
    import pandas as pd

    meta = pd.Series(dtype=np.int32, index=found.records._meta.index, name=CLUSTER)
    return found.records.map_partitions(same_code(_label_frame), **label, meta=meta)


def label_spark(found: Collection, bounds: Bounds, centroids: FloatArray) -> Any:
    """The Spark frame with a column `cluster`: its rows have no order, so labels alone mean nothing. Not private."""
    frame, schema, nulls = found.records, found.schema, found.nulls
    assert schema is not None
    if CLUSTER in frame.columns:
        raise DataError(f"the frame has a column {CLUSTER!r} already. Rename it.")

    def label(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            records = arrow_batch(batch, schema, "the Spark frame")
            labels = pack_batch(records, bounds, nulls).labels(centroids).astype(np.int32)
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(labels)], [*batch.schema.names, CLUSTER])

    from pyspark.sql.types import IntegerType, StructField, StructType

    layout = StructType([*frame.schema.fields, StructField(CLUSTER, IntegerType())])
    return frame.mapInArrow(same_code(label), layout)


def _label_chunk(chunk: Any, bounds: Bounds, nulls: Nulls, centroids: FloatArray, schema: Schema | None) -> AnyArray:
    labels: AnyArray = pack_batch(chunk_batch(chunk, "the records", schema), bounds, nulls).labels(centroids)
    return labels.astype(np.int32)


def _label_frame(frame: Any, **label: Any) -> Any:
    import pandas as pd

    return pd.Series(_label_chunk(frame, **label), index=frame.index, name=CLUSTER)
