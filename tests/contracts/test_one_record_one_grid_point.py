"""One record in, one grid point out: what becomes of a record does not depend on its neighbours, on any path.

For data sets D and D ∪ {x}, x anywhere, the grid points of D within D ∪ {x} are those of D, and each is the point of
the correctly rounded float64. Bounds are chosen so that a grid step is one unit in the last place of the values: an
error of a single rounding shows. A table of many columns holds many pairs of data sets of one feature.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.engines.clusters import shared_dask_client, spark_session

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines.config import Dask, Spark, Stream
from dpkmeans.engines.open import open_data
from dpkmeans.engines.packing import grid_points

ULP = 2.0**-53  # of floats from 0.5 to 1
Rows = list[list[Any]]


@dataclass(frozen=True)
class Kind:
    """Values of one kind, and bounds of which a grid step is the distance of neighbouring floats among them."""

    draw: Callable[[random.Random], Any]
    odd: tuple[Any, ...] = ()  # records that change the type which a reader infers
    lower: float = 0.75
    upper: float = 0.75 + 2**20 * ULP

    def box(self, d: int) -> Bounds:
        return Bounds.of((self.lower, self.upper), d)


def decimal(rng: random.Random) -> Decimal:
    digits = rng.randrange(3, 13)
    return Decimal("0.75") + Decimal(rng.randrange(10**digits)).scaleb(-10 - digits)


def fraction(rng: random.Random) -> Fraction:
    return Fraction(3, 4) + Fraction(rng.randrange(2**24), 2**57 + rng.randrange(100))


def whole(rng: random.Random) -> int:
    return 2**60 + rng.randrange(2**28)


FLOATS = Kind(lambda rng: 0.75 + rng.randrange(2**20) * ULP, (0.5, 1e300, -1e300, -0.0))
DECIMALS = Kind(decimal, tuple(map(Decimal, ("1", "0.7500000000000000000000000001", "-7e3", "123456789.5", "0"))))
SMALL = Kind(lambda rng: rng.randrange(2), (0, 1), 0.0, 1.0)
WHOLE = Kind(whole, (0, -1, 2**53 + 1, 2**62), float(2**60), float(2**60 + 2**28))
TEXT = Kind(lambda rng: str(decimal(rng)), ("1", "1e3", "-1e300", "9007199254740993", " 1.5 ", "1e308", "+1."))
MIXED = Kind(
    lambda rng: rng.choice([decimal, fraction, FLOATS.draw])(rng),
    (1, True, 2**70, -(10**300), np.float32(1.1), Decimal("1.000000000000000000000000000001"), np.longdouble("1.1")),
)


def points(records: Any, box: Bounds, n: int, engine: Any = None) -> Any:
    """The grid points that an engine holds, in the order of the records."""
    held = open_data(records, engine).engine(box)
    found = reveal(held.sample_rows(n, np.random.default_rng(0)), why="a test looks")
    ordered = np.empty_like(found)
    ordered[np.random.default_rng(0).choice(n, n, replace=False)] = found
    held.close()
    return ordered


@dataclass
class Check:
    """Compares D with D ∪ {x} for many D, x and places of x, and counts the pairs, one for each column."""

    make: Callable[[Rows], Any]
    kind: Kind
    d: int = 2
    n: int = 5
    engine: Any = None
    pairs: int = field(default=0, init=False)

    def expected(self, rows: Rows) -> Any:
        return grid_points(np.array([[float(value) for value in row] for row in rows]), self.kind.box(self.d))

    def run(self, n_pairs: int, seed: int = 0) -> int:
        rng, box = random.Random(seed), self.kind.box(self.d)
        while self.pairs < n_pairs:
            D = [[self.kind.draw(rng) for _ in range(self.d)] for _ in range(self.n)]
            assert np.array_equal(points(self.make(D), box, self.n, self.engine), self.expected(D))
            for place in range(self.n + 1):
                x = [rng.choice(self.kind.odd or (self.kind.draw(rng),)) for _ in range(self.d)]
                more = [*D[:place], x, *D[place:]]
                found = points(self.make(more), box, self.n + 1, self.engine)
                assert np.array_equal(np.delete(found, place, axis=0), self.expected(D)), (more, place)
                assert np.array_equal(found, self.expected(more))
                self.pairs += self.d
        return self.pairs


def columns_of(rows: Rows) -> dict[str, list[Any]]:
    return {f"c{j}": [row[j] for row in rows] for j in range(len(rows[0]))}


def extremes(dtype: Any) -> tuple[Any, ...]:
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else (0, 1)


def arrow(rows: Rows) -> pa.Table:
    return pa.table(columns_of(rows))


def dictionary(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array(values).dictionary_encode() for name, values in columns_of(rows).items()})


def arrow_frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.arrays.ArrowExtensionArray(pa.array(values)) for name, values in columns_of(rows).items()}
    )


def chosen(make: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
    """The same through `FrameSource`, with the columns named."""
    return lambda rows: FrameSource(make(rows), columns=tuple(columns_of(rows)))


def frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(columns_of(rows))


def object_frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(columns_of(rows), dtype=object)


def nullable(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(columns_of(rows)).convert_dtypes()


def objects(rows: Rows) -> Any:
    return np.array(rows, dtype=object)


def chunks(rows: Rows) -> Any:
    """Each record in an array of its own type; an empty array between any two."""
    return [array for row in rows for array in (np.array([row]), np.empty((0, len(row))))]


def polars(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(columns_of(rows))


INFERRED: dict[str, tuple[Callable[[Rows], Any], Kind]] = {
    "lists of mixed numbers": (lambda rows: rows, MIXED),
    "lists of floats": (lambda rows: rows, FLOATS),
    "lists of whole numbers": (lambda rows: rows, WHOLE),
    "lists of decimals": (lambda rows: rows, DECIMALS),
    "arrays of objects": (objects, MIXED),
    "pandas": (frame, FLOATS),
    "pandas, whole numbers": (frame, WHOLE),
    "pandas, mixed objects": (object_frame, MIXED),
    "pandas, text": (frame, Kind(TEXT.draw, ("1", " 1.5 ", "1e300", 1.5, Decimal("1.1"), 2**70))),
    "pandas, decimals": (frame, DECIMALS),
    "pandas, decimals in Arrow": (arrow_frame, DECIMALS),
    "pandas, nullable": (nullable, FLOATS),
    "pandas, nullable whole numbers": (nullable, WHOLE),
    "pandas, chosen columns": (chosen(object_frame), MIXED),
    "polars": (polars, FLOATS),
    "polars, whole numbers": (polars, WHOLE),
    "polars, decimals": (polars, DECIMALS),
    "polars, chosen decimals": (chosen(polars), DECIMALS),
    "Arrow": (arrow, FLOATS),
    "Arrow, whole numbers": (arrow, WHOLE),
    "Arrow, decimals": (arrow, DECIMALS),
    "Arrow, chosen decimals": (chosen(arrow), DECIMALS),
    "Arrow, dictionary": (dictionary, FLOATS),
    "Arrow stream": (lambda rows: arrow(rows).to_reader(), DECIMALS),
    "chunks": (chunks, FLOATS),
    "chunks of objects": (chunks, DECIMALS),
}
DTYPES = ["f2", "f4", "f8", "g", ">f8", ">i4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
PAIRS = 500  # on each of the paths in memory


@pytest.mark.parametrize("path", INFERRED)
def test_a_table_in_memory_whose_types_are_inferred(path: str) -> None:
    make, kind = INFERRED[path]
    assert Check(make, kind, engine="memory").run(PAIRS) >= PAIRS


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_each_dtype(dtype: str, engine: str) -> None:
    kind = WHOLE if dtype in ("i8", "u8") else FLOATS if dtype in ("f8", "g", ">f8") else SMALL
    odd = extremes(dtype) if np.dtype(dtype).kind in "iu" else kind.odd if kind is FLOATS else (0, 1)
    kind = Kind(kind.draw, odd, kind.lower, kind.upper)
    spec = "memory" if engine == "memory" else Stream(batch_rows=3, n_threads=1)
    check = Check(lambda rows: np.array(rows, dtype=dtype), kind, d=2 if engine == "memory" else 20, engine=spec)
    assert check.run(PAIRS // 2) >= PAIRS // 2


def csv_file(folder: Path, rows: Rows) -> Path:
    (folder / "a.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    return folder / "a.csv"


def csv_parts(folder: Path, rows: Rows) -> Path:
    """A file for each of the first four records, empty ones beyond them, compressed, and the rest in the last."""
    for i in range(8):
        part = rows[i : i + 1] if i < 4 else rows[4:] if i == 7 else []
        (folder / f"{i}.csv.gz").write_bytes(gzip.compress("".join(",".join(row) + "\n" for row in part).encode()))
    return folder


def parquet_file(folder: Path, rows: Rows) -> Path:
    parquet.write_table(arrow(rows), folder / "a.parquet", row_group_size=2)
    return folder / "a.parquet"


def parquet_parts(folder: Path, rows: Rows) -> Path:
    """Each record in a file of its own, whose types are inferred from it alone."""
    for old in folder.glob("*.parquet"):
        old.unlink()
    for i, row in enumerate(rows):
        parquet.write_table(arrow([row]), folder / f"{i}.parquet")
    return folder


def memory_map(folder: Path, rows: Rows) -> Any:
    np.save(folder / "a.npy", np.array(rows))
    return np.load(folder / "a.npy", mmap_mode="r")


FILES: dict[str, tuple[Callable[[Path, Rows], Any], Kind]] = {
    "CSV": (csv_file, TEXT),
    "CSV files": (csv_parts, TEXT),
    "Parquet": (parquet_file, FLOATS),
    "Parquet, whole numbers": (parquet_file, WHOLE),
    "Parquet, decimals": (parquet_file, DECIMALS),
    "Parquet files, decimals": (parquet_parts, DECIMALS),
    "memory map": (memory_map, FLOATS),
}


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("path", FILES)
def test_files(path: str, engine: str, tmp_path: Path) -> None:
    write, kind = FILES[path]

    def make(rows: Rows) -> Any:
        written = write(tmp_path, rows)
        return Files(written, header=False) if isinstance(written, Path) else written

    assert Check(make, kind, d=100, n=4, engine=engine).run(PAIRS) >= PAIRS


def test_a_large_csv_file_is_read_like_a_small_one(tmp_path: Path) -> None:
    """Beyond one block of the reader, and beyond the size up to which the command holds a file in memory."""
    rng = random.Random(0)
    cells = [str(decimal(rng)) for _ in range(2000)]
    odd = [cell.strip() for cell in TEXT.odd]
    expected = grid_points(np.array([[float(cell)] for cell in cells]), TEXT.box(1))
    block = "\n".join(cells) + "\n"
    repeats = 2**24 // len(block) + 1  # more than a block of the reader
    path = tmp_path / "large.csv"
    for x in odd[1:3]:
        path.write_text(x + "\n" + block * repeats)
        for engine in ("memory", "stream"):
            held = open_data(Files(path, header=False), engine)
            assert held.chunks is not None
            rows = np.concatenate(list(held.chunks()))
            assert rows[0, 0] == float(x)
            assert np.array_equal(grid_points(rows[1:], TEXT.box(1)), np.tile(expected, (repeats, 1)))


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_value_becomes_the_middle_and_moves_no_other(missing: Any) -> None:
    def check(make: Callable[[Rows], Any], kind: Kind, rows: Rows) -> None:
        box, alone = kind.box(1), points(FrameSource(make(rows), nulls="midpoint"), kind.box(1), len(rows))
        for place in range(len(rows) + 1):
            more = [*rows[:place], [missing], *rows[place:]]
            found = points(FrameSource(make(more), nulls="midpoint"), box, len(more))
            assert np.array_equal(np.delete(found, place, axis=0), alone)
            assert found[place, 0] == 0.5

    rng = random.Random(0)
    for _ in range(20):
        for make, kind in ((object_frame, MIXED), (frame, FLOATS), (nullable, WHOLE)):
            check(make, kind, [[kind.draw(rng)] for _ in range(4)])
        if missing is None:
            for make, kind in ((arrow, DECIMALS), (arrow, WHOLE), (polars, DECIMALS), (polars, WHOLE)):
                check(make, kind, [[kind.draw(rng)] for _ in range(4)])


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_dask_arrays_and_frames() -> None:
    import dask
    import dask.array
    import dask.dataframe

    def parts(make: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
        return lambda rows: dask.dataframe.from_pandas(make(rows), npartitions=2, sort=False)

    # otherwise Dask itself makes text of columns of objects, and of a float32 another number
    with shared_dask_client() as client, dask.config.set({"dataframe.convert-string": False}):
        wide: dict[str, Any] = {"d": 200, "n": 2, "engine": Dask(client=client)}
        for make, kind in ((object_frame, MIXED), (frame, DECIMALS), (frame, WHOLE), (arrow_frame, DECIMALS)):
            Check(parts(make), kind, **wide).run(600)
        Check(lambda rows: dask.array.from_array(np.array(rows), chunks=(2, 50)), FLOATS, **wide).run(600)


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_spark_frames() -> None:
    def scale(values: Iterable[Any]) -> int:
        return max(-int(value.as_tuple().exponent) for value in values)

    def decimals(session: Any) -> Callable[[Rows], Any]:
        def make(rows: Rows) -> Any:  # the scale is that of the longest decimal, so it depends on all records
            types = [f"{name} decimal(38, {max(scale(values), 0)})" for name, values in columns_of(rows).items()]
            return session.createDataFrame([tuple(row) for row in rows], ", ".join(types)).coalesce(1)

        return make

    def plain(session: Any, kind: str) -> Callable[[Rows], Any]:
        def make(rows: Rows) -> Any:
            types = ", ".join(f"{name} {kind}" for name in columns_of(rows))
            return session.createDataFrame([tuple(row) for row in rows], types).coalesce(1)

        return make

    with spark_session() as session:
        wide: dict[str, Any] = {"d": 100, "n": 2, "engine": Spark(session=session)}
        Check(decimals(session), DECIMALS, **wide).run(300)
        Check(plain(session, "bigint"), WHOLE, **wide).run(300)


def test_the_values_tell_a_wrong_conversion_from_a_right_one() -> None:
    """Arrow's own cast of decimals moves points, and which ones depends on the longest decimal."""
    rng, box = random.Random(1), DECIMALS.box(1)
    values = [decimal(rng) for _ in range(200)]
    casts = [pa.array([*values, x]).cast("float64").to_numpy()[:-1, None] for x in (Decimal(1), DECIMALS.odd[1])]
    alone, beside = (grid_points(cast, box) for cast in casts)
    assert (alone != grid_points(np.array([[float(value)] for value in values]), box)).mean() > 0.05
    assert (alone != beside).mean() > 0.05


def test_at_least_20_000_pairs_are_compared() -> None:
    assert len(INFERRED) * PAIRS + len(DTYPES) * 2 * (PAIRS // 2) + len(FILES) * 2 * PAIRS > 20_000
