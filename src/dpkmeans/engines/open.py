"""The engine for opened records: the one that suits them, or the one that the caller forces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.schema import Schema
from dpkmeans.data.ids import WORDS
from dpkmeans.data.open import Collection, EngineName, Opened, open_records
from dpkmeans.data.source import ArrayPiece, Files, FrameSource, Nulls, Source
from dpkmeans.engines.block_engine import BlockEngine
from dpkmeans.engines.cluster import Connection
from dpkmeans.engines.config import Dask, Spark, Stream
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.persons import Door, OverKept, ids_left_out
from dpkmeans.engines.survey import (
    BatchTask,
    Survey,
    over_dask_collection,
    over_dask_source,
    over_source,
    over_spark_frame,
    over_spark_source,
)
from dpkmeans.errors import DataError, MethodError

A = TypeVar("A")

EngineSpec = str | Stream | Dask | Spark | None
MAX_SENT = 2**27  # numbers, a gigabyte
_KINDS: dict[str, type[Stream] | type[Dask] | type[Spark]] = {"stream": Stream, "dask": Dask, "spark": Spark}
_ROWS = 2**16


def _nothing() -> None:
    return


@dataclass(frozen=True, eq=False, repr=False)
class OpenedData:
    """Records that are ready for an engine. `records` holds them where they came as an array or a frame in memory.

    `chunks` reads them here, some at a time, shape (n, d) each; None where they stay on other machines, as those of a
    `collection` do. `reach` makes sure that the workers are there, if there are any, and `close` lets go of them; so
    does the engine's. `survey` asks the records as they are, before there is a box: with persons, those that count, and
    `survey_of_rows` all rows, which is not private. `named` says that the caller named the columns, or that none has a
    name.
    """

    n_features: int
    names: tuple[str, ...] | None
    engine: Callable[..., BlockEngine]
    survey: Survey
    records: AnyArray | None = None
    chunks: Callable[[], Iterator[AnyArray]] | None = None
    reach: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing
    named: bool = True
    survey_of_rows: Survey | None = None
    collection: Collection | None = None


def open_data(
    X: Any,
    engine: EngineSpec = None,
    *,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    nulls: Nulls = "refuse",
    door: Door | None = None,
    keep_missing: bool = False,
) -> OpenedData:
    """Records `X` for the engine that is forced, or the one that suits them. No pass over them yet.

    `columns` or a `schema` chooses and orders columns by name, for everything that has names; see `open_records`.
    With a `door`, the last column of the schema holds the ids of persons, and the engine sees what passes the door.
    With `keep_missing`, a survey sees missing values as NaN.
    """
    if isinstance(X, OpenedData):
        return X
    forced = as_engine(engine)  # refuses what is no engine before the records are read
    opened = _open(open_records(X, columns, schema=schema, nulls=nulls, keep_missing=keep_missing), forced, door)
    if door is not None:
        opened = without_ids(opened, door)
    named_by = X.columns if columns is None and isinstance(X, Files | FrameSource) else columns
    has_names = opened.names is not None or isinstance(X, str | Path | Files)
    return replace(opened, named=schema is not None or named_by is not None or not has_names)


def _open(opened: Opened, forced: Stream | Dask | Spark | str | None, door: Door | None) -> OpenedData:
    if isinstance(opened.found, Collection):
        if forced is not None and not isinstance(forced, _KINDS[opened.suits]):
            raise MethodError(
                f"a {opened.suits.title()} collection needs its own engine.", hint=f"Write {{engine={opened.suits!r}}}."
            )
        return (_of_dask if opened.suits == "dask" else _of_spark)(opened.found, forced, door)
    return _of_source(opened, as_engine(opened.suits) if forced is None else forced, door)


def as_engine(engine: EngineSpec) -> Stream | Dask | Spark | str | None:
    """An engine as a value, or "memory"; None where it is left to the records."""
    if engine is None or isinstance(engine, Stream | Dask | Spark) or engine == "memory":
        return engine
    if not isinstance(engine, str) or engine not in _KINDS:
        raise MethodError(
            f"must be one of {', '.join(get_args(EngineName))}, or a value such as Dask(workers=2); got {engine!r}.",
            parameter="engine",
        )
    return _KINDS[engine]()


def _of_source(opened: Opened, spec: Stream | Dask | Spark | str | None, door: Door | None) -> OpenedData:
    found = opened.found
    assert not isinstance(found, Collection)
    if isinstance(found, Source):
        source = found
    elif spec == "memory":
        source = found.hold()
    elif opened.shared and isinstance(spec, Dask | Spark) and not spec.starts_workers:
        source = found.for_workers()
    else:
        source = found.spool()
    if not opened.shared and isinstance(spec, Dask | Spark):
        source = _to_send(source)

    connection = Connection(spec) if isinstance(spec, Dask | Spark) else None

    def engine(bounds: Bounds, door: Door | None = door) -> BlockEngine:
        if isinstance(spec, Stream):
            from dpkmeans.engines.stream import StreamEngine

            seen = source if door is None else door.spill(source, bounds)
            return StreamEngine(seen, bounds, batch_rows=spec.batch_rows, n_threads=spec.n_threads, watch=spec.watch)
        if isinstance(spec, Dask):
            from dpkmeans.engines.dask import DaskEngine

            assert connection is not None
            return DaskEngine.of_source(connection.open(), source, bounds, door, **_options(spec, connection, door))
        if isinstance(spec, Spark):
            from dpkmeans.engines.spark import SparkEngine

            assert connection is not None
            return SparkEngine.of_source(connection.open(), source, bounds, door, **_options(spec, connection, door))
        return MemoryEngine.of_source(source if door is None else door.hold(source, bounds), bounds)

    def survey(task: BatchTask[A]) -> A:
        if connection is None:
            return over_source(task, source)
        over = over_dask_source if isinstance(spec, Dask) else over_spark_source
        return over(task, connection.open(), source, connection.worker_timeout)

    return OpenedData(
        source.n_features,
        source.names,
        engine,
        survey,
        records=opened.records if spec == "memory" else None,
        chunks=lambda: _chunks(source),
        reach=_nothing if connection is None else connection.reach,
        close=_nothing if connection is None else connection.close,
    )


def _of_dask(found: Collection, forced: Any, door: Door | None) -> OpenedData:
    spec = forced or Dask()
    connection = Connection(spec)

    def engine(bounds: Bounds, door: Door | None = door) -> BlockEngine:
        from dpkmeans.engines.dask import DaskEngine

        return DaskEngine.of_collection(connection.open(), found, bounds, door, **_options(spec, connection, door))

    def survey(task: BatchTask[A]) -> A:
        return over_dask_collection(task, connection.open(), found, spec.worker_timeout)

    reach, close = connection.reach, connection.close
    return OpenedData(found.n_features, found.names, engine, survey, reach=reach, close=close, collection=found)


def _of_spark(found: Collection, forced: Any, door: Door | None) -> OpenedData:
    spec = forced or Spark(session=found.records.sparkSession)
    connection = Connection(spec)

    def engine(bounds: Bounds, door: Door | None = door) -> BlockEngine:
        from dpkmeans.engines.spark import SparkEngine

        return SparkEngine.of_frame(connection.open(), found, bounds, door, **_options(spec, connection, door))

    def survey(task: BatchTask[A]) -> A:
        return over_spark_frame(task, connection.open(), found, spec.worker_timeout)

    reach, close = connection.reach, connection.close
    return OpenedData(found.n_features, found.names, engine, survey, reach=reach, close=close, collection=found)


def without_ids(opened: OpenedData, door: Door) -> OpenedData:
    """The same records without the ids behind their features. What an engine holds has passed the door.

    So has what a survey asks, which must be a question about cells.
    """
    chunks, survey = opened.chunks, opened.survey

    def of_rows(task: BatchTask[A]) -> A:
        return survey(ids_left_out(task))

    def asked(task: Any) -> Any:
        over = OverKept(task)
        with closing(opened.engine(over.bounds, door.looking(task.cells))) as engine:
            return engine.over(over)

    return replace(
        opened,
        n_features=opened.n_features - WORDS,
        names=None if opened.names is None else opened.names[:-WORDS],
        survey=asked,
        survey_of_rows=of_rows,
        records=None,
        chunks=None if chunks is None else lambda: (chunk[:, :-WORDS] for chunk in chunks()),
    )


def _options(spec: Dask | Spark, connection: Connection, door: Door | None) -> dict[str, Any]:
    """Those of an engine. One for a look at the rows leaves the connection open."""
    on_close = None if door is not None and door.look is not None else connection.close
    return {"watch": spec.watch, "on_close": on_close, "worker_timeout": spec.worker_timeout}


def _to_send(source: Source) -> Source:
    """The same records as arrays, which go to the workers with their tasks, so that a lost worker gets them again."""
    arrays, n = [], 0
    for batch in source.batches(_ROWS):
        n += batch.n * source.n_features
        if n > MAX_SENT:
            raise DataError(
                f"at most {MAX_SENT} numbers can be sent from here to workers; there are more. Write the records "
                "to Parquet files that every worker can read."
            )
        arrays.append(batch.rows())
    return replace(source, pieces=(ArrayPiece(np.concatenate(arrays), source.names),), keep=None)


def _chunks(source: Source) -> Iterator[AnyArray]:
    """The records, shape (n, d) at a time. Missing values are NaN, or refused."""
    for batch in source.batches(_ROWS):
        if source.nulls == "refuse":
            batch.refuse_missing()
        yield batch.rows()
