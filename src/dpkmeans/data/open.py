"""What a user hands over, and the engine that fits it: arrays, frames, files, streams, Dask and Spark objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.data.files import open_files
from dpkmeans.data.source import ArrayPiece, Files, FrameSource, Source, checked_nulls, open_array, open_iterable
from dpkmeans.data.spool import open_arrow_stream
from dpkmeans.data.validate import as_records
from dpkmeans.engines.block_engine import BlockEngine
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.config import Dask, Spark, Stream
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import Nulls, pack_batch
from dpkmeans.errors import DataError, MethodError
from dpkmeans.methods.bounds_estimate import chunks_of

Where = str | Stream | Dask | Spark | None
ENGINES = ("memory", "stream", "dask", "spark")
MAX_SENT = 2**27  # numbers, a gigabyte
LARGE_MAP = 2**28  # bytes from which a memory map is read again for each pass
_ROWS = 2**16
_FRAMES = ("pandas.", "polars.", "pyarrow.", "narwhals.")


@dataclass(frozen=True, eq=False, repr=False)
class OpenedData:
    """Records that are ready for an engine. `records` holds them where they are an array in memory.

    `chunks` reads them here, some at a time, shape (n, d) each; None where they stay on other machines.
    """

    n_features: int
    names: tuple[str, ...] | None
    engine: Callable[[Bounds], BlockEngine]
    read_bounds: Callable[[], Bounds]
    records: AnyArray | None = None
    chunks: Callable[[], Iterator[AnyArray]] | None = None
    nulls: Nulls = "refuse"


def open_data(X: Any, engine: Where = None, *, columns: Sequence[str] | None = None) -> OpenedData:
    """Records `X` for the engine that was asked for, or the one that suits them. No pass over them yet.

    `columns` chooses and orders columns by name, for everything that has names and stays outside memory.
    """
    if isinstance(X, OpenedData):
        return X
    where = _where(engine)
    if isinstance(X, str | Path):
        X = Files(X)
    if isinstance(X, Files):
        return _of_source(open_files(X if columns is None else replace(X, columns=tuple(columns))), where or Stream())
    nulls: Nulls = "refuse"
    if isinstance(X, FrameSource):
        X, columns, nulls = X.records, X.columns if columns is None else columns, checked_nulls(X.nulls)
    if is_dask(X):
        return _of_dask(X, _only(where, Dask, "a Dask collection") or Dask(), columns, nulls)
    if is_spark(X):
        return _of_spark(X, _only(where, Spark, "a Spark frame") or Spark(session=X.sparkSession), columns, nulls)
    chosen = columns is not None or nulls != "refuse"
    asked = where not in (None, "memory") or chosen
    source = None if where == "memory" and not chosen else _streamed(X, columns, nulls, asked=asked)
    if source is not None:
        if isinstance(where, Dask | Spark):
            source = _to_send(source)
        return _of_source(source, where or ("memory" if chosen and _fits(X) else Stream()))
    records = as_records(X)
    return OpenedData(
        records.shape[1],
        None,
        lambda bounds: MemoryEngine.of_records(records, bounds),
        lambda: Bounds.read_from(records),
        records,
        lambda: chunks_of(records),
    )


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask array or frame."""
    return type(X).__module__.startswith(("dask.", "dask_expr."))


def is_spark(X: Any) -> bool:
    """Whether `X` is a Spark frame."""
    return type(X).__module__.startswith("pyspark.")


def _where(engine: Where) -> Stream | Dask | Spark | str | None:
    if engine is None or isinstance(engine, Stream | Dask | Spark) or engine == "memory":
        return engine
    kinds: dict[str, type[Stream] | type[Dask] | type[Spark]] = {"stream": Stream, "dask": Dask, "spark": Spark}
    if not isinstance(engine, str) or engine not in kinds:
        raise MethodError(
            f"must be one of {', '.join(ENGINES)}, or a value such as Dask(workers=2); got {engine!r}.",
            parameter="engine",
        )
    return kinds[engine]()


def _only(where: Any, kind: type, what: str) -> Any:
    if where is not None and not isinstance(where, kind):
        raise MethodError(f"{what} needs its own engine.", hint=f"Write {{engine={kind.__name__.lower()!r}}}.")
    return where


def _streamed(X: Any, columns: Sequence[str] | None, nulls: Nulls, *, asked: bool) -> Source | None:
    """A source for what can be read again and again; None for what belongs in memory."""
    if isinstance(X, np.memmap) and (asked or X.nbytes >= LARGE_MAP) and X.ndim == 2:
        return open_array(X, nulls)
    if hasattr(X, "__arrow_c_stream__") and (asked or not _fits(X)):
        return open_arrow_stream(X, columns, nulls)
    if columns is not None:
        raise DataError(f"columns are chosen by name, and {type(X).__name__} has no names. Choose them before.")
    chunks = isinstance(X, list | tuple) and len(X) > 0 and all(getattr(item, "ndim", 0) == 2 for item in X)
    lazy = hasattr(X, "__iter__") and not hasattr(X, "__len__") and not hasattr(X, "__array__")
    if (lazy and not _fits(X)) or (asked and chunks):
        return open_iterable(X, nulls)
    return open_array(as_records(X), nulls) if asked else None


def _fits(X: Any) -> bool:
    """Whether `X` is in memory already."""
    is_frame = (type(X).__module__ + ".").startswith(_FRAMES) and type(X).__name__ != "RecordBatchReader"
    return is_frame or hasattr(X, "__array__")


