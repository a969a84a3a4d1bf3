"""Nearest centroids of Dask and Spark objects, where the records are: nothing is computed before it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.data.source import Nulls, arrow_batch
from dpkmeans.engines.dask import chunk_batch
from dpkmeans.engines.packing import pack_batch
from dpkmeans.errors import DataError

CLUSTER = "cluster"


def label_dask(
    collection: Any, columns: Sequence[str] | None, nulls: Nulls, bounds: Bounds, centroids: FloatArray
) -> Any:
    """Labels of a Dask array (n, d) as an array (n,), or of a frame as a series `cluster` with its index. Not private.

    `centroids` (k, d) are in unit coordinates.
    """
    if hasattr(collection, "rechunk"):
        whole = collection.rechunk({1: -1})
        options = {"bounds": bounds, "nulls": nulls, "centroids": centroids}
        return whole.map_blocks(_label_chunk, **options, drop_axis=1, dtype=np.int32, meta=np.empty(0, np.int32))
    frame = collection if columns is None else collection[list(columns)]
    meta = frame._meta.iloc[:, 0].astype(np.int32).rename(CLUSTER)
    return frame.map_partitions(_label_frame, bounds, nulls, centroids, meta=meta)


def label_spark(frame: Any, columns: Sequence[str] | None, nulls: Nulls, bounds: Bounds, centroids: FloatArray) -> Any:
    """The Spark frame with a column `cluster`: its rows have no order, so labels alone mean nothing. Not private."""
    if CLUSTER in frame.columns:
        raise DataError(f"the frame has a column {CLUSTER!r} already. Rename it.")
    names = list(frame.columns if columns is None else columns)

    def label(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            records = arrow_batch(batch, names, "the Spark frame")
            labels = pack_batch(records, bounds, nulls).labels(centroids).astype(np.int32)
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(labels)], [*batch.schema.names, CLUSTER])

    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([*frame.schema.fields, StructField(CLUSTER, IntegerType())])
    return frame.mapInArrow(label, schema)


def _label_chunk(chunk: Any, bounds: Bounds, nulls: Nulls, centroids: FloatArray) -> AnyArray:
    labels: AnyArray = pack_batch(chunk_batch(chunk, "the records"), bounds, nulls).labels(centroids)
    return labels.astype(np.int32)


def _label_frame(frame: Any, bounds: Bounds, nulls: Nulls, centroids: FloatArray) -> Any:
    import pandas as pd

    return pd.Series(_label_chunk(frame, bounds, nulls, centroids), index=frame.index, name=CLUSTER)