def _to_send(source: Source) -> Source:
    """The same records as arrays, which go to the workers with their tasks, so that a lost worker gets them again."""
    arrays, n = [], 0
    for piece in source.pieces:
        for batch in piece.batches(_ROWS):
            n += batch.n * source.n_features
            if n > MAX_SENT:
                raise DataError(
                    f"at most {MAX_SENT} numbers can be sent from here to workers; there are more. Write the records "
                    "to Parquet files that every worker can read."
                )
            arrays.append(np.column_stack([np.asarray(column, dtype=np.float64) for column in batch.columns]))
    return replace(source, pieces=(ArrayPiece(np.concatenate(arrays)),), keep=None)


def _of_source(source: Source, where: Stream | Dask | Spark | str) -> OpenedData:
    def engine(bounds: Bounds) -> BlockEngine:
        if isinstance(where, Stream):
            from dpkmeans.engines.stream import StreamEngine

            return StreamEngine(
                source, bounds, batch_rows=where.batch_rows, n_threads=where.n_threads, watch=where.watch
            )
        if isinstance(where, Dask):
            from dpkmeans.engines.dask import DaskEngine

            client, close = where.connect()
            return DaskEngine.of_source(client, source, bounds, watch=where.watch, on_close=close)
        if isinstance(where, Spark):
            from dpkmeans.engines.spark import SparkEngine

            session, close = where.connect()
            return SparkEngine.of_source(session, source, bounds, watch=where.watch, on_close=close)
        return _in_memory(source, bounds)

    def box() -> Bounds:
        return _box_around(source)

    return OpenedData(source.n_features, source.names, engine, box, chunks=lambda: _chunks(source), nulls=source.nulls)


def _chunks(source: Source) -> Iterator[FloatArray]:
    for piece in source.pieces:
        for batch in piece.batches(_ROWS):
            yield np.column_stack([np.asarray(column, dtype=np.float64) for column in batch.columns])


def _in_memory(source: Source, bounds: Bounds) -> MemoryEngine:
    packed = [pack_batch(batch, bounds, source.nulls) for piece in source.pieces for batch in piece.batches(_ROWS)]
    points = np.concatenate([block.rows(np.arange(block.n)) for block in packed])
    return MemoryEngine.of_block(block_of_points(points), bounds)


def _box_around(source: Source) -> Bounds:
    """The smallest box around the records. Not private."""
    lower, upper = np.full(source.n_features, np.inf), np.full(source.n_features, -np.inf)
    for piece in source.pieces:
        for batch in piece.batches(_ROWS):
            for j, column in enumerate(batch.columns):
                values: FloatArray = np.asarray(column, dtype=np.float64)
                missing = np.isnan(values)
                if missing.any() and source.nulls == "refuse":
                    raise DataError(f"{batch.place(int(np.flatnonzero(missing)[0]), j)} has empty cells or NaN.")
                values = values[~missing]
                if len(values):
                    lower[j], upper[j] = min(lower[j], values.min()), max(upper[j], values.max())
    return Bounds.read_from(np.stack([lower, upper]))


def _of_dask(X: Any, where: Dask, columns: Sequence[str] | None, nulls: Nulls) -> OpenedData:
    is_array = hasattr(X, "rechunk")
    if is_array and X.ndim != 2:
        raise DataError(f"Expected 2D array, got {X.ndim}D array instead. Reshape it to (records, features).")
    if not is_array and columns is not None:
        missing = sorted(set(columns) - set(X.columns))
        if missing:
            raise DataError(f"the frame has no column {missing[0]!r}.")
        X = X[list(columns)]
    names = None if is_array else tuple(str(name) for name in X.columns)

    def engine(bounds: Bounds) -> BlockEngine:
        from dpkmeans.engines.dask import DaskEngine

        client, close = where.connect()
        return DaskEngine.of_collection(client, X, bounds, nulls, watch=where.watch, on_close=close)

    def box() -> Bounds:
        return Bounds.read_from(np.stack([np.asarray(X.min(axis=0).compute()), np.asarray(X.max(axis=0).compute())]))

    return OpenedData(int(X.shape[1]) if is_array else len(X.columns), names, engine, box)


def _of_spark(X: Any, where: Spark, columns: Sequence[str] | None, nulls: Nulls) -> OpenedData:
    names = tuple(X.columns if columns is None else columns)
    types = dict(X.dtypes)
    for name in names:
        if name not in types:
            raise DataError(f"the frame has no column {name!r}.")
        if types[name].split("(")[0] not in _SPARK_NUMBERS:
            raise DataError(
                f"column {name!r} of the frame does not hold numbers (its type is {types[name]}). Leave it out."
            )

    def engine(bounds: Bounds) -> BlockEngine:
        from dpkmeans.engines.spark import SparkEngine

        session, close = where.connect()
        return SparkEngine.of_frame(session, X, bounds, names, nulls, watch=where.watch, on_close=close)

    def box() -> Bounds:
        found = [X.select(*names).groupBy().agg(dict.fromkeys(names, f)).collect()[0].asDict() for f in ("min", "max")]
        rows = [[float(row[f"{f}({n})"]) for n in names] for f, row in zip(("min", "max"), found, strict=True)]
        return Bounds.read_from(np.array(rows))

    return OpenedData(len(names), names, engine, box)


_SPARK_NUMBERS = {"double", "float", "int", "bigint", "smallint", "tinyint", "boolean", "decimal"}
